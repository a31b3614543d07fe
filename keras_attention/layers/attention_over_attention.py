"""`AttentionOverAttention`: how much each word of a document matters to a whole query; and the pointer sum over it."""

from __future__ import annotations

import keras
from keras import backend, ops

from keras_attention import alignments, scores
from keras_attention.layers.sequence_pooling import check_rank, check_sequence_mask

__all__ = ["AttentionOverAttention", "sum_attention"]


def sum_attention(weights, document_ids, candidate_ids, padding_id=0):
    """How likely each candidate is: the weights of all places of the document where it stands, summed.

    Cui et al., 2017 (arXiv 1607.04423), section 3, "Final Predictions": `P(w) = Σ_{i: d_i = w} s_i`.

    Args:
        weights: float (B, Td), what `AttentionOverAttention` returns: 0 on padding.
        document_ids: int (B, Td), the words of the document.
        candidate_ids: int (B, C), the words to choose from.
        padding_id: int. Candidates of this id are padding and get exactly 0.

    Returns:
        probabilities (B, C), in the precision of `weights`; a candidate that is not in the document gets 0. They sum
        to 1 over the distinct words of a document.

    Raises:
        ValueError: a wrong rank, or lengths or batches that differ.
        TypeError: ids that are not integers.
    """
    for name, ids, axes in (("document_ids", document_ids, "(B, Td)"), ("candidate_ids", candidate_ids, "(B, C)")):
        check_rank(f"argument `{name}`", ids.shape, axes)
        if "int" not in backend.standardize_dtype(ids.dtype):
            raise TypeError(f"`{name}` must be integers. Received {backend.standardize_dtype(ids.dtype)}. Pass ids.")
    check_rank("argument `weights`", weights.shape, "(B, Td)")
    if _differ(weights.shape, document_ids.shape) or _differ(weights.shape[:1], candidate_ids.shape[:1]):
        raise ValueError(
            f"`weights` and `document_ids` must be of one shape (B, Td), `candidate_ids` of the same B. Received "
            f"{tuple(weights.shape)}, {tuple(document_ids.shape)} and {tuple(candidate_ids.shape)}. "
            f"Pass all three of the same examples."
        )
    weights, document_ids, candidate_ids = (
        ops.convert_to_tensor(one) for one in (weights, document_ids, candidate_ids)
    )
    candidate_ids = ops.expand_dims(ops.cast(candidate_ids, document_ids.dtype), 2)
    same = ops.equal(candidate_ids, ops.expand_dims(document_ids, 1))  # between symbolic tensors, `==` is Python's `is`
    there = ops.logical_and(same, ops.not_equal(candidate_ids, padding_id))
    weights = ops.expand_dims(weights, 1)
    return ops.sum(ops.where(there, weights, ops.zeros_like(weights)), axis=-1)  # over (B, C, Td)


