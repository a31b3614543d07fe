"""The recipe: model, data, optimisation and evaluation of one training, in one YAML file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from keras_attention.training import configuration
from keras_attention.training.configuration import check

VERSION = 1
OPTIMIZERS = ("adam", "adamw", "sgd")
DECAYS = ("constant", "cosine", "inverse_sqrt", "linear")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes pieces.

    Args:
        kind: "sentencepiece" or "word".
        vocabulary_size: int >= 8. Number of pieces, special ones included; of words, the most that are kept.
        model_type: "unigram", the only one that the tokenizer learns.
        character_coverage: float in (0, 1]. Share of characters that get a piece of their own.
        vector_words: int >= 0. Of words: how many of the first words of the file `data.vectors` the tokenizer knows
            beyond `vocabulary_size`, which the training texts may not have, or which `leave_out` took from them. It is
            the file of "text" that counts.
        options: dict. What else `train` of this tokenizer takes, such as `min_count` of words.
    """

    kind: str = "sentencepiece"
    vocabulary_size: int = 8000
    model_type: str = "unigram"
    character_coverage: float = 1.0
    vector_words: int = 0
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        check(self.vocabulary_size >= 8, "tokenizer.vocabulary_size", self.vocabulary_size, "at least 8 pieces")
        check(self.model_type == "unigram", "tokenizer.model_type", self.model_type, '"unigram"')
        coverage = self.character_coverage
        check(0 < coverage <= 1, "tokenizer.character_coverage", coverage, "a share above 0 and at most 1")
        words = self.vector_words
        check(words >= 0 and (not words or self.kind == "word"), "tokenizer.vector_words", words, "0, or of words more")


