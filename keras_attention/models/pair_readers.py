"""Two sentences into one vector: by aligned words, word by word behind each other, or as bags of words.

All readers are called alike: premise (B, Tp, E) and hypothesis (B, Th, E), embedded, with their masks, bool, True =
keep → a vector (B, D) of width `width`, and a dict of the weights that were used. Padding never changes either.
"""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers import BahdanauAttention, LuongAttention
from keras_attention.models.scan import scan
from keras_attention.models.sequences import masked_mean

__all__ = ["READERS", "BagReader", "DecomposableReader", "WordByWordReader"]


def same_length(embedded):
    """Vectors (B, T, E) scaled to the length √E; what is 0 stays 0."""
    squares = ops.sum(ops.square(embedded), axis=-1, keepdims=True)
    return embedded * ops.rsqrt(squares / embedded.shape[-1] + 1e-6)


class FeedForward(keras.layers.Layer):
    """Two layers of rectified units, with dropout before each (Parikh et al., 2016, section 5.2: its F, G and H).

    Args:
        units: int > 0.
        dropout: float in [0, 1).
    """

    def __init__(self, units, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        policy = self.dtype_policy
        self.first = keras.layers.Dense(units, activation="relu", dtype=policy, name="first")
        self.second = keras.layers.Dense(units, activation="relu", dtype=policy, name="second")
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build((*input_shape[:-1], self.first.units))
        self.built = True

    def call(self, inputs, training=None):
        hidden = self.first(self.dropout(inputs, training=training))
        return self.second(self.dropout(hidden, training=training))


class DecomposableReader(keras.layers.Layer):
    """Aligns the words of two sentences with each other, compares each with what it is aligned with, adds all up.

    Parikh et al., 2016 (arXiv 1606.01933), section 3, words of one length projected first: `e_ij = F(a_i) · F(b_j)`;
    `β_i = Σ_j softmax_j(e_ij) b_j` and `α_j = Σ_i softmax_i(e_ij) a_i`; `v_1i = G([a_i; β_i])`,
    `v_2j = G([b_j; α_j])`; `H([Σ_i v_1i; Σ_j v_2j])`.
    Differs from the paper: `F(x) = x + network(x)`, the product divided by √D, and the projection starts orthogonal, so
    that before any training a word is aligned with words like it, which a few thousand examples do not teach; words are
    scaled to the length √E, not 1; no NULL token in front of the sentences. With `interaction`, G sees the difference
    and the product of both sides too, `[a; β; |a − β|; a ⊙ β]`, as the inference composition of Chen et al., 2017
    (arXiv 1609.06038) has them.

    Args:
        units: int > 0. Width of the projected words and of F, G and H.
        dropout: float in [0, 1). Within F, G and H.
        interaction: bool.

    Returns:
        vector (B, units); weights: "hypothesis" (B, Th, Tp), what each word of the hypothesis is aligned with, and
        "premise" (B, Tp, Th), the other way round.
    """

    kind = "luong_scaled_dot"

    def __init__(self, units, dropout=0.0, interaction=False, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        policy = self.dtype_policy
        self.width, self.interaction = units, interaction
        self.project = keras.layers.Dense(
            units, use_bias=False, kernel_initializer="orthogonal", dtype=policy, name="project"
        )
        self.attend = FeedForward(units, dropout, dtype=policy, name="attend")
        self.compare = FeedForward(units, dropout, dtype=policy, name="compare")
        self.aggregate = FeedForward(units, dropout, dtype=policy, name="aggregate")
        self.attention = LuongAttention("scaled_dot", dtype=policy, name="attention")

    def build(self, input_shape):
        shape = (None, None, self.width)
        self.project.build(input_shape)
        self.attend.build(shape)
        self.compare.build((None, None, self.width * (4 if self.interaction else 2)))
        self.aggregate.build((None, 2 * self.width))
        self.attention.build([shape, shape])
        self.built = True

    def call(self, premise, hypothesis, premise_mask, hypothesis_mask, training=None):
        a, b = (self.project(same_length(one)) for one in (premise, hypothesis))
        queries = [one + self.attend(one, training=training) for one in (a, b)]
        masks = premise_mask, hypothesis_mask
        sums, weights = [], []
        for own, other in ((0, 1), (1, 0)):
            aligned, found = self.attention(
                [queries[own], (a, b)[other], queries[other]],
                mask=[masks[own], masks[other]],
                return_attention_scores=True,
                training=training,
            )
            compared = self.compare(self.sides((a, b)[own], aligned), training=training)
            kept = ops.where(ops.expand_dims(masks[own], -1), compared, ops.zeros_like(compared))
            sums.append(ops.sum(kept, axis=1))
            weights.append(found)
        vector = self.aggregate(ops.concatenate(sums, axis=-1), training=training)
        return vector, {"hypothesis": weights[1], "premise": weights[0]}

    def sides(self, word, aligned):
        if not self.interaction:
            return ops.concatenate([word, aligned], axis=-1)
        return ops.concatenate([word, aligned, ops.abs(word - aligned), word * aligned], axis=-1)


class WordByWordReader(keras.layers.Layer):
    """Reads the hypothesis behind the premise, and at each of its words attends to those of the premise.

    Rocktäschel et al., 2016 (arXiv 1509.06664), sections "Conditional encoding" and "Word-by-word attention": the cell
    state of an LSTM over the premise is where that over the hypothesis starts; Y, the outputs of the first, h_t, that
    of the second, `M_t = tanh(W^y Y + (W^h h_t + W^r r_{t−1}) ⊗ e_L)`, `α_t = softmax(wᵀ M_t)`,
    `r_t = Y α_tᵀ + tanh(W^t r_{t−1})`, and at the end `h* = tanh(W^p r_N + W^x h_N)`. The score is that of
    `BahdanauAttention`, its query [h_t; r_{t−1}].
    Differs from the paper: no delimiter between the sentences.

    Args:
        units: int > 0. Width of the projected words, of both LSTMs and of the attention.
        dropout: float in [0, 1). Of the projected words.

    Returns:
        vector (B, units); weights: "hypothesis" (B, Th, Tp).
    """

    kind = "bahdanau"

    def __init__(self, units, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        policy = self.dtype_policy
        self.width = units
        options = {"return_sequences": True, "return_state": True, "dtype": policy}
        self.project = keras.layers.Dense(units, dtype=policy, name="project")
        self.premise_lstm = keras.layers.LSTM(units, name="premise_lstm", **options)
        self.hypothesis_lstm = keras.layers.LSTM(units, name="hypothesis_lstm", **options)
        self.attention = BahdanauAttention(units, dtype=policy, name="attention")
        self.carry = keras.layers.Dense(units, activation="tanh", use_bias=False, dtype=policy, name="carry")
        self.mix_read = keras.layers.Dense(units, use_bias=False, dtype=policy, name="mix_read")
        self.mix_state = keras.layers.Dense(units, use_bias=False, dtype=policy, name="mix_state")
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")

    def build(self, input_shape):
        shape = (None, None, self.width)
        self.project.build(input_shape)
        self.premise_lstm.build(shape)
        self.hypothesis_lstm.build(shape)
        self.attention.build([(None, None, 2 * self.width), shape])
        for layer in (self.carry, self.mix_read, self.mix_state):
            layer.build((None, self.width))
        self.built = True

    def call(self, premise, hypothesis, premise_mask, hypothesis_mask, training=None):
        a, b = (self.dropout(self.project(one), training=training) for one in (premise, hypothesis))
        values, _, cell = self.premise_lstm(a, mask=premise_mask, training=training)
        start = [ops.zeros_like(cell), cell]
        states, last, _ = self.hypothesis_lstm(b, mask=hypothesis_mask, initial_state=start, training=training)
        prepared = self.attention.prepare(values, mask=premise_mask)
        first = ops.zeros_like(cell)
        reads = self.reads(states, hypothesis_mask, prepared, first)
        reads = ops.concatenate([ops.expand_dims(first, 1), reads], axis=1)  # r_0 … r_N
        vector = ops.tanh(self.mix_read(reads[:, -1]) + self.mix_state(last))
        # each query again, with r of the word before it: a loop that gave weights too would not convert to TFLite
        _, weights = self.attention(
            [ops.concatenate([states, reads[:, :-1]], axis=-1), values],
            mask=[hypothesis_mask, premise_mask],
            return_attention_scores=True,
        )
        return vector, {"hypothesis": weights}

    def reads(self, states, mask, prepared, start):
        """r_t of each word: states (B, Th, D) → (B, Th, D); behind the last word it stays as it is."""

        def step(inputs, read):
            state, keep = inputs[:, : self.width], inputs[:, self.width :] > 0
            context, _, _ = self.attention.attend(ops.concatenate([state, read], axis=-1), prepared)
            read = ops.where(keep, context + self.carry(read), read)
            return read, read

        inputs = ops.concatenate([states, ops.cast(ops.expand_dims(mask, -1), states.dtype)], axis=-1)
        return scan(step, inputs, start)


class BagReader(keras.layers.Layer):
    """The mean of the words of each sentence, `[u; v; |u − v|; u ⊙ v]` of both, and a layer of rectified units.

    Args:
        units: int > 0.
        dropout: float in [0, 1). Before the layer.

    Returns:
        vector (B, units), and no weights.
    """

    kind = "none"

    def __init__(self, units, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.width = units
        self.hidden = keras.layers.Dense(units, activation="relu", dtype=self.dtype_policy, name="hidden")
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.hidden.build((None, 4 * input_shape[-1]))
        self.built = True

    def call(self, premise, hypothesis, premise_mask, hypothesis_mask, training=None):
        u, v = masked_mean(premise, premise_mask), masked_mean(hypothesis, hypothesis_mask)
        sides = ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)
        return self.hidden(self.dropout(sides, training=training)), {}


READERS = {"decomposable": DecomposableReader, "word_by_word": WordByWordReader, "bag": BagReader}
