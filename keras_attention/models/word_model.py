"""`WordModel`: what the families share that read words and write no text."""

from __future__ import annotations

import keras

from keras_attention.models.embeddings import make_embedding, set_vectors
from keras_attention.models.task_model import TaskModel

__all__ = ["WordModel"]


class WordModel(TaskModel):
    """Base of the families that read words: their embeddings, and what a text must be to be read.

    The configuration has `vocabulary_size`, `embedding_dim`, `embeddings`, `embedding_dropout` and `max_length`.
    """

    pad_id = 0

    def build_embedding(self):
        """Makes the embeddings of the words; a family whose layers have their own makes none."""
        config, policy = self.config, self.dtype_policy
        self.embedding = make_embedding(
            config.embeddings, config.vocabulary_size, config.embedding_dim, policy, "embedding"
        )
        self.embedding_dropout = keras.layers.Dropout(config.embedding_dropout, dtype=policy, name="embedding_dropout")

    def embed(self, ids, training=None):
        """ids (B, T) → (B, T, E)."""
        return self.embedding_dropout(self.embedding(ids), training=training)

    def set_word_vectors(self, vectors, side="text") -> int:
        """Starts the embeddings from vectors that were learnt elsewhere. They are weights of the model from then on:
        a preset holds them, and needs no file of vectors.

        Args:
            vectors: `text.WordVectors`, as wide as `config.embedding_dim`.
            side: "text".

        Returns:
            How many words of the vocabulary were found; the others keep their start.

        Raises:
            ValueError: another width, or no tokenizer.
        """
        if side != "text":
            raise ValueError(f"`side` must be 'text', the one matrix of this model. Received {side!r}.")
        return set_vectors(self.embedding, self.tokenizer, vectors)

    def check_tokenizer(self):
        if self.tokenizer is None:
            raise ValueError(
                "The model has no tokenizer, so it cannot read text. Give one to the constructor, as `tokenizer`."
            )

    def check_length(self, column: str, length: int, value):
        """Refuses a column without a word, or with too many: `length` of them in `value`."""
        if not length:
            raise ValueError(f"The {column} has no word. Give at least one.")
        if length > self.config.max_length:
            raise ValueError(
                f"The {column} has {length} words; the model reads at most {self.config.max_length}. Shorten it. It "
                f"begins with {str(value)[:40]!r}."
            )

    def rows_of(self, examples, vectorize) -> list:
        """`vectorize(example)` of each; an error says of which."""
        rows = []
        for place, example in enumerate(examples, start=1):
            try:
                rows.append(vectorize(example))
            except ValueError as error:
                raise ValueError(f"{error} (input {place})" if len(examples) > 1 else str(error)) from error
        return rows