@dataclass(frozen=True)
class DataConfig:
    """Where examples come from and how they are read.

    Args:
        format: str. Format of the files; "" tells it from their names.
        columns: names of the columns of a file, in order; () takes the model's.
        train, valid, test: paths of files; the command line may bring others.
        skip_bad: bool. Skip and count bad lines instead of stopping.
        source: str. What the data is and where a user gets it.
        license: str. The licence of the data, as it is shown with the model.
        vectors: dict. Files of word vectors from which embeddings start: the column whose they are, such as "source" or
            "text" → path.
        split: dict. How the files were split into train, valid and test.
        options: dict. What else the reader of the format takes; see `formats.READERS`.
    """

    format: str = ""
    columns: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    skip_bad: bool = False
    source: str = ""
    license: str = ""
    vectors: dict = field(default_factory=dict)
    split: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        for column, path in self.vectors.items():
            named = isinstance(column, str) and isinstance(path, str)
            check(named, "data.vectors", self.vectors, "the path of a file under each name")


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its schedule.

    Args:
        name: "adam", "adamw" or "sgd".
        learning_rate: float > 0. The highest one, reached after the warm-up.
        warmup_steps: int >= 0. Steps of linear rise.
        decay: "constant", "cosine", "inverse_sqrt" or "linear".
        final_factor: float in [0, 1]. Share of `learning_rate` that is left at the end of "cosine" and "linear".
        beta_1, beta_2, epsilon: floats. Adam's; for "sgd", `beta_1` is the momentum.
        weight_decay: float >= 0. Decoupled; not for biases and scales; not with "adam".
        clip_norm: float >= 0. Largest global norm of the gradient; 0 clips nothing.
        ema_decay: float in [0, 1). Average of the weights, min(ema_decay, (1 + t) / (10 + t)) at step t; 0 keeps none.
    """

    name: str = "adam"
    learning_rate: float = 1e-3
    warmup_steps: int = 0
    decay: str = "constant"
    final_factor: float = 0.0
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    ema_decay: float = 0.0

    def __post_init__(self):
        check(self.name in OPTIMIZERS, "optimizer.name", self.name, f"one of {', '.join(OPTIMIZERS)}")
        check(self.decay in DECAYS, "optimizer.decay", self.decay, f"one of {', '.join(DECAYS)}")
        check(0 < self.learning_rate < float("inf"), "optimizer.learning_rate", self.learning_rate, "a rate above 0")
        check(self.epsilon > 0, "optimizer.epsilon", self.epsilon, "a number above 0")
        for name in ("warmup_steps", "weight_decay", "clip_norm"):
            check(getattr(self, name) >= 0, f"optimizer.{name}", getattr(self, name), "0 or more")
        for name in ("beta_1", "beta_2", "ema_decay"):
            check(0 <= getattr(self, name) < 1, f"optimizer.{name}", getattr(self, name), "a number in [0, 1)")
        check(0 <= self.final_factor <= 1, "optimizer.final_factor", self.final_factor, "a share in [0, 1]")
        if self.name == "adam" and self.weight_decay:
            raise ValueError(
                f"`optimizer.weight_decay` is {self.weight_decay} with the optimizer adam. Expected 0 there; set "
                "`optimizer.name` to adamw for a decoupled weight decay."
            )


@dataclass(frozen=True)
class EarlyStopping:
    """When validation says stop.

    Args:
        metric: "loss" (lower is better) or a score of the family's evaluation such as "bleu" (higher is better). It
            also chooses the best model.
        patience: int >= 0. Validations without improvement before the end; 0 never stops.
    """

    metric: str = "loss"
    patience: int = 0

    def __post_init__(self):
        check(bool(self.metric), "training.early_stopping.metric", self.metric, '"loss" or the name of a score')
        check(self.patience >= 0, "training.early_stopping.patience", self.patience, "0 or more validations")


@dataclass(frozen=True)
class TrainingConfig:
    """Batches, budgets, validation and checkpoints.

    Args:
        seed: int. Of the data order; whoever builds the model seeds its weights with it too.
        precision: "float32", "mixed_bfloat16" or "mixed_float16"; applied by whoever builds the model.
        batch_tokens: int. Budget of a batch in tokens of all columns, padding included.
        batch_size: int. Examples a batch; 0 goes by `batch_tokens`, anything else does without it.
        bucket_width: int >= 1, in tokens. How far lengths in a batch may differ: wide steps mix more and pad more.
            Where the length tells the kind of an example (a task, a source), small ones make batches of one kind.
        accumulate: int >= 1. Batches whose gradients are summed to one update.
        max_length: int. Longer examples (in tokens, any column) are left out; 0 keeps all.
        epochs, steps: ints, minutes: float. Budgets; 0 is none; the first that is used up ends the training.
        minutes_clock: "wall", or "cpu": CPU time of this process over its cores, comparable on a shared machine.
        decay_over: "steps" or "minutes": the budget over which the learning rate decays.
        validate_every: int. Steps between validations; 0 validates after each epoch.
        checkpoint_every: int. Steps between checkpoints; 0 goes by time alone.
        checkpoint_seconds: float. Seconds between checkpoints; 0 goes by steps alone.
        early_stopping: `EarlyStopping`.
        keep_checkpoints: int >= 1. How many checkpoints stay.
        average_checkpoints: int. At the end, try the mean of so many last checkpoints and keep it if it validates
            better; 0 does not.
        log_seconds: float > 0. Seconds between lines of progress.
    """

    seed: int = 0
    precision: str = "float32"
    batch_tokens: int = 4096
    batch_size: int = 0
    bucket_width: int = 2
    accumulate: int = 1
    max_length: int = 0
    epochs: int = 0
    steps: int = 0
    minutes: float = 0.0
    minutes_clock: str = "wall"
    decay_over: str = "steps"
    validate_every: int = 0
    checkpoint_every: int = 1000
    checkpoint_seconds: float = 300.0
    early_stopping: EarlyStopping = EarlyStopping()
    keep_checkpoints: int = 3
    average_checkpoints: int = 0
    log_seconds: float = 10.0

    def __post_init__(self):
        choices = {"precision": PRECISIONS, "minutes_clock": ("wall", "cpu"), "decay_over": ("steps", "minutes")}
        for name, known in choices.items():
            check(getattr(self, name) in known, f"training.{name}", getattr(self, name), f"one of {', '.join(known)}")
        for name in ("seed", "batch_tokens", "batch_size", "max_length", "epochs", "steps", "minutes", "validate_every",
                     "checkpoint_every", "checkpoint_seconds", "average_checkpoints"):  # fmt: skip
            check(getattr(self, name) >= 0, f"training.{name}", getattr(self, name), "0 or more")
        for name in ("accumulate", "bucket_width", "keep_checkpoints"):
            check(getattr(self, name) >= 1, f"training.{name}", getattr(self, name), "1 or more")
        check(self.log_seconds > 0, "training.log_seconds", self.log_seconds, "a time above 0")
        check(bool(self.batch_tokens or self.batch_size), "training.batch_tokens", 0, "a size of the batch")
        budgets = self.epochs or self.steps or self.minutes
        check(bool(budgets), "training.epochs", 0, "a budget: epochs, steps or minutes")
        check(self.decay_over == "steps" or self.minutes > 0, "training.minutes", self.minutes,
              'a budget above 0 with training.decay_over "minutes"')  # fmt: skip
        check(self.average_checkpoints <= self.keep_checkpoints, "training.average_checkpoints",
              self.average_checkpoints, f"at most training.keep_checkpoints ({self.keep_checkpoints})")  # fmt: skip

    @property
    def batch_plan(self) -> dict[str, int]:
        """The limit of a batch and the width of buckets as `BatchPlan` takes them."""
        limit = {"batch_size": self.batch_size} if self.batch_size else {"batch_tokens": self.batch_tokens}
        return {**limit, "bucket_width": self.bucket_width}


@dataclass(frozen=True)
class EvaluationConfig:
    """What validation and the final test measure.

    Args:
        metrics: names of the scores to compute at each validation, besides the loss.
        valid_examples: int. At most so many validation examples are decoded; 0 decodes all. The loss takes all.
        samples: int >= 0. Fixed validation examples shown with their outputs and attention.
        decoding: dict. Options of `model.run` in validation, beside the family's own `validation_options`.
        options: dict. What else the evaluation wants (beam size, length penalty …) in the final test.
    """

    metrics: tuple[str, ...] = ()
    valid_examples: int = 0
    samples: int = 4
    decoding: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        for name in ("valid_examples", "samples"):
            check(getattr(self, name) >= 0, f"evaluation.{name}", getattr(self, name), "0 or more examples")


@dataclass(frozen=True)
class Recipe:
    """All of one training.

    Args:
        family: str. The model family, a module of `models/`.
        model: dict. The family's configuration; the model checks it.
        tokenizer, data, optimizer, training, evaluation: the configurations of this module.
        version: int. Version of the file's layout.

    Example:
        >>> recipe = Recipe.from_dict({"version": 1, "family": "translation", "training": {"epochs": 3}})
        >>> recipe.override(["optimizer.learning_rate=2e-3"]).optimizer.learning_rate
        0.002
    """

    family: str
    model: dict = field(default_factory=dict)
    tokenizer: TokenizerConfig = TokenizerConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig(epochs=10)
    evaluation: EvaluationConfig = EvaluationConfig()
    version: int = VERSION

    def __post_init__(self):
        check(self.version == VERSION, "version", self.version, f"{VERSION}, the layout that this release reads")
        check(bool(self.family), "family", self.family, "the name of a model family")
        decays = self.optimizer.decay in ("cosine", "linear") and self.training.decay_over == "steps"
        if decays and not (self.training.steps or self.training.epochs):
            raise ValueError(
                f"`optimizer.decay` is {self.optimizer.decay!r} but only a budget of minutes is given. Expected a "
                'length to decay over; set `training.decay_over` to "minutes", or give steps or epochs.'
            )

    @classmethod
    def from_yaml(cls, path: str | Path) -> Recipe:
        """Reads a recipe file.

        Raises:
            ValueError, TypeError: the file is not YAML, or a key or value is wrong; the message names the file.
            FileNotFoundError: there is no such file.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such recipe. Expected a YAML file; check the path.")
        try:
            return cls.from_dict(configuration.load_yaml(path.read_text("utf-8")))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not a YAML file ({error}). Expected `name: value` lines; correct it.") from error
        except (ValueError, TypeError) as error:
            raise type(error)(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, values: Any) -> Recipe:
        """Builds a recipe from plain data; `version` must be said."""
        if isinstance(values, dict) and "version" not in values:
            raise ValueError(f"`version` is missing. Expected `version: {VERSION}` in a recipe; add the line.")
        return configuration.from_dict(cls, values)

    def override(self, settings: Sequence[str]) -> Recipe:
        """A copy with values replaced, each given as "dotted.name=value" with a YAML value.

        Settings apply together, so that two that are only valid in company may be given in any order.
        """
        values = self.to_dict()
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not (name.strip() and equals):
                raise ValueError(f"Cannot read the setting {setting!r}. Expected name=value, as in training.epochs=3.")
            try:
                value = configuration.load_yaml(text)
            except yaml.YAMLError as error:
                raise ValueError(
                    f"Cannot read the value of {setting!r} ({error}). Expected a YAML value; quote it."
                ) from error
            configuration.set_dotted(values, name.strip(), value, type(self))
        return type(self).from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return configuration.to_dict(self)

    def to_yaml(self) -> str:
        """The file that `from_yaml` reads back."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    def without_folders(self) -> Recipe:
        """A copy that names files without the folders they lie in, fit to be shared."""
        parts = {
            part: tuple(Path(path).name for path in getattr(self.data, part)) for part in ("train", "valid", "test")
        }
        vectors = {side: Path(path).name for side, path in self.data.vectors.items()}
        return replace(self, data=replace(self.data, vectors=vectors, **parts))

    def identity(self) -> dict[str, str]:
        """Hashes of what a training cannot change when it continues: the model, and the data with its order."""
        training = self.training
        order = [training.seed, training.batch_tokens, training.batch_size, training.max_length, training.accumulate]
        if training.bucket_width != TrainingConfig.bucket_width:  # so that older trainings continue
            order.append(training.bucket_width)
        tokenizer = configuration.to_dict(self.tokenizer)
        if not self.tokenizer.vector_words:  # as above
            del tokenizer["vector_words"]
        model = [self.family, self.model, tokenizer]
        data = configuration.to_dict(self.without_folders().data)
        if not data["vectors"]:  # as above
            del data["vectors"]
        return {"model": _digest(model), "data": _digest([data, order])}


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
