"""`ConditionalRandomField`: scores of whole tag sequences, by which the tags of a sentence are chosen together."""

from __future__ import annotations

import keras
from keras import backend, ops

from keras_attention.layers.sequence_pooling import check_rank, check_sequence_mask
from keras_attention.precision import at_least_float32

__all__ = ["ConditionalRandomField"]

_FORBIDDEN = -1e9  # added to a score: far below any other, and finite, so that no gradient becomes NaN


@keras.saving.register_keras_serializable("keras_attention")
class ConditionalRandomField(keras.layers.Layer):
    """A linear chain over the tags of a sequence.

    Lafferty et al., 2001, section 3, with the features of Lample et al., 2016 (arXiv 1603.01360), section 2.2:
    `s(x, y) = start[y₁] + Σ_t emissions[t, y_t] + Σ_t transitions[y_t, y_{t+1}] + end[y_n]` and
    `log p(y | x) = s(x, y) − log Σ_y' exp s(x, y')`. All but `decode` have gradients; train with the mean of
    `-log_likelihood`. Differs from the papers: none; start and end are vectors, where Lample et al. add two tags.

    Masked places are as if they were not there, wherever they stand: the kept tags before and after one are neighbours.
    An empty row has log-partition, score and log-likelihood 0, and no gradient. Sums run in at least float32.

    The places are read one after the other; on TensorFlow such a loop has no gradient under XLA, so that
    `jit_compile="auto"` leaves it out.

    Args:
        num_tags: int > 0. K.
        allowed_transitions: bool (K, K), nested lists: whether tag j may follow tag i. None allows all.
        allowed_start, allowed_end: bool (K,), lists: whether a sequence may start or end with a tag. None allows all.
            A forbidden step costs 1e9 and is never learnt: no tag sequence that `decode` returns has one, unless every
            sequence of that length does. Targets with one have a log-likelihood near -1e9, so check them first.
        transition_initializer, transition_regularizer: of `transitions`, as Keras has them. start and end begin at 0.

    Call arguments:
        inputs: float (B, T, K), the emissions: scores of each tag at each place, no probabilities.
        mask: bool (B, T), True = keep; default is the mask that Keras passes on, or keeps all.

    Returns:
        the marginals (B, T, K), see `marginals`.

    Raises:
        ValueError: `num_tags` < 1, a matrix or list of another size than K, nothing allowed at the start or at the
            end, or a tensor of a wrong shape.
        TypeError: a mask that is not bool, tags that are no integers.

    Example:
    >>> crf = ConditionalRandomField(3)
    >>> emissions = keras.random.normal((2, 5, 3))
    >>> tags, score = crf.decode(emissions)
    >>> tags.shape, score.shape
    (TensorShape([2, 5]), TensorShape([2]))
    """

    def __init__(
        self,
        num_tags,
        allowed_transitions=None,
        allowed_start=None,
        allowed_end=None,
        transition_initializer="glorot_uniform",
        transition_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if isinstance(num_tags, bool) or not isinstance(num_tags, int) or num_tags < 1:
            raise ValueError(f"`num_tags` must be an int > 0. Received {num_tags!r}.")
        self.num_tags = num_tags
        self.allowed_transitions = _checked_rows("allowed_transitions", allowed_transitions, num_tags)
        self.allowed_start = _checked_row("allowed_start", allowed_start, num_tags)
        self.allowed_end = _checked_row("allowed_end", allowed_end, num_tags)
        self.transition_initializer = keras.initializers.get(transition_initializer)
        self.transition_regularizer = keras.regularizers.get(transition_regularizer)
        self.supports_masking = True
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self.transitions = self.add_weight(
            name="transitions",
            shape=(num_tags, num_tags),
            initializer=self.transition_initializer,
            regularizer=self.transition_regularizer,
            autocast=False,
        )
        self.start = self.add_weight(name="start", shape=(num_tags,), initializer="zeros", autocast=False)
        self.end = self.add_weight(name="end", shape=(num_tags,), initializer="zeros", autocast=False)
        self.built = True

    def build(self, input_shape):
        self._check_emissions(input_shape)
        self.built = True

    def call(self, inputs, mask=None):
        return self.marginals(inputs, mask)

    def log_likelihood(self, emissions, tags, mask=None):
        """`log p(y | x)` of tag sequences.

        Args:
            emissions: float (B, T, K).
            tags: int (B, T), each in 0 … K − 1 where the mask keeps it; anything elsewhere.
            mask: bool (B, T), True = keep; None keeps all.

        Returns:
            float (B,), at most 0; NaN where a kept tag is out of range.
        """
        return self.path_score(emissions, tags, mask) - self.log_partition(emissions, mask)

    def path_score(self, emissions, tags, mask=None):
        """`s(x, y)` of tag sequences; arguments as for `log_likelihood` → float (B,)."""
        emissions, mask = self._checked(emissions, mask)
        tags = self._checked_tags(tags, emissions.shape)
        known = ops.logical_and(ops.greater_equal(tags, 0), ops.less(tags, self.num_tags))
        tags = ops.where(ops.logical_and(mask, known), tags, ops.zeros_like(tags))
        transitions, start, end = self._scores(emissions.dtype)
        before, last = _neighbours(tags, mask, self.num_tags)
        steps = ops.reshape(ops.concatenate([transitions, ops.expand_dims(start, 0)]), (-1,))  # row K: from the start
        emitted = _at(emissions, tags, self.num_tags) + ops.take(steps, before * self.num_tags + tags, axis=0)
        ends = ops.take(ops.concatenate([end, ops.zeros_like(end[:1])]), last, axis=0)  # entry K: of an empty row
        score = ops.sum(ops.where(mask, emitted, ops.zeros_like(emitted)), axis=1) + ends
        right = ops.all(ops.logical_or(known, ops.logical_not(mask)), axis=1)
        return ops.where(right, score, ops.full_like(score, float("nan")))

    def log_partition(self, emissions, mask=None):
        """`log Σ_y exp s(x, y)`, by the forward algorithm; arguments as for `log_likelihood` → float (B,)."""
        emissions, mask = self._checked(emissions, mask)
        transitions, start, end = self._scores(emissions.dtype)
        first = _first(mask)

        def step(t, alpha):
            now, keep = ops.take(emissions, t, axis=1), ops.take(mask, t, axis=1)
            return _forward(alpha, now, keep, ops.take(first, t, axis=1), transitions, start)

        alpha = _loop(emissions.shape[1], ops.shape(emissions)[1], step, ops.zeros_like(ops.sum(emissions, axis=1)))
        total = ops.logsumexp(alpha + end, axis=-1)
        return ops.where(ops.any(mask, axis=1), total, ops.zeros_like(total))

    def marginals(self, emissions, mask=None):
        """`p(y_t = k | x)`, by the forward-backward algorithm.

        Args: as for `log_likelihood`.

        Returns:
            float (B, T, K), in at least float32: sums to 1 over K, and is exactly 0 on masked places. It is the
            gradient of `log_partition` for the emissions.
        """
        emissions, mask = self._checked(emissions, mask)
        transitions, start, end = self._scores(emissions.dtype)
        first, length, nothing = _first(mask), ops.shape(emissions)[1], ops.zeros_like(ops.sum(emissions, axis=1))
        rows = ops.zeros_like(ops.transpose(emissions, (1, 0, 2)))  # (T, B, K)

        def forward(t, carry):
            rows, alpha = carry
            now, keep = ops.take(emissions, t, axis=1), ops.take(mask, t, axis=1)
            alpha = _forward(alpha, now, keep, ops.take(first, t, axis=1), transitions, start)
            return _write(rows, t, alpha), alpha

        def backward(step, carry):
            rows, after = carry
            t = length - 1 - step
            now, keep = ops.take(emissions, t, axis=1), ops.take(mask, t, axis=1)
            before = ops.logsumexp(transitions + ops.expand_dims(now + after, 1), axis=2)  # (B, K from, K to)
            return _write(rows, t, after), ops.where(ops.expand_dims(keep, -1), before, after)

        alphas, _ = _loop(emissions.shape[1], length, forward, (rows, nothing))
        betas, _ = _loop(emissions.shape[1], length, backward, (rows, nothing + end))
        joint = ops.transpose(alphas + betas, (1, 0, 2))
        shares = ops.softmax(joint, axis=-1) if self.num_tags > 1 else ops.ones_like(joint)  # it warns of one tag
        return ops.where(ops.expand_dims(mask, -1), shares, ops.zeros_like(shares))

    def decode(self, emissions, mask=None):
        """The best tag sequence, by the Viterbi algorithm. Among equals, the lowest tag.

        Args: as for `log_likelihood`.

        Returns:
            `tags`, int32 (B, T), 0 on masked places, and their `score`, float (B,): `s(x, y)`.
            `score - log_partition(…)` is the logarithm of their probability.
        """
        emissions, mask = self._checked(emissions, mask)
        transitions, start, end = self._scores(emissions.dtype)
        first, length = _first(mask), ops.shape(emissions)[1]
        best = ops.zeros_like(ops.sum(emissions, axis=1))
        itself = ops.zeros_like(best, dtype="int32") + ops.arange(self.num_tags, dtype="int32")  # (B, K)
        pointers = ops.zeros_like(ops.transpose(emissions, (1, 0, 2)), dtype="int32")

        def forward(t, carry):
            pointers, best = carry
            keep, begins = ops.take(mask, t, axis=1), ops.take(first, t, axis=1)
            steps = ops.expand_dims(best, 2) + transitions  # (B, K from, K to)
            came_from = _argmax(steps, axis=1)
            moved = ops.logical_and(keep, ops.logical_not(begins))
            pointers = _write(pointers, t, ops.where(ops.expand_dims(moved, -1), came_from, itself))
            arrived = ops.where(ops.expand_dims(begins, -1), start + ops.zeros_like(best), ops.max(steps, axis=1))
            arrived = arrived + ops.take(emissions, t, axis=1)
            return pointers, ops.where(ops.expand_dims(keep, -1), arrived, best)

        def backward(step, carry):
            tags, tag = carry
            t = length - 1 - step
            tags = _write(tags, t, ops.where(ops.take(mask, t, axis=1), tag, ops.zeros_like(tag)))
            return tags, _at(ops.take(pointers, t, axis=0), tag, self.num_tags)

        pointers, best = _loop(emissions.shape[1], length, forward, (pointers, best))
        tags = ops.zeros_like(ops.transpose(mask), dtype="int32")  # (T, B)
        last = _argmax(best + end, axis=1)
        tags, _ = _loop(emissions.shape[1], length, backward, (tags, last))
        score = ops.max(best + end, axis=-1)
        return ops.transpose(tags), ops.where(ops.any(mask, axis=1), score, ops.zeros_like(score))

    def _scores(self, dtype):
        """transitions (K, K), start (K,), end (K,), what is forbidden far below all others."""
        allowed = (self.allowed_transitions, self.allowed_start, self.allowed_end)
        scores = (ops.cast(one, dtype) for one in (self.transitions, self.start, self.end))
        return tuple(
            score if may is None else ops.where(ops.array(may, "bool"), score, ops.full_like(score, _FORBIDDEN))
            for score, may in zip(scores, allowed, strict=True)
        )

    def _checked(self, emissions, mask):
        """Emissions in at least float32, 0 where masked, and a mask in any case."""
        emissions = at_least_float32(emissions)
        self._check_emissions(emissions.shape)
        if mask is None:
            return emissions, ops.ones_like(emissions[:, :, 0], dtype="bool")
        mask = ops.convert_to_tensor(mask)
        check_sequence_mask("mask", mask, emissions.shape[:2])
        return ops.where(ops.expand_dims(mask, -1), emissions, ops.zeros_like(emissions)), mask

    def _check_emissions(self, shape):
        check_rank("emissions", shape, "(B, T, K)")
        if shape[-1] is not None and shape[-1] != self.num_tags:
            raise ValueError(
                f"The emissions must have a score for each of the {self.num_tags} tags. Received {tuple(shape)}. "
                f"Put `Dense({self.num_tags})` before, or make the layer with num_tags={shape[-1]}."
            )

    def _checked_tags(self, tags, shape):
        tags = ops.convert_to_tensor(tags)
        dtype = backend.standardize_dtype(tags.dtype)
        if "int" not in dtype:
            raise TypeError(f"The tags must be integers, 0 to {self.num_tags - 1}. Received {dtype}. Cast them.")
        check_rank("tags", tags.shape, "(B, T)")
        if any(None not in pair and pair[0] != pair[1] for pair in zip(tags.shape, shape[:2], strict=True)):
            raise ValueError(
                f"The tags must be (B, T), here {tuple(shape[:2])}. Received {tuple(tags.shape)}. Give one a place."
            )
        return ops.cast(tags, "int32")

    def compute_mask(self, inputs, mask=None):
        return mask

    def compute_output_shape(self, input_shape):
        self._check_emissions(input_shape)
        return tuple(input_shape)

    def compute_output_spec(self, inputs, mask=None):
        self._check_emissions(inputs.shape)
        check_sequence_mask("mask", mask, inputs.shape[:2])
        return keras.KerasTensor(inputs.shape, backend.result_type(self.compute_dtype, "float32"))

    def get_config(self):
        return {
            **super().get_config(),
            "num_tags": self.num_tags,
            "allowed_transitions": self.allowed_transitions,
            "allowed_start": self.allowed_start,
            "allowed_end": self.allowed_end,
            "transition_initializer": keras.initializers.serialize(self.transition_initializer),
            "transition_regularizer": keras.regularizers.serialize(self.transition_regularizer),
        }


def _forward(alpha, now, keep, begins, transitions, start):
    """One step of the forward algorithm: alpha (B, K), emissions (B, K), kept and first (B,) → alpha."""
    moved = ops.logsumexp(ops.expand_dims(alpha, 2) + transitions, axis=1)  # (B, K from, K to)
    arrived = ops.where(ops.expand_dims(begins, -1), start + ops.zeros_like(moved), moved) + now
    return ops.where(ops.expand_dims(keep, -1), arrived, alpha)


def _first(mask):
    """Which place of each row is the first that is kept: bool (B, T)."""
    return ops.logical_and(mask, ops.equal(ops.cumsum(ops.cast(mask, "int32"), axis=1), 1))


def _neighbours(tags, mask, num_tags):
    """Of each place the kept tag before it (B, T), and the last kept tag (B,); K where there is none."""

    def step(t, carry):
        rows, last = carry
        rows = _write(rows, t, last)
        return rows, ops.where(ops.take(mask, t, axis=1), ops.take(tags, t, axis=1), last)

    rows = ops.zeros_like(ops.transpose(tags))
    none = ops.sum(ops.zeros_like(tags), axis=1) + num_tags
    rows, last = _loop(tags.shape[1], ops.shape(tags)[1], step, (rows, ops.cast(none, "int32")))
    return ops.transpose(rows), last


def _at(table, index, num_tags):
    """table (…, K) at index (…): a product with a one-hot, which lowers everywhere, and reads out of range as 0."""
    chosen = ops.equal(ops.expand_dims(index, -1), ops.arange(num_tags, dtype="int32"))
    return ops.sum(ops.where(chosen, table, ops.zeros_like(table)), axis=-1)


def _argmax(scores, axis):
    """Where the maximum over `axis` stands, the first of several: int32. (Keras' own needs Flex on LiteRT.)"""
    number, behind = scores.shape[axis], len(scores.shape) - 1 - axis
    places = ops.reshape(ops.arange(number, dtype="int32"), (number, *[1] * behind))
    highest = ops.equal(scores, ops.max(scores, axis=axis, keepdims=True))
    return ops.min(ops.where(highest, places, ops.full_like(places, number - 1)), axis=axis)


def _loop(static_length, length, step, carry):
    """`step(t, carry)` for each t. (JAX looks at the body even if it never runs, and takes from an empty axis.)"""
    return carry if static_length == 0 else ops.fori_loop(0, length, step, carry)


def _write(rows, t, row):
    """`row` (B, …) as row t of `rows` (T, B, …)."""
    return ops.scatter_update(rows, ops.reshape(t, (1, 1)), ops.expand_dims(row, 0))


def _checked_row(name, row, num_tags):
    """A list of bool, or None."""
    if row is None:
        return None
    row = [bool(one) for one in _as_list(row)]
    if len(row) != num_tags:
        raise ValueError(f"`{name}` must have {num_tags} entries, one a tag. Received {len(row)}.")
    if not any(row):
        raise ValueError(f"`{name}` allows no tag. Expected at least one True; see `tag_constraints`.")
    return row


def _checked_rows(name, rows, num_tags):
    """A list of lists of bool, or None."""
    if rows is None:
        return None
    rows = [[bool(one) for one in _as_list(row)] for row in _as_list(rows)]
    if [len(row) for row in rows] != [num_tags] * num_tags:
        raise ValueError(
            f"`{name}` must be {num_tags} rows of {num_tags} entries, row i saying which tags may follow tag i. "
            f"Received rows of {[len(row) for row in rows]}."
        )
    return rows


def _as_list(one):
    """Lists as they are, arrays as lists."""
    return one.tolist() if hasattr(one, "tolist") else list(one)