@keras.saving.register_keras_serializable("keras_attention")
class AttentionOverAttention(keras.layers.Layer):
    """Attention over attention: each word of a query looks at a document, and the document says which of them to trust.

    Cui et al., 2017 (arXiv 1607.04423), section 3, with d_i and q_j the states of document and query: the pair-wise
    matching score `M(i, j) = d_i · q_j`; `α(j) = softmax_i M(i, j)`, what query word j looks at;
    `β(i) = softmax_j M(i, j)`, which query words document word i looks at, and `β = 1/n Σ_i β(i)` their mean over the
    n words of the document; `s = αᵀ β`, the attended attention. `sum_attention` makes probabilities of words of it.
    Differs from the paper: none; α has a row for each query word, as they ask.

    Args:
        score: str, `keras_attention.scores.Score`, or the config of one; "dot" in the paper. The query asks, the
            document is the key. See `keras_attention.scores.get`.
        units: int > 0. Width of the hidden layer of the scores that have one.

    Call arguments:
        inputs: `[document, query]`, float (B, Td, Dd), (B, Tq, Dq); most scores want Dd = Dq.
        mask: `[document_mask, query_mask]`, bool (B, Td), (B, Tq), True = keep; default are the masks that Keras
            passes on, or keeps all.
        return_attention_scores: bool. Also return α and β.
        training: bool. Changes nothing here.

    Returns:
        `weights` (B, Td), s; with `return_attention_scores`, `weights`, `alpha` (B, Tq, Td) and `beta` (B, Tq). All
        are in at least float32. Each row sums to 1 and is exactly 0 on masked places. Rows of `alpha` of masked query
        words are 0. Where document or query is empty, all three are 0.

    Raises:
        ValueError: inputs or masks that are no pair, a wrong rank, batches that differ, an unknown `score`, one that
            wants other widths, or one with a score a channel or with a memory.
        TypeError: a mask that is not bool.

    Example:
    >>> document, query = keras.random.normal((2, 7, 6)), keras.random.normal((2, 3, 6))
    >>> weights = AttentionOverAttention()([document, query])
    >>> weights.shape
    TensorShape([2, 7])
    """

    weights_axes = {"alpha": (), "beta": ()}  # noqa: RUF012 - names of its two weights, none with further axes

    def __init__(self, score="dot", units=None, **kwargs):
        super().__init__(**kwargs)
        if isinstance(score, dict):
            score = keras.saving.deserialize_keras_object(score)
        self.score = scores.get(score, units=units, dtype=self.dtype_policy)
        self.score_name = score if isinstance(score, str) else None
        self.units = units
        self.supports_masking = True
        if self.score.per_channel or self.score.has_memory:
            what = (
                "gives one a channel" if self.score.per_channel else "depends on the weights of the query word before"
            )
            raise ValueError(
                f"AttentionOverAttention wants one score a pair of words, (B, Tq, Td), of all pairs at once. "
                f"Received {type(self.score).__name__}, which {what}. Use 'dot' or 'general'."
            )

    def build(self, input_shape):
        document_shape, query_shape = _pair(input_shape, "inputs")
        _check_pair(document_shape, query_shape)
        if not self.score.built:  # one that was given may be
            self.score.build([query_shape, document_shape])
        self.built = True

    def call(self, inputs, mask=None, return_attention_scores=False, training=None):
        document, query, document_mask, query_mask = self.opened(inputs, mask)
        score = self.score.score(query, self.score.prepare_key(document))  # (B, Tq, Td), Mᵀ
        pairs = alignments.combine_masks(None, value_mask=document_mask, query_mask=query_mask)
        if pairs is not None:
            pairs = ops.broadcast_to(pairs, ops.shape(score))
        alpha = alignments.softmax(score, pairs)
        turned = None if pairs is None else ops.transpose(pairs, (0, 2, 1))
        beta = self.mean(alignments.softmax(ops.transpose(score, (0, 2, 1)), turned), document_mask)
        weights = ops.squeeze(ops.matmul(ops.expand_dims(beta, 1), alpha), 1)
        return (weights, alpha, beta) if return_attention_scores else weights

    def opened(self, inputs, mask):
        """The parts of a call, checked: document, query, document_mask, query_mask."""
        document, query = _pair(inputs, "inputs")
        _check_pair(document.shape, query.shape)
        document_mask, query_mask = (None, None) if mask is None else _pair(mask, "mask")
        check_sequence_mask("document mask", document_mask, document.shape[:2], "(B, Td)")
        check_sequence_mask("query mask", query_mask, query.shape[:2], "(B, Tq)")
        return document, query, document_mask, query_mask

    def mean(self, each, document_mask):
        """`1/n Σ_i β(i)` over the words that are kept: each (B, Td, Tq), 0 on masked words → (B, Tq)."""
        if document_mask is None:
            return ops.mean(each, axis=1)
        kept = ops.sum(ops.cast(document_mask, each.dtype), axis=1, keepdims=True)
        return ops.sum(each, axis=1) / ops.maximum(kept, 1)

    def compute_mask(self, inputs, mask=None):
        """None: what comes out are weights, 0 on padding."""
        return None

    def compute_output_shape(self, input_shape):
        return tuple(_pair(input_shape, "inputs")[0][:2])

    def compute_output_spec(self, inputs, mask=None, return_attention_scores=False, training=None):
        document, query, _, _ = self.opened(inputs, mask)
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        batch, document_length = document.shape[:2]
        weights = keras.KerasTensor((batch, document_length), wide)
        if not return_attention_scores:
            return weights
        alpha = keras.KerasTensor((batch, query.shape[1], document_length), wide)
        return weights, alpha, keras.KerasTensor((batch, query.shape[1]), wide)

    def get_config(self):
        score = self.score_name
        if score is None:
            score = keras.saving.serialize_keras_object(self.score)
            score.pop("build_config", None)  # built again by this layer, so that its weights keep their paths
        return {**super().get_config(), "score": score, "units": self.units}


def _pair(pair, name):
    """Document and query of `inputs` or of `mask`."""
    wanted = {"inputs": "[document, query]", "mask": "[document_mask, query_mask]"}[name]
    shape = getattr(pair, "shape", None)
    if isinstance(pair, (list, tuple)) and all(size is None or isinstance(size, int) for size in pair):
        shape = None if name == "mask" else pair  # Keras builds with the shape of one tensor, or with a list of shapes
    if shape is not None or not isinstance(pair, (list, tuple)) or len(pair) != 2:
        received = f"a {type(pair).__name__} of {len(pair)}" if shape is None else f"one tensor of shape {tuple(shape)}"
        raise ValueError(f"`{name}` must be a list {wanted}. Received {received}.")
    return pair


def _check_pair(document_shape, query_shape):
    check_rank("document", document_shape, "(B, Td, Dd)")
    check_rank("query", query_shape, "(B, Tq, Dq)")
    if _differ(document_shape[:1], query_shape[:1]):
        raise ValueError(
            f"Document and query must have the same batch size B. Received document {tuple(document_shape)}, "
            f"query {tuple(query_shape)}. Pass both of the same examples."
        )


def _differ(one, other):
    """Whether two shapes of one rank differ in a size that is known."""
    return any(None not in pair and pair[0] != pair[1] for pair in zip(one, other, strict=True))
