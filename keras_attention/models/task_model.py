"""`TaskModel`: what all task models are and do."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_attention.models.model_config import ModelConfig
from keras_attention.models.prediction import Prediction
from keras_attention.text.tokenizers import load_tokenizer, tokenizer_class

__all__ = ["TaskModel"]


class TaskModel(keras.Model):
    """A network with its tokenizer and its configuration.

    It is a `keras.Model`: `summary`, `compile`, `fit`, `save("x.keras")` work as in Keras. Calling it on a padded
    batch gives logits; `run`, and the verb of its task, take what a person would write and give `Prediction`s.

    A family gives the class attributes below, builds all its weights in the constructor, and implements `call`,
    `vectorize`, `loss_terms`, `loss_from_logits`, `predict_examples` and `serving_functions`.

    Attributes:
        family, task, verb: str. The family's name, the task's, and the method that does it, such as "translate".
        columns: names of the columns of an example that a training needs.
        input_columns: how many of them, from the front, are given when the model is run.
        generates: bool. Whether it searches for an output of its own words.
        text_columns: those whose words a tokenizer is learnt from.
        counted: str. What the loss is a mean over, such as "target tokens".
        validation_options: dict. Options of `run` while a training goes on.
        config_class: the family's `ModelConfig`.
        beyond_preset: str. What of this model is no data that a preset could hold; "" where there is nothing.
        config, tokenizer: this model's own.
    """

    family: str
    task: str
    verb: str
    columns: tuple[str, ...]
    input_columns: int = 1
    generates: bool = False
    text_columns: tuple[str, ...] = ("source", "target")
    counted: str = "target tokens"
    validation_options: Mapping[str, Any] = MappingProxyType({})
    beyond_preset: str = ""
    config_class: type[ModelConfig]

    def __init__(self, config, tokenizer=None, **kwargs):
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                f"Models run on TensorFlow. Keras' backend is {keras.backend.backend()!r} here; set the environment "
                "variable KERAS_BACKEND=tensorflow before Keras is imported. The layers alone run on every backend."
            )
        kwargs.setdefault("name", self.family)
        super().__init__(**kwargs)
        self.supports_jit = False  # XLA needs loops of fixed length for the gradient: `fit` on a GPU would fail
        if isinstance(config, dict):
            config = self.config_class.from_dict(config)
        if tokenizer is not None and tokenizer.vocabulary_size != config.vocabulary_size:
            raise ValueError(
                f"The tokenizer has {tokenizer.vocabulary_size} pieces, the configuration says "
                f"vocabulary_size={config.vocabulary_size}. They must agree: use the tokenizer that the model was "
                f"trained with."
            )
        self.config = config
        self.tokenizer = tokenizer

    @classmethod
    def learn_tokenizer(cls, examples: Iterable[Mapping[str, Any]], kind: str, vocabulary_size: int, **options):
        """A tokenizer for training examples.

        Args:
            examples: dicts with the `text_columns`.
            kind: str. Its name in `text.tokenizers`.
            vocabulary_size: int.
            options: what else the tokenizer's own `train` takes.
        """
        texts = [example[column] for example in examples for column in cls.text_columns]
        return tokenizer_class(kind).train(texts, vocabulary_size, **options)

    @classmethod
    def learnt_settings(cls, examples: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
        """What of a configuration the training examples tell, such as the labels.

        Args:
            examples: dicts with the `columns`.
            settings: what the recipe says already, and what must stay so.
        """
        return {}

    def run(self, inputs, **options):
        """Does the model's task.

        Args:
            inputs: one example or a list of them. An example is what the task reads (such as a str), or a dict of
                columns.
            options: of the family; see its verb.

        Returns:
            a `Prediction`, or a list of them in the order of the inputs.

        Raises:
            TypeError: an example of the wrong kind, or an option that the task does not have.
            ValueError: an empty example, or one that is too long for the model.
        """
        self._check_options(options)
        if isinstance(inputs, (list, tuple)):
            examples = [self.as_example(one, place) for place, one in enumerate(inputs)]
            return self.predict_examples(examples, **options) if examples else []
        return self.predict_examples([self.as_example(inputs)], **options)[0]

    def _check_options(self, options):
        taken = inspect.signature(self.predict_examples).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in taken):
            return  # the family checks them itself
        known = [one.name for one in taken if one.default is not one.empty]
        for name in options:
            if name not in known:
                raise TypeError(f"`{self.verb}` has no option {name!r}. Expected some of {', '.join(sorted(known))}.")

    def as_example(self, value, place: int | None = None) -> dict[str, str]:
        """`value` as a dict of the input columns, checked; `place` is its number in a list, for the message."""
        where = "" if place is None else f" (input {place + 1})"
        wanted = self.columns[: self.input_columns]
        if isinstance(value, str) and self.input_columns == 1:
            value = {wanted[0]: value}
        if not isinstance(value, dict) or any(not isinstance(value.get(column), str) for column in wanted):
            raise TypeError(
                f"`{self.verb}` wants text, or a dict with text under {', '.join(wanted)}. "
                f"Received {type(value).__name__}{where}."
            )
        for column in wanted:
            if not value[column].strip():
                raise ValueError(f"The {column} is empty{where}. Give at least one word.")
        return value

    def predict_examples(self, examples: list[dict[str, str]], **options) -> list[Prediction]:
        """The family's own part of `run`: checked examples to as many predictions, in order."""
        raise TypeError(f"{type(self).__name__} defines no `predict_examples`. Every TaskModel must.")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The family's own loss, so that `compile(optimizer)` and `fit` need no other; a compiled loss is used where
        there is one.
        """
        if self._compile_loss is not None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        if sample_weight is not None:
            raise ValueError(
                "The model's own loss takes no `sample_weight`. Leave it out, or give `compile` a loss that takes it."
            )
        loss_sum, count = self.loss_from_logits(y_pred, x[self.columns[-1]] if y is None else y, training)
        return loss_sum / tf.maximum(count, 1.0)

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": keras.saving.serialize_keras_object(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        if isinstance(config.get("dtype"), dict):
            config["dtype"] = keras.saving.deserialize_keras_object(config["dtype"], custom_objects=custom_objects)
        return cls(**config)

    def save_assets(self, folder):
        if self.tokenizer is not None:
            self.tokenizer.save(folder)

    def load_assets(self, folder):
        self.tokenizer = load_tokenizer(folder)

    def save_to_preset(self, folder, metadata: dict[str, Any] | None = None):
        """Writes the preset folder that `zoo.load` opens. See `keras_attention.zoo.save`."""
        from keras_attention.models import preset

        return preset.save(self, folder, metadata)

    def export(self, path, format="saved_model", **options):
        """Writes the model for a runtime without this library. See `keras_attention.export`.

        Args:
            path: file or folder to write.
            format: "saved_model" or "tflite".
            options: of `export.to_saved_model` or `export.to_tflite`.

        Returns:
            `export.ExportReport`.
        """
        from keras_attention.export import to_saved_model, to_tflite  # above models: reached on use alone

        writers = {"saved_model": to_saved_model, "tflite": to_tflite}
        if format not in writers:
            raise ValueError(f"`format` must be one of {', '.join(map(repr, writers))}. Received {format!r}.")
        return writers[format](self, path, **options)

    def serving_functions(self, batch_size=None) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """Named functions that an export needs: `ids`, and `text` where the tokenizer runs in the graph.

        Args:
            batch_size: int or None. A fixed number of rows, for formats that want one.
        """
        raise TypeError(f"{type(self).__name__} defines no `serving_functions`. Every TaskModel must.")

    def sample_inputs(self) -> list[dict[str, str]]:
        """Examples to try an export with: the samples of the metadata; none where there are no such or no tokenizer."""
        samples = (getattr(self, "metadata", None) or {}).get("samples", [])
        return [self.as_example(one) for one in samples] if self.tokenizer is not None else []

    def trial_inputs(self) -> list:
        """Inputs of `run` for a model without samples: two, of different lengths."""
        texts = ("One.", "A somewhat longer text, with more words.")
        return [dict.fromkeys(self.columns[: self.input_columns], text) for text in texts]

    @property
    def id_columns(self) -> tuple[str, ...]:
        """What the signature `ids` reads, in its order; a family that makes more of a column than its ids says so."""
        return self.columns[: self.input_columns]

    def as_text(self, column: str, value) -> str:
        """A column of an example as the signature `text` takes it: one string."""
        return value

    def random_ids(self, length: int, random: np.random.Generator) -> dict[str, list[int]]:
        """Inputs of `ids` for one row, about `length` tokens long, for exports that have no samples."""
        raise TypeError(f"{type(self).__name__} defines no `random_ids`. Every TaskModel must.")

    def output_loss(self, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> float:
        """How unlikely the model finds the best outputs of a batch, in nats a token or label. An export in fewer bits
        may find others than the model: this tells how much worse they are.
        """
        raise TypeError(f"{type(self).__name__} defines no `output_loss`. Every TaskModel must.")

    def sidecar(self) -> dict[str, Any]:
        """What a program must know to use an export, in JSON types."""
        return {}
