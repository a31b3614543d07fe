"""`MemoryAttention`: a question that looks at a memory of sentences several times over."""

from __future__ import annotations

import keras
from keras import backend, ops

from keras_attention import alignments
from keras_attention.layers.checks import check_share
from keras_attention.layers.position_encoding import sum_words, word_weights
from keras_attention.precision import wide_range
from keras_attention.scores.base import positive_int

__all__ = ["MemoryAttention"]

_TYINGS = ("adjacent", "layer_wise")


@keras.saving.register_keras_serializable("keras_attention")
class MemoryAttention(keras.layers.Layer):
    """End-to-end memory network: a question attends to sentences, adds what it read, and attends again: K hops.

    Sukhbaatar et al., 2015 (arXiv 1503.08895). Section 2.1, of one hop: `p = softmax(u · m_i)`, `o = Σ p_i c_i`, where
    m_i and c_i are sentence i under the embeddings A and C, and u the question under B; section 2.2, of several:
    `u^{k+1} = u^k + o^k`. How the embeddings of the hops are tied:

    - "adjacent": `A^{k+1} = C^k`, `B = A^1`, and for the answer `Wᵀ = C^K`: K + 1 embeddings.
    - "layer_wise": one A and one C for all hops, B and W of their own, and a linear map, `u^{k+1} = H u^k + o^k`.

    Section 4.1: a sentence is the sum of its words, each counted by its place (`position_encoding`; else a bag of
    words); a row of T_A and T_C, tied as A and C are, is added to each memory by its age (`temporal_encoding`), 0 for
    the last of those that are not empty; in training a gap may be left between ages (`time_noise`, 0.1 in the paper).
    Section 4.2, linear start: without the softmax of the hops, in training and inference alike, until validation
    stalls; then `layer.linear_start.assign(False)`. It is a weight that is not trained, and saved with the others.

    Differs from the paper: an empty memory gets weight 0, and without any, o = 0. J of the position encoding is the
    sentence's own length; with `position_length` the encoding is that of the authors' code, about twice as large and
    with the same J for all: a word at the same place counts the same, however long its sentence is (see
    `position_encoding.word_weights`). Each memory is preceded by a gap of one with probability `time_noise`, instead of
    10 % empty memories among all; an age never passes the last row.

    Sentences are word ids, 0 = padding, which counts as no word wherever it stands: its embedding is 0, as in the
    paper, and so is its answer logit. An id beyond the vocabulary is not looked for: backends differ in what they do.

    Args:
        vocabulary_size: int > 0. V, the ids being 0 … V − 1.
        embedding_dim: int > 0. d.
        hops: int > 0. K.
        tying: "adjacent" or "layer_wise".
        position_encoding: bool. Whether the order of the words counts.
        position_length: int > 0. J of all sentences, best the words of the longest; None takes each sentence's own.
        temporal_encoding: bool. Whether the order of the memories counts.
        max_memories: int > 0. Rows of the temporal encoding; a longer S is an error. The paper keeps the last 50.
        time_noise: float in [0, 1). Share of gaps between the ages in training.
        linear_start: bool. Whether the hops begin without softmax.
        seed: int. Seed of the noise.

    Call arguments:
        inputs: `[query, memories]`, int (B, Wq), the words of the question, and (B, S, W), the words of the sentences,
            the oldest first.
        return_attention_scores: bool. Also return the weights of the hops.
        reverse: bool. Return the logits of a state instead, as `logits` does.
        training: bool. Applies the noise.

    Returns:
        the last state `u^{K+1}` (B, d), for `logits` or a layer of your own; with `return_attention_scores`, also
        `weights` (B, K, S): rows sum to 1, or are 0 without any memory; with the linear start, any numbers.

    Raises:
        ValueError: a size < 1, an unknown tying, a share outside [0, 1), a wrong rank, batches that differ, or
            S > `max_memories`.
        TypeError: inputs that are not ints.

    Example:
    >>> layer = MemoryAttention(vocabulary_size=20, embedding_dim=8)
    >>> query, memories = keras.ops.array([[1, 2]]), keras.ops.array([[[3, 4, 5], [6, 7, 0]]])
    >>> state, weights = layer([query, memories], return_attention_scores=True)
    >>> state.shape, weights.shape, layer.logits(state).shape
    (TensorShape([1, 8]), TensorShape([1, 3, 2]), TensorShape([1, 20]))
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        hops=3,
        tying="adjacent",
        position_encoding=True,
        temporal_encoding=True,
        max_memories=50,
        time_noise=0.0,
        linear_start=False,
        seed=None,
        position_length=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if tying not in _TYINGS:
            raise ValueError(f"`tying` must be one of {', '.join(_TYINGS)}. Received {tying!r}.")
        check_share("time_noise", time_noise)
        self.vocabulary_size = positive_int("vocabulary_size", vocabulary_size)
        self.embedding_dim = positive_int("embedding_dim", embedding_dim)
        self.hops = positive_int("hops", hops)
        self.max_memories = positive_int("max_memories", max_memories)
        self.tying, self.time_noise, self.seed = tying, time_noise, seed
        self.position_encoding, self.temporal_encoding = bool(position_encoding), bool(temporal_encoding)
        self.starts_linear = bool(linear_start)
        self.position_length = None if position_length is None else positive_int("position_length", position_length)
        # Which embedding each hop matches with and which it reads with: A^k and C^k.
        self.hop_embeddings = [(k, k + 1) if tying == "adjacent" else (0, 1) for k in range(self.hops)]
        if time_noise > 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def build(self, input_shape=None):
        distinct = self.hops + 1 if self.tying == "adjacent" else 2
        self.embeddings = [self.add_table(f"embedding_{k}", self.vocabulary_size) for k in range(distinct)]
        self.times = []
        if self.temporal_encoding:
            self.times = [self.add_table(f"time_{k}", self.max_memories) for k in range(distinct)]
        if self.tying == "adjacent":
            self.query_embedding, self.answer_embedding = self.embeddings[0], self.embeddings[-1]
        else:
            self.query_embedding = self.add_table("query_embedding", self.vocabulary_size)
            self.answer_embedding = self.add_table("answer_embedding", self.vocabulary_size)
            self.state_kernel = self.add_table("state_kernel", self.embedding_dim)
        self.linear_start = self.add_weight(
            name="linear_start",
            shape=(),
            dtype="bool",
            initializer="ones" if self.starts_linear else "zeros",
            trainable=False,
            autocast=False,
            aggregation="only_first_replica",
        )
        self.built = True

    def add_table(self, name, rows):
        """A weight (rows, d), drawn as section 4.2 says."""
        initializer = keras.initializers.RandomNormal(stddev=0.1)
        return self.add_weight(name=name, shape=(rows, self.embedding_dim), initializer=initializer, autocast=False)

    def call(self, inputs, return_attention_scores=False, reverse=False, training=None):
        if reverse:
            return self.answer(inputs)
        query, memories = self.check_inputs(inputs)
        words = memories != 0  # (B, S, W)
        keep = ops.any(words, axis=-1)  # (B, S)
        state = self.encode(self.query_embedding, query, self.count_words(query != 0))
        counted = self.count_words(words)
        memory = [self.encode(table, memories, counted) for table in self.embeddings]  # each (B, S, d)
        if self.temporal_encoding:
            age = self.ages(keep, training)
            memory = [
                self.add_time(one, time, age, keep, training) for one, time in zip(memory, self.times, strict=True)
            ]
        weights = []
        for matched, read in self.hop_embeddings:
            weights.append(self.align(state, memory[matched], keep))
            state = self.update(state, weights[-1], memory[read])
        return (state, ops.stack(weights, axis=1)) if return_attention_scores else state

    def count_words(self, words):
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        return ops.cast(word_weights(words, self.position_encoding, wide, self.position_length), self.compute_dtype)

    def encode(self, table, ids, counted):
        """Sentences (…, W) as vectors (…, d)."""
        centred = self.position_length is not None
        return sum_words(counted, ops.cast(ops.take(table, ids, axis=0), self.compute_dtype), centred)

    def ages(self, keep, training=None):
        """How many memories came later, of those that are not empty: keep (B, S) → int (B, S), 0 for the last."""
        count = ops.cast(keep, "int32")
        age = _from_the_end(count) - 1
        if training and self.time_noise > 0:
            gap = keras.random.uniform(ops.shape(keep), seed=self.seed_generator) < self.time_noise
            later = age + _from_the_end(count * ops.cast(gap, "int32"))
            age = ops.maximum(age, ops.minimum(later, self.max_memories - 1))
        return ops.maximum(age, 0)  # of an empty one after the last

    def add_time(self, memory, table, age, keep, training=None):
        """Memory (B, S, d), a row of the table by age added to each that is not empty."""
        if not (training and self.time_noise > 0):
            # No age reaches S. Where only the running graph knows it, this reshape refuses an S past max_memories.
            length = ops.shape(memory)[1]
            table = ops.reshape(table[:length], (length, self.embedding_dim))
        rows = ops.cast(ops.take(table, age, axis=0), memory.dtype)
        return memory + rows * ops.cast(ops.expand_dims(keep, -1), memory.dtype)

    def align(self, state, memory, keep):
        """`p = softmax(u · m_i)`: state (B, d), memory (B, S, d), keep (B, S) → weights (B, S)."""
        state, memory = wide_range(state, memory)
        score = ops.squeeze(ops.matmul(memory, ops.expand_dims(state, -1)), -1)
        weights = alignments.softmax(score, keep)
        linear = ops.where(keep, ops.cast(score, weights.dtype), ops.zeros_like(weights))
        return ops.where(ops.convert_to_tensor(self.linear_start), linear, weights)

    def update(self, state, weights, memory):
        """`u + Σ p_i c_i`, or `H u + Σ p_i c_i`: state (B, d), weights (B, S), memory (B, S, d) → (B, d)."""
        read = ops.matmul(ops.expand_dims(ops.cast(weights, memory.dtype), 1), memory)
        if self.tying == "layer_wise":
            state = ops.matmul(state, ops.cast(self.state_kernel, state.dtype))
        return state + ops.squeeze(read, 1)

    def logits(self, state):
        """`W u`, for the answer: state (B, d) → logits (B, V), 0 for the padding."""
        return self(state, reverse=True)

    def answer(self, state):
        kernel = ops.transpose(ops.cast(self.answer_embedding, state.dtype))
        return ops.matmul(state, kernel) * ops.cast(ops.arange(self.vocabulary_size) > 0, state.dtype)

    def check_inputs(self, inputs):
        """`[query, memories]`, checked."""
        if not isinstance(inputs, (list, tuple)) or len(inputs) != 2:
            received = f"a list of {len(inputs)}" if isinstance(inputs, (list, tuple)) else "one tensor"
            raise ValueError(
                f"MemoryAttention wants a list [query, memories], ids (B, Wq) and (B, S, W). Received: {received}."
            )
        query, memories = inputs
        for name, one, axes in (("query", query, "(B, Wq)"), ("memories", memories, "(B, S, W)")):
            if len(one.shape) != axes.count(",") + 1:
                raise ValueError(f"`{name}` must be {axes}, word ids. Received {tuple(one.shape)}.")
            dtype = backend.standardize_dtype(one.dtype)
            if "int" not in dtype:
                raise TypeError(f"`{name}` must be word ids, ints. Received {dtype}. Convert it, or give ids.")
        if None not in (query.shape[0], memories.shape[0]) and query.shape[0] != memories.shape[0]:
            raise ValueError(
                f"`query` and `memories` must have the same batch size B. Received query {tuple(query.shape)}, "
                f"memories {tuple(memories.shape)}. Give each question its story."
            )
        length = memories.shape[1]
        if self.temporal_encoding and length is not None and length > self.max_memories:
            raise ValueError(
                f"There are more memories than ages this layer has rows for. Received S = {length}, max_memories = "
                f"{self.max_memories}. Keep the last ones, `memories[:, -{self.max_memories}:]`, or make the layer "
                f"with a larger `max_memories`."
            )
        return query, memories

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], self.embedding_dim)

    def compute_output_spec(self, inputs, return_attention_scores=False, reverse=False, training=None):
        if reverse:
            return keras.KerasTensor((*inputs.shape[:-1], self.vocabulary_size), self.compute_dtype)
        query, memories = self.check_inputs(inputs)
        state = keras.KerasTensor((query.shape[0], self.embedding_dim), self.compute_dtype)
        if not return_attention_scores:
            return state
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        return state, keras.KerasTensor((query.shape[0], self.hops, memories.shape[1]), wide)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "hops": self.hops,
            "tying": self.tying,
            "position_encoding": self.position_encoding,
            "position_length": self.position_length,
            "temporal_encoding": self.temporal_encoding,
            "max_memories": self.max_memories,
            "time_noise": self.time_noise,
            "linear_start": self.starts_linear,
            "seed": self.seed,
        }


def _from_the_end(count):
    """The sum of each place and all after it: int (B, S) → (B, S)."""
    return ops.sum(count, axis=-1, keepdims=True) - ops.cumsum(count, axis=-1) + count
