"""Translation with a vocabulary of words: unknown words are copied from the input, and everything else works as with
pieces."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention import zoo
from keras_attention.models import TransformerTranslationModel, TranslationModel, preset
from keras_attention.models.unknown_words import replace_unknown
from keras_attention.text import WordTokenizer
from keras_attention.training import Recipe, session
from tests.tiny import PAIRS, make_model

TEXT = "Where are Zorx and Blurb, the (Fizz) museum's 17 new keys?"
TRANSFORMER = {"embedding_dim": 8, "feed_forward_units": 6, "num_heads": 2, "num_layers": 2, "max_length": 40}
RECURRENT = {"embedding_dim": 6, "units": 8, "max_length": 40}


def word_model(kind=TranslationModel, **settings):
    tokenizer = WordTokenizer.train([text for pair in PAIRS for text in pair], min_count=2)
    keras.utils.set_random_seed(1)
    defaults = RECURRENT if kind is TranslationModel else TRANSFORMER
    model = kind({"vocabulary_size": tokenizer.vocabulary_size, "beam_size": 2, **defaults, **settings}, tokenizer)
    generator = np.random.default_rng(2)
    for weight in model.weights:
        weight.assign(generator.normal(0, 0.4, weight.shape).astype(np.float16).astype(np.float32))
    return model


def favour_unknown(model, by):
    model.output_bias.assign(by * np.eye(model.config.vocabulary_size)[model.tokenizer.unk_id])
    return model


def test_an_unknown_word_becomes_the_word_with_the_highest_mean_weight():
    tokenizer = WordTokenizer.from_words(["we", "go", "to"])
    words = ["we", "visit", "zorx"]
    weights = np.array(
        [  # two heads; the last column is that of the end
            [[0.1, 0.2, 0.3, 0.4], [0.5, 0.2, 0.2, 0.1]],
            [[0.0, 0.6, 0.4, 0.0], [0.0, 0.1, 0.9, 0.0]],
            [[0.1, 0.3, 0.0, 0.6], [0.1, 0.3, 0.0, 0.6]],
            [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]],
        ]
    )
    ids = [tokenizer.encode("go")[0], tokenizer.unk_id, tokenizer.unk_id, tokenizer.end_id]
    assert tokenizer.decode(ids) == "go <unk> <unk>"
    assert replace_unknown(tokenizer, ids, words, weights) == "go zorx visit"


def test_every_word_of_an_input_has_its_column():
    tokenizer = word_model().tokenizer
    for text in (TEXT, "Zorx Blurb Fizz!", "\u00bfqu\u00e9?", "a\u00a0b  c-d 3.14 ... it's"):
        assert len(tokenizer.words(text)) == len(tokenizer.encode(text)), text


@pytest.mark.parametrize("kind", [TranslationModel, TransformerTranslationModel])
@pytest.mark.parametrize("beam_size", [1, 2])
def test_unknown_words_of_a_translation_are_replaced(kind, beam_size):
    model = favour_unknown(word_model(kind), 3.0)
    texts = [TEXT, "The library."]
    plain = model.translate(texts, beam_size=beam_size)
    for text, before, after in zip(
        texts, plain, model.translate(texts, beam_size=beam_size, replace_unknown=True), strict=True
    ):
        rows = before.attention[0].rows
        assert "<unk>" in rows
        weights = np.concatenate([one.weights.reshape(-1, *one.weights.shape[-2:]) for one in before.attention])
        words = model.tokenizer.words(text)
        looked_at = [words[place] for place in weights.mean(0)[:, : len(words)].argmax(-1)]
        wanted = [copied if row == "<unk>" else row for row, copied in zip(rows, looked_at, strict=True)]
        assert after.output == " ".join(word for word in wanted if word != "</s>")
        assert after.score == pytest.approx(before.score)
    without = model.translate(texts, beam_size=beam_size, replace_unknown=True, attention=False)
    assert [one.attention for one in without] == [[], []]
    assert without[0].output == model.translate(texts, beam_size=beam_size, replace_unknown=True)[0].output


def test_where_nothing_can_be_copied_it_is_said():
    with pytest.raises(ValueError, match="vocabulary of this model is not one of words.*SentencePieceTokenizer"):
        make_model().translate("One.", replace_unknown=True)
    with pytest.raises(ValueError, match="this model has no attention. Leave it out"):
        word_model(attention="none").translate("One.", replace_unknown=True)


@pytest.mark.parametrize("kind", [TranslationModel, TransformerTranslationModel])
def test_a_preset_of_words_comes_back(kind, tmp_path):
    model = word_model(kind)
    copy = preset.load(preset.save(model, tmp_path / "preset"))
    assert type(copy.tokenizer) is WordTokenizer
    assert copy.tokenizer.model_bytes == model.tokenizer.model_bytes
    assert [path.name for path in (tmp_path / "preset" / "tokenizer").iterdir()] == ["words.model"]
    assert copy.translate(TEXT).output == model.translate(TEXT).output


def test_a_keras_file_of_words_comes_back(tmp_path):
    model = word_model()
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    assert copy.tokenizer.model_bytes == model.tokenizer.model_bytes
    assert copy.translate(TEXT).output == model.translate(TEXT).output


def test_strings_in_the_graph_give_the_same_words():
    model = word_model()
    texts = [TEXT, "Zorx library", "Is it here?"]
    found = model.serving_functions(beam_size=2)["text"](tf.constant(texts))
    wanted = [one.output for one in model.translate(texts, beam_size=2)]
    assert [one.decode() for one in found["text"][:, 0].numpy()] == wanted


def recipe(**changes):
    values = {
        "version": 1,
        "family": "translation",
        "model": RECURRENT,
        "tokenizer": {"kind": "word", "vocabulary_size": 60, "options": {"min_count": 2}},
        "training": {"steps": 2, "batch_size": 8},
        **changes,
    }
    return Recipe.from_dict(values)


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"source": one, "target": two}) + "\n" for one, two in PAIRS), "utf-8")
    return [path]


def test_a_recipe_chooses_words(files, tmp_path):
    done = session.train(recipe(), tmp_path / "run", files, files)
    assert done.steps == 2
    model = zoo.load(tmp_path / "run")
    assert type(model.tokenizer) is WordTokenizer
    assert model.tokenizer.vocabulary_size <= 60
    assert model.tokenizer.encode("museum") == [model.tokenizer.unk_id]  # it comes once
    assert session.train(recipe(), tmp_path / "run", files, files).steps == 2  # continued with its own tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"kind": "words"}, "Unknown tokenizer 'words'. Expected one of 'sentencepiece', 'word'. Did you mean 'word'"),
        ({"kind": "word", "character_coverage": 0.99}, "`tokenizer` does not fit the kind 'word'.*character_coverage"),
        ({"kind": "word", "options": {"counts": 2}}, "`tokenizer` does not fit the kind 'word'.*counts"),
    ],
)
def test_a_recipe_with_another_tokenizer_is_refused(files, tmp_path, tokenizer, message):
    with pytest.raises(ValueError, match=message):
        session.train(recipe(tokenizer=tokenizer), tmp_path / "run", files, files)
