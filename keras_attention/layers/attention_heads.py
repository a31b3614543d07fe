"""`AttentionHeads`: what the layers with several heads share."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments, scores
from keras_attention.layers.attention_layer import PreparedKeys
from keras_attention.layers.checks import check_mask, check_shapes, check_share, check_step
from keras_attention.layers.key_value_cache import KeyValueCache, empty_cache, write
from keras_attention.precision import at_least_float32
from keras_attention.scores.base import positive_int

__all__ = ["AttentionHeads", "check_shape_of_mask"]

_LOWEST = -3e38  # of a masked score: finite, so that an empty row has a maximum; its exponential is exactly 0

_PROJECTION = {  # the arguments of the projections, and what they are by default, as in Keras
    "kernel_initializer": "glorot_uniform",
    "bias_initializer": "zeros",
    "kernel_regularizer": None,
    "bias_regularizer": None,
    "activity_regularizer": None,
    "kernel_constraint": None,
    "bias_constraint": None,
}


class AttentionHeads(keras.layers.Layer):
    """Base of the layers with heads: project, score → align → read in each head, and project back.

    A subclass gives the calls and `build`, which calls `build_heads`. Arguments: as `MultiHeadAttention`, and `key_dim`
    may be None where `build` finds it.
    """

    weights_axes = ("head",)  # between the batch and the rows

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        *,
        score="scaled_dot",
        units=None,
        alignment="softmax",
        seed=None,
        **kwargs,
    ):
        projection = {name: kwargs.pop(name, default) for name, default in _PROJECTION.items()}
        super().__init__(**kwargs)
        self.num_heads = positive_int("num_heads", num_heads)
        self.key_dim = None if key_dim is None else positive_int("key_dim", key_dim)
        self.value_dim = None if value_dim is None else positive_int("value_dim", value_dim)
        check_share("dropout", dropout)
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_dims = _checked_output_shape(output_shape)
        self.units = units
        self.score = self._checked_score(score)
        self.alignment = alignments.get(alignment)
        self.seed = seed
        self._set_projection(**projection)
        self.supports_masking = True
        if dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def build_heads(self, query_shape, value_shape, key_shape, key_dim, value_dim):
        check_shapes(query_shape, value_shape, key_shape)
        output_dims = self.output_dims or (query_shape[-1],)
        axes = "efghijkl"[: len(output_dims)]
        self.query_dense = self._projection("query", "abc,cde->abde", (self.num_heads, key_dim))
        self.key_dense = self._projection("key", "abc,cde->abde", (self.num_heads, key_dim))
        self.value_dense = self._projection("value", "abc,cde->abde", (self.num_heads, value_dim))
        self.output_dense = self._projection("attention_output", f"abcd,cd{axes}->ab{axes}", output_dims)
        self.query_dense.build(query_shape)
        self.key_dense.build(key_shape)
        self.value_dense.build(value_shape)
        self.output_dense.build((None, None, self.num_heads, value_dim))
        self.head_scores = self._scores_of_heads((None, None, key_dim))
        self.built = True

    def prepare(self, value, key=None, mask=None) -> PreparedKeys:
        """Everything that depends on the keys alone: keys (B, H, Tv, …) and values (B, H, Tv, value_dim) of each head.

        Args:
            value: float (B, Tv, Dv).
            key: float (B, Tv, Dk); defaults to `value`.
            mask: bool (B, Tv), True = keep; default keeps all.
        """
        check_shape_of_mask("mask", mask, value.shape[:2], "(B, Tv)")
        if mask is None:
            mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        return PreparedKeys(*self.project(value, value if key is None else key), mask)

    def empty_cache(self, batch_size, max_length) -> KeyValueCache:
        """A `KeyValueCache` with nothing in it, for decoders that attend to their own past.

        Args:
            batch_size: int or scalar tensor.
            max_length: int > 0. Positions there is room for.
        """
        self._check_built()
        value, key = (ops.zeros((1, 1, dense.kernel.shape[0])) for dense in (self.value_dense, self.key_dense))
        key, value = self.project(value, key)
        shapes = ((one.shape[1], *one.shape[3:]) for one in (key, value))
        return empty_cache(batch_size, max_length, *shapes, value.dtype)

    def extend(self, cache: KeyValueCache, value, key=None, mask=None) -> KeyValueCache:
        """The cache with one position more, which alone is projected.

        Outside graphs a full cache is an error; in a graph, which cannot raise, a position too many makes its row NaN.

        Args:
            cache: what `empty_cache` or the previous `extend` returned.
            value: float (B, Dv).
            key: float (B, Dk); defaults to `value`.
            mask: bool (B,), True = keep; default keeps all. A masked position takes its place and is never looked at.
        """
        key = value if key is None else key
        for name, one in (("value", value), ("key", key)):
            if len(one.shape) != 2:
                raise ValueError(
                    f"`extend` takes the {name} of one position, (B, D). Received {tuple(one.shape)}. "
                    f"Pass `{name}[:, t]`, position after position; `prepare` takes all at once."
                )
        check_shape_of_mask("mask", mask, value.shape[:1], "(B,)")
        return write(cache, *self.project(ops.expand_dims(value, 1), ops.expand_dims(key, 1)), mask)

    def project(self, value, key):
        """(B, Tv, Dv), (B, Tv, Dk) → keys as the scores want them (B, H, Tv, …), values (B, H, Tv, value_dim)."""
        self._check_built()
        return self._prepare_key(_swap_heads(self.key_dense(key))), _swap_heads(self.value_dense(value))

    def pair_mask(self, query, value, query_mask=None, value_mask=None, attention_mask=None, use_causal_mask=False):
        """One mask of all, bool, broadcastable to (B, H, Tq, Tv), or None where everything is kept."""
        per_head = attention_mask is not None and len(attention_mask.shape) == 4
        mask = alignments.combine_masks(
            ops.shape(query)[1],
            value_mask=value_mask,
            attention_mask=None if per_head else attention_mask,
            query_mask=query_mask,
            use_causal_mask=use_causal_mask,
            value_length=ops.shape(value)[1],
        )
        mask = None if mask is None else ops.expand_dims(mask, 1)
        if not per_head:
            return mask
        return attention_mask if mask is None else ops.logical_and(mask, attention_mask)

    def step(self, query, prepared, mask, training=None):
        """One query: (B, Dq), mask broadcastable to (B, H, 1, Tv) → output (B, Dout), weights (B, H, Tv)."""
        check_step(query)
        output, weights = self.look(ops.expand_dims(query, 1), prepared, mask, training, return_weights=True)
        return ops.squeeze(output, 1), ops.squeeze(weights, 2)

    def look(self, query, prepared, mask, training=None, return_weights=False):
        """Asks prepared keys.

        Args:
            query: float (B, Tq, Dq).
            prepared: `PreparedKeys` or `KeyValueCache`; its own mask is not read.
            mask: bool, broadcastable to (B, H, Tq, Tv), True = keep; None keeps all.

        Returns:
            output (B, Tq, Dout), weights (B, H, Tq, Tv) or None.
        """
        weights = self._weigh(self._score(_swap_heads(self.query_dense(query)), prepared.key), mask)
        context = ops.matmul(ops.cast(self._drop(weights, training), prepared.value.dtype), prepared.value)
        if mask is None:
            return self.output_dense(_swap_heads(context)), weights if return_weights else None
        # What sees nothing is 0, after the bias of the output too, and passes no gradient.
        seeing = ops.any(mask, axis=-1, keepdims=True)  # (B, 1 or H, 1 or Tq, 1)
        output = self.output_dense(_swap_heads(_zero_unless(seeing, context)))
        by_a_head = ops.any(seeing, axis=1)
        while len(by_a_head.shape) < len(output.shape):
            by_a_head = ops.expand_dims(by_a_head, -1)
        return _zero_unless(by_a_head, output), _zero_unless(seeing, weights) if return_weights else None

    def spec_of(self, query_shape, value_shape, return_weights):
        """The symbolic outputs of a call."""
        output = keras.KerasTensor(self.shape_of_output(query_shape), self.compute_dtype)
        if not return_weights:
            return output
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        shape = (query_shape[0], self.num_heads, query_shape[1], value_shape[1])
        return output, keras.KerasTensor(shape, wide)

    def shape_of_output(self, query_shape):
        return (*query_shape[:-1], *(self.output_dims or query_shape[-1:]))

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_dims,
            "score": self.score,
            "units": self.units,
            "alignment": alignments.serialize(self.alignment),
            "seed": self.seed,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": keras.regularizers.serialize(self.projection_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
        }

    def _check_masks(self, query_shape, value_shape, attention_mask, **masks):
        """Checks the masks of a call."""
        batch_and_lengths = (*query_shape[:2], value_shape[1])
        if attention_mask is not None and len(attention_mask.shape) == 4:
            batch_and_lengths = (batch_and_lengths[0], self.num_heads, *batch_and_lengths[1:])
        check_shape_of_mask("attention_mask", attention_mask, batch_and_lengths, "(B, Tq, Tv) or (B, H, Tq, Tv)")
        for name, mask in masks.items():
            shape, axes = (query_shape, "(B, Tq)") if name == "query_mask" else (value_shape, "(B, Tv)")
            check_shape_of_mask(name, mask, shape[:2], axes)

    def _set_projection(
        self,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
    ):
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.projection_regularizer = keras.regularizers.get(activity_regularizer)  # the layer itself has none
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    def _projection(self, name, equation, output_dims):
        # An initializer gives the same values each time: each projection has a copy, as in Keras.
        kernel_initializer, bias_initializer = (
            one.clone() if isinstance(one, keras.initializers.Initializer) else one
            for one in (self.kernel_initializer, self.bias_initializer)
        )
        dense = keras.layers.EinsumDense(
            equation,
            output_shape=(None, *output_dims),
            bias_axes=equation.split("->ab")[1] if self.use_bias else None,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            activity_regularizer=self.projection_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            name=name,
            dtype=self.dtype_policy,
        )
        dense.supports_masking = True  # it treats each place alone; without, Keras warns of the masks on its inputs
        return dense

    def _checked_score(self, score):
        """The score in plain JSON types: its name, or the config of the layer that is the pattern of all heads."""
        pattern = self._pattern(score)
        layer, name = type(self).__name__, type(pattern).__name__
        if pattern.per_channel:
            raise ValueError(
                f"{layer} wants one score a pair of query and key, (B, Tq, Tv). "
                f"Received {name}, which gives one a channel. Use MultiDimAttention."
            )
        if pattern.has_memory:
            raise ValueError(
                f"{layer} asks all queries at once, so its score can have no memory of the queries before. "
                f"Received {name}, which has one. Use a score without, for example 'additive'."
            )
        if pattern.weights:
            raise ValueError(
                f"A score that is a layer is a pattern, of which each head gets a copy with weights of its own. "
                f"Received {name} with weights already, which would not be used. Pass one that is not built."
            )
        if isinstance(score, str):
            return score
        config = keras.saving.serialize_keras_object(pattern)
        config.pop("build_config", None)
        return config

    def _pattern(self, score):
        if isinstance(score, dict):
            score = keras.saving.deserialize_keras_object(score)
        return scores.get(score, units=self.units)

    def _scores_of_heads(self, shape):
        """A built score for each head; one for all of them where it has no weights."""
        pattern = self._pattern(self.score)
        config = pattern.get_config()
        if isinstance(self.score, str):
            config["dtype"] = self.dtype_policy
        made = []
        for head in range(self.num_heads):
            made.append(type(pattern).from_config({**config, "name": f"score_{head}"}))
            made[-1].build([shape, shape])
            if not made[0].weights:
                break
        return made

    def _prepare_key(self, key):
        """What the score of each head makes of its keys: (B, H, Tv, key_dim) → (B, H, Tv, …)."""
        if len(self.head_scores) == self.num_heads:
            return ops.stack([one.prepare_key(key[:, head]) for head, one in enumerate(self.head_scores)], axis=1)
        return _unfold(self.head_scores[0].prepare_key(_fold(key)), self.num_heads)

    def _score(self, query, prepared_key):
        """The score of each head: query (B, H, Tq, key_dim), prepared key (B, H, Tv, …) → (B, H, Tq, Tv)."""
        if len(self.head_scores) == self.num_heads:
            heads = [one.score(query[:, head], prepared_key[:, head]) for head, one in enumerate(self.head_scores)]
            return ops.stack(heads, axis=1)
        return _unfold(self.head_scores[0].score(_fold(query), _fold(prepared_key)), self.num_heads)

    def _weigh(self, score, mask):
        """Weights of the scores. Under a mask, rows of softmax that keep nothing are not 0 yet: `look` sees to it."""
        if self.alignment is not alignments.softmax or mask is None or score.shape[-1] == 1:
            return self.alignment(score, mask)
        # As `alignments.softmax`, by the backend's own softmax: one pass over the scores where that takes several.
        return ops.softmax(ops.where(mask, at_least_float32(score), _LOWEST), axis=-1)

    def _drop(self, weights, training):
        if training and self.dropout > 0:
            return keras.random.dropout(weights, self.dropout, seed=self.seed_generator)
        return weights

    def _check_built(self):
        if not self.built:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} has no weights yet: it does not know how wide its inputs are. "
                f"Call it once first, or its `build`."
            )


def check_shape_of_mask(name, mask, shape, axes):
    """A mask is bool, of the rank of `shape`, and of its sizes or 1 in each axis; `axes` says so in words."""
    if mask is None:
        return
    check_mask(name, mask, mask.shape)  # bool
    pairs = zip(mask.shape, shape, strict=False)
    if len(mask.shape) != len(shape) or any(None not in pair and pair[0] not in (1, pair[1]) for pair in pairs):
        raise ValueError(
            f"`{name}` must be bool {axes}, here {tuple(shape)}. Received {tuple(mask.shape)}. "
            f"Pass the mask of the same padded batch."
        )


def _checked_output_shape(output_shape):
    """None, or a tuple of ints > 0."""
    if output_shape is None:
        return None
    dims = output_shape if isinstance(output_shape, (list, tuple)) else (output_shape,)
    if not dims or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in dims):
        raise ValueError(f"`output_shape` must be an int > 0, or a tuple of such. Received {output_shape!r}.")
    return tuple(dims)


def _swap_heads(tensor):
    """(B, T, H, D) → (B, H, T, D), and back."""
    return ops.transpose(tensor, (0, 2, 1, 3))


def _fold(tensor):
    """Heads into the batch: (B, H, T, …) → (B · H, T, …)."""
    return ops.reshape(tensor, (-1, *ops.shape(tensor)[2:]))


def _unfold(tensor, num_heads):
    """Heads out of the batch: (B · H, T, …) → (B, H, T, …)."""
    return ops.reshape(tensor, (-1, num_heads, *ops.shape(tensor)[1:]))


def _zero_unless(seeing, tensor):
    """`tensor` where `seeing`, bool and broadcastable to it, and 0 elsewhere."""
    return ops.where(seeing, tensor, 0)
