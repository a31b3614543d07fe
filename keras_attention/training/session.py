"""`train`: from a recipe and files to a run folder whose best model `zoo.load` opens."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from keras_attention.models import family_class
from keras_attention.text import WordVectors
from keras_attention.text.tokenizers import load_tokenizer
from keras_attention.training.devices import role
from keras_attention.training.formats import read_data
from keras_attention.training.readers import BadLines, DataError
from keras_attention.training.recipe import Recipe
from keras_attention.training.trainer import FitResult, Trainer

__all__ = ["build_model", "train"]

logger = logging.getLogger(__name__)


def train(
    recipe: Recipe,
    run_folder: str | Path,
    train_paths: Sequence[str | Path] = (),
    valid_paths: Sequence[str | Path] = (),
    *,
    strategy: tf.distribute.Strategy | None = None,
    tokenizer_folder: str | Path | None = None,
    resume: bool = True,
) -> FitResult:
    """Trains a model by a recipe, on files; started again on the same run folder, it goes on where it was.

    Args:
        recipe: `Recipe`.
        run_folder: path. Gets the tokenizer, checkpoints, TensorBoard events, and the best model as a preset in
            `best/`.
        train_paths, valid_paths: files of examples; the recipe's by default.
        strategy: `tf.distribute.Strategy`; one device by default.
        tokenizer_folder: path. Takes this tokenizer instead of learning one from the training files.
        resume: bool. False starts over.

    Returns:
        `FitResult`.

    Raises:
        DataError: a file is missing or has a bad line, which is named; or no file is given.
        ValueError: the recipe does not fit the family or the tokenizer, or the tokenizer not the run folder.
    """
    kind = family_class(recipe.family)
    run_folder = Path(run_folder)
    examples = {
        part: _read(recipe, kind, part, paths) for part, paths in (("train", train_paths), ("valid", valid_paths))
    }
    strategy = strategy or tf.distribute.get_strategy()
    own_folder = run_folder / "tokenizer"
    earlier = load_tokenizer(own_folder) if resume and own_folder.is_dir() else None
    if earlier is not None and tokenizer_folder is None:
        tokenizer = earlier
    else:
        tokenizer = _tokenizer(recipe, kind, examples["train"], tokenizer_folder)
    if earlier is None:
        if role(strategy)[0]:
            _keep(tokenizer, own_folder)
    elif tokenizer.model_bytes != earlier.model_bytes:
        raise ValueError(
            f"{tokenizer_folder} is another tokenizer than the one in {own_folder}, with which this training began. "
            "Leave it out to continue, start over with resume=False, or choose another run folder."
        )
    learnt = kind.learnt_settings(examples["train"], recipe.model)
    with strategy.scope():
        model = build_model(recipe, tokenizer, learnt)
    return Trainer(model, recipe, run_folder, strategy, resume=resume).fit(examples["train"], examples["valid"])


def build_model(recipe: Recipe, tokenizer, learnt: Mapping[str, Any] = MappingProxyType({})) -> keras.Model:
    """The untrained model of a recipe, with the recipe's seed and precision, and what its settings learnt from data."""
    kind = family_class(recipe.family)
    size = recipe.model.get("vocabulary_size", tokenizer.vocabulary_size)
    if size != tokenizer.vocabulary_size:
        raise ValueError(
            f"model.vocabulary_size is {size!r}, the tokenizer has {tokenizer.vocabulary_size} pieces. Leave it out of "
            "the recipe: the tokenizer decides."
        )
    keras.utils.set_random_seed(recipe.training.seed)
    settings = {**recipe.model, **learnt, "vocabulary_size": tokenizer.vocabulary_size}
    config = kind.config_class.from_dict(settings)
    model = kind(config, tokenizer, dtype=recipe.training.precision)
    _set_vectors(model, recipe)
    return model


def _set_vectors(model, recipe):
    """Starts embeddings from the files that `data.vectors` names, and says how many words were found."""
    for side, path in recipe.data.vectors.items():
        if not hasattr(model, "set_word_vectors"):
            raise ValueError(f"`data.vectors` names {path}, but a {recipe.family} model takes none. Leave it out.")
        vectors = WordVectors.load(path, dimensions=model.config.embedding_dim)
        found = model.set_word_vectors(vectors, side)
        if not found:
            raise ValueError(
                f"None of the {model.tokenizer.vocabulary_size} words of the vocabulary is in {path}. Expected vectors "
                "of the same language and spelling; choose others."
            )
        logger.warning("%d of %d words have a vector in %s.", found, model.tokenizer.vocabulary_size, path)


def _read(recipe, kind, part, paths):
    paths = list(paths) or list(getattr(recipe.data, part))
    if not paths:
        raise DataError(f"No {part} file is given, and the recipe names none. Give one with --{part} FILE.")
    bad = BadLines()
    examples = list(
        read_data(
            paths,
            columns=recipe.data.columns or kind.columns,
            format=recipe.data.format,
            skip_bad=recipe.data.skip_bad,
            bad_lines=bad,
            **recipe.data.options,
        )
    )
    if bad.count:
        logger.warning("%d bad lines of the %s files were skipped; the first: %s", bad.count, part, bad.messages[0])
    return examples


def _keep(tokenizer, folder):
    """Saves the tokenizer so that a kill leaves a whole folder or none."""
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    tokenizer.save(draft)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(draft, folder)


def _tokenizer(recipe, kind, examples, folder):
    """The tokenizer in `folder`, or a new one learnt from the texts of the training examples."""
    if folder is not None:
        return load_tokenizer(folder)
    config = recipe.tokenizer
    options = dict(config.options)
    if config.kind == "sentencepiece" or config.character_coverage != 1:  # words have no share of characters
        options["character_coverage"] = config.character_coverage
    try:
        tokenizer = kind.learn_tokenizer(examples, config.kind, config.vocabulary_size, **options)
    except TypeError as error:
        raise ValueError(f"`tokenizer` does not fit the kind {config.kind!r}: {error}. Correct the recipe.") from error
    if not config.vector_words:
        return tokenizer
    if "text" not in recipe.data.vectors:
        raise ValueError(
            f"`tokenizer.vector_words` is {config.vector_words}, but `data.vectors` names no file of 'text'. Name one, "
            "or set it to 0."
        )
    return tokenizer.extended(WordVectors.load(recipe.data.vectors["text"], limit=config.vector_words).words)
