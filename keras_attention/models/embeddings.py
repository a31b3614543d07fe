"""Embeddings of a model that reads or writes text: learnt, kept as they were given, or one-hot."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.text import WordTokenizer

__all__ = ["EMBEDDINGS", "OneHotEmbedding", "check_embeddings", "make_embedding", "set_vectors"]

EMBEDDINGS = ("trained", "frozen", "one_hot")
_SPACE = "\u2581"  # begins the pieces that begin a word


class OneHotEmbedding(keras.layers.Layer):
    """Ids as one-hot vectors: no weights, so that the first matrix behind it has a row for each id.

    Args:
        size: int > 0. Number of ids, and width of the vectors.

    Call arguments:
        inputs: int32 (…).

    Returns:
        (…, size), in the layer's dtype.
    """

    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.output_dim = size

    def build(self, input_shape=None):
        self.built = True

    def call(self, inputs):
        return ops.one_hot(inputs, self.output_dim, dtype=self.compute_dtype)


def check_embeddings(config):
    """Refuses what makes no sense together: `config` has `tie_embeddings`, `source_embeddings`, `target_embeddings`.

    Raises:
        ValueError: one-hot embeddings that are tied, or two kinds of embeddings that are one matrix.
    """
    source, target, tie = config.source_embeddings, config.target_embeddings, config.tie_embeddings
    if target == "one_hot" and tie != "none":
        raise ValueError(
            f"`target_embeddings` is 'one_hot', which has no matrix that `tie_embeddings` {tie!r} could share. Set "
            "tie_embeddings to 'none'."
        )
    if tie == "all" and source != target:
        raise ValueError(
            f"`tie_embeddings` is 'all', so both embeddings are one matrix. Received source_embeddings {source!r}, "
            f"target_embeddings {target!r}; make them equal, or tie the output alone."
        )


def make_embedding(kind, size, width, dtype, name):
    """An embedding of `size` ids: a built layer with `output_dim`.

    Args:
        kind: one of `EMBEDDINGS`.
        size, width: int > 0; the width of one-hot vectors is the size.
        dtype: dtype or policy.
        name: str.
    """
    if kind == "one_hot":
        layer = OneHotEmbedding(size, dtype=dtype, name=name)
    else:
        start = keras.initializers.RandomNormal(stddev=width**-0.5)
        layer = keras.layers.Embedding(size, width, embeddings_initializer=start, dtype=dtype, name=name)
    layer.build()
    layer.trainable = kind == "trained"
    return layer


def set_vectors(layer, tokenizer, vectors, scale=1.0) -> int:
    """Gives an embedding the vectors of the words that have one; see `set_word_vectors` of the models.

    Args:
        layer: a built `keras.layers.Embedding`.
        tokenizer: of its ids.
        vectors: `text.WordVectors`.
        scale: float. What the model multiplies embeddings by: what its network reads is the vector itself.

    Returns:
        How many words were found.
    """
    if not isinstance(layer, keras.layers.Embedding):
        raise ValueError(
            "The model has no matrix of these embeddings (they are one-hot, or within an encoder of your own). Leave "
            "the vectors out, or make its embeddings 'trained' or 'frozen'."
        )
    if tokenizer is None:
        raise ValueError("The model has no tokenizer, so its ids have no words. Give one to the constructor.")
    if vectors.dimensions != layer.output_dim:
        raise ValueError(
            f"The vectors have {vectors.dimensions} numbers, the embeddings of the model embedding_dim="
            f"{layer.output_dim}. They must agree: choose other vectors, or set embedding_dim to {vectors.dimensions}."
        )
    matrix, found = vectors.matrix(_words(tokenizer), scale * keras.ops.convert_to_numpy(layer.embeddings))
    layer.embeddings.assign(matrix / scale)
    return found


def _words(tokenizer) -> list[str]:
    """The word of each id; "", which has no vector, for special pieces and for pieces within a word."""
    first = 1 + max(tokenizer.pad_id, tokenizer.unk_id, tokenizer.start_id, tokenizer.end_id)
    tokens = tokenizer.tokens(range(first, tokenizer.vocabulary_size))
    if not isinstance(tokenizer, WordTokenizer):
        tokens = [piece.removeprefix(_SPACE) if piece.startswith(_SPACE) else "" for piece in tokens]
    return [""] * first + tokens
