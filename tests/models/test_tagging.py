from __future__ import annotations

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention import export, zoo
from keras_attention.export import runner
from keras_attention.layers import tag_constraints
from keras_attention.models import TaggingConfig, TaggingModel
from keras_attention.models.tagging import spans_of
from keras_attention.text import WordTokenizer, WordVectors
from keras_attention.training import Recipe, session
from keras_attention.training.formats import read_data
from keras_attention.training.readers import DataError

ROLES = [
    {
        "words": ["The", "cat", "chased", "the", "mouse", "."],
        "tags": ["B-A0", "I-A0", "B-V", "B-A1", "I-A1", "O"],
        "predicate": 2,
    },
    {"words": ["Dogs", "bark"], "tags": ["B-A0", "B-V"], "predicate": 1},
    {
        "words": ["It", "rained", "in", "1984", ",", "it", "seems"],
        "tags": ["O", "B-V", "B-TMP", "I-TMP", "O", "O", "O"],
        "predicate": 1,
    },
]
PARTS = [{"words": one["words"], "tags": [word[-1].upper() for word in one["words"]]} for one in ROLES]
ENTITIES = [{"words": ["Ann", "met", "Bob", "Ray"], "tags": ["B-per", "O", "B-per", "I-per"]}]
EXAMPLES = {"srl": ROLES, "none": PARTS, "bio": ENTITIES}
MARKED = ["The cat [chased] the mouse.", "[Bark]", "Unseen 12-year-olds [sang]"]
KINDS = {
    "attention": {"scheme": "srl"},
    "attention-crf": {"scheme": "srl", "crf": True},
    "recurrent": {"scheme": "bio", "nonlinear": "recurrent"},
    "lstm-crf": {"scheme": "bio", "encoder": "lstm", "crf": True},
    "words": {"scheme": "none"},
    "lstm-words-crf": {"scheme": "none", "encoder": "lstm", "crf": True},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def make_model(kind="attention", seed=3, **config):
    """A model whose every weight is different, and exact in half precision."""
    config = {**KINDS[kind], **config}
    examples = EXAMPLES[config["scheme"]]
    words = TaggingModel.learn_tokenizer(examples, "word", 100, mask_digits=True)
    settings = {"embedding_dim": 6, "units": 8, "num_layers": 2, "num_heads": 4, "feed_forward_units": 9}
    settings |= {"affix_buckets": 31, "affix_dim": 3, "shape_dim": 2, "predicate_dim": 5, "max_length": 40}
    settings |= {"vocabulary_size": words.vocabulary_size, **TaggingModel.learnt_settings(examples, config)}
    model = TaggingModel({**settings, **config}, words)
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        if weight.trainable:
            weight.assign(generator.normal(0, 0.5, weight.shape).astype(np.float16).astype(np.float32))
    return model


def batch(model, examples, width=0):
    rows = [model.vectorize(one) for one in examples]
    width = max(width, *(len(row["words"]) for row in rows))
    return {name: tf.constant([[*row[name], *[0] * (width - len(row[name]))] for row in rows]) for name in rows[0]}


def texts_for(model):
    marked = MARKED if model.config.has_predicate else [text.replace("[", "").replace("]", "") for text in MARKED]
    return marked


# The network and its loss


@each_kind
def test_padding_changes_nothing_and_a_batch_gives_what_its_rows_give(kind):
    model = make_model(kind)
    examples = EXAMPLES[model.config.scheme]
    together = model(batch(model, examples))
    wider = batch(model, examples, width=19)
    lengths = [len(one["words"]) for one in examples]
    for row, (example, length) in enumerate(zip(examples, lengths, strict=True)):
        np.testing.assert_allclose(model(wider)[row, :length], together[row, :length], atol=1e-5)
        np.testing.assert_allclose(model(batch(model, [example]))[0], together[row, :length], atol=1e-5)
    wanted = model.loss_terms(batch(model, examples), training=False)
    np.testing.assert_allclose(model.loss_terms(wider, training=False), wanted, rtol=1e-5)
    assert float(wanted[1]) == sum(lengths)


def test_what_is_read_is_the_word_its_forms_and_whether_it_is_the_predicate():
    model = make_model()
    seen = {}
    model.encoder.call = lambda inputs, **options: seen.update(inputs=inputs) or (inputs[..., :8], [])
    row = batch(model, ROLES[:1])
    model(row)
    tables = {name: np.asarray(getattr(model, name).embeddings) for name in ("embedding", "affixes", "shapes")}
    parts = [tables["embedding"][row["words"]]]
    parts += [tables["affixes"][row[name]] for name in ("prefix_1", "prefix_3", "suffix_2", "suffix_3", "suffix_4")]
    parts += [tables["shapes"][row["shapes"]], np.asarray(model.predicates.embeddings)[[[1, 1, 2, 1, 1, 1]]]]
    np.testing.assert_array_equal(seen["inputs"], np.concatenate(parts, axis=-1))


def test_the_loss_of_each_word_is_the_smoothed_cross_entropy():
    model = make_model("words", label_smoothing=0.1)
    row = batch(model, PARTS)
    logits, tags = np.asarray(model(row), np.float64), row["tags"].numpy()
    log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    right = np.take_along_axis(log, np.maximum(tags - 1, 0)[..., None], -1)[..., 0]
    for training, share in ((False, 0.0), (True, 0.1)):
        wanted = -((1 - share) * right + share * log.mean(-1))[tags > 0].sum()
        np.testing.assert_allclose(model.loss_from_logits(model(row), row["tags"], training)[0], wanted, rtol=1e-5)


def sequences(tags, length, allowed):
    """All sequences that the rules allow, found by trying every one of them."""
    grid = np.stack(np.meshgrid(*[range(tags)] * length, indexing="ij"), -1).reshape(-1, length)
    rules = {name: np.array(rule) for name, rule in allowed.items()}
    good = rules["allowed_start"][grid[:, 0]] & rules["allowed_end"][grid[:, -1]]
    for place in range(1, length):
        good &= rules["allowed_transitions"][grid[:, place - 1], grid[:, place]]
    return grid[good]


@pytest.mark.parametrize("crf", [False, True])
def test_the_chosen_tags_are_the_best_of_all_that_are_spans(crf):
    model = make_model("recurrent", crf=crf)
    labels = model.config.labels
    row = batch(model, ENTITIES)
    logits = np.asarray(model(row), np.float64)[0]
    paths = sequences(len(labels), len(logits), tag_constraints(labels))
    assert 1 < len(paths) < len(labels) ** len(logits)
    if crf:
        moves = np.asarray(model.chain.transitions, np.float64)[paths[:, :-1], paths[:, 1:]].sum(1)
        ends = np.asarray(model.chain.start)[paths[:, 0]] + np.asarray(model.chain.end)[paths[:, -1]]
        scores = logits[np.arange(len(logits)), paths].sum(1) + moves + ends
        scores -= np.log(np.exp(scores).sum())
    else:
        log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        scores = log[np.arange(len(logits)), paths].sum(1)
    tags, score = model.choose(model(row), row["words"] != 0)
    np.testing.assert_array_equal(tags[0], paths[scores.argmax()])
    np.testing.assert_allclose(score[0], scores.max(), rtol=1e-4)
    found = model.tag([ENTITIES[0]["words"]])[0]
    assert found.score == pytest.approx(scores.max() / len(logits), rel=1e-4)


@pytest.mark.parametrize("kind", ["attention", "attention-crf", "recurrent", "lstm-crf"])
def test_tags_are_whole_spans_whatever_the_weights(kind):
    for seed in range(3):
        model = make_model(kind, seed)
        for prediction in model.tag(texts_for(model) * 2):
            tags = [tag for _, tag in prediction.output]
            assert all(tag[0] != "I" or one != "O" for one, tag in zip(["O", *tags], tags, strict=False))
            assert all(tag[0] != "I" or one[2:] == tag[2:] for one, tag in zip(["O", *tags], tags, strict=False))


@each_kind
def test_every_weight_learns(kind):
    model = make_model(kind)
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(batch(model, EXAMPLES[model.config.scheme]), training=True)
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert gradient is not None, weight.path
        values = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(values).all()
        if not weight.path.endswith("key/bias"):
            assert np.abs(values).max() > 0, weight.path
    assert any("chain" in weight.path for weight in model.trainable_weights) == model.config.crf


# Data


def test_tags_and_words_are_learnt_from_the_examples():
    assert TaggingModel.learnt_settings(ROLES, {"scheme": "srl"})["labels"] == [
        "O", "B-A0", "I-A0", "B-A1", "I-A1", "B-TMP", "I-TMP", "B-V", "I-V"
    ]  # fmt: skip
    assert TaggingModel.learnt_settings(PARTS[1:2], {})["labels"] == ["K", "S"]
    twice = [{"words": ["Kim", "told", "@kim", "x" * 90], "tags": ["B-per", "O", "O", "O"], "predicate": 1}] * 2
    words = TaggingModel.learn_tokenizer(twice, "word", 100, leave_out=["per"])
    assert words.tokens(range(4, words.vocabulary_size)) == ["told"]
    with pytest.raises(ValueError, match=r"No word is left of .* with min_count=2"):  # a sentence counts once
        TaggingModel.learn_tokenizer(twice, "word", 100, min_count=2)
    named = [{"words": ["Kim", "told"], "tags": ["O", "O"], "pos": ["NNP", "VBD"]}]
    assert TaggingModel.learn_tokenizer(named, "word", 100, leave_out=["NNP"]).vocabulary_size == 5
    with pytest.raises(ValueError, match=r"`tokenizer.kind` is 'sentencepiece'. A tagger needs one id a word"):
        TaggingModel.learn_tokenizer(ROLES, "sentencepiece", 100)


def test_a_text_and_its_words_and_a_mark_and_its_place_are_read_alike():
    model = make_model()
    wanted = model.vectorize({"words": ["The", "cat", "chased", "the", "mouse", "."], "predicate": 2})
    assert model.vectorize({"words": "The cat [chased] the mouse."}) == wanted
    assert model.vectorize({"words": ["The", "cat", "[", "chased", "]", "the", "mouse", "."]}) == wanted
    assert model.vectorize({"words": "The cat chased the mouse.", "predicate": 2}) == wanted
    unknown = model.vectorize({"words": "The ox [ran]"})["words"]
    assert unknown[1:] == [model.tokenizer.unk_id] * 2


def test_words_come_back_as_they_were_written():
    model = make_model("words")
    text, words = "In 1984 it’s McDonald's!", ["In", "1984", "it", "'s", "McDonald", "'s", "!"]
    assert [word for word, _ in model.tag(text).output] == words
    assert [word for word, _ in model.tag({"words": ["A\u200b", "(1,5)"]}).output] == ["A\u200b", "(1,5)"]
    assert model.tag(["", "The cat"][1:])[0].output == model.tag("The cat").output


@each_kind
def test_predictions_are_those_of_each_text_alone(kind):
    model = make_model(kind)
    texts = texts_for(model)
    together = model.tag(texts * 3, batch_tokens=8)
    for text, found in zip(texts * 3, together, strict=True):
        alone = model.tag(text)
        assert alone.output == found.output
        assert alone.score == pytest.approx(found.score, rel=1e-4)
        words = [word for word, _ in found.output]
        assert len(found.attention) == (0 if "lstm" in kind else 2)
        for number, one in enumerate(found.attention, start=1):
            assert (one.name, one.axes, list(one.rows), list(one.columns)) == (
                f"layer_{number}", ("head",), words, words
            )  # fmt: skip
            np.testing.assert_allclose(one.weights.sum(-1), 1, rtol=1e-4)
        assert ("spans" in found.extra) == model.config.spans
    assert model.tag(texts[0], attention=False).attention == []
    assert model.tag([]) == []


def test_spans_have_their_words():
    words, tags = ["Ann", "met", "Bob", "Ray", "Lee"], ["B-per", "O", "B-per", "I-per", "B-per"]
    assert spans_of(words, tags) == [
        {"type": "per", "text": "Ann", "start": 0, "end": 1},
        {"type": "per", "text": "Bob Ray", "start": 2, "end": 4},
        {"type": "per", "text": "Lee", "start": 4, "end": 5},
    ]


def test_very_long_input_is_read_or_refused():
    model = make_model("words")
    long = "x" * 5000
    assert [word for word, _ in model.tag(f"The {long} sat").output] == ["The", long, "sat"]
    assert model.serving_functions()["text"](tf.constant([f"The {long} sat"]))["words"].shape == (1, 3)
    with pytest.raises(
        ValueError, match=r"The text has 10000 words; the model reads at most 40. .*begins with 'cat cat"
    ):
        model.tag("cat " * 10_000)
    with pytest.raises(ValueError, match=r"The text has 41 words; .*\(input 2\)"):
        model.tag(["cat", ["cat"] * 41])


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({"words": []}, ValueError, "The words are empty"),
        ("  ", ValueError, "The words are empty"),
        ([[]], ValueError, r"The words are empty \(input 1\)"),
        ("\u200b", ValueError, "The text has no word"),
        ({"words": ["a", " "]}, ValueError, "A word is empty: ' '"),
        ({"words": ["a", 3]}, TypeError, "A word must be a str. Received 3"),
        (7, TypeError, "`tag` wants text, a list of words, .* Received int"),
        ({"text": "a"}, TypeError, "under words. Received NoneType"),
    ],
)
def test_what_is_no_sentence_is_refused(value, kind, message):
    with pytest.raises(kind, match=message):
        make_model("words").tag(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("The cat chased it", "No predicate is marked. Put square brackets around the one word"),
        ("The [cat] [chased] it", "one predicate at a time"),
        ({"words": ["Dogs", "bark"], "predicate": 2}, "`predicate` must be the place of a word, 0 to 1. Received 2"),
        ({"words": ["Dogs", "bark"], "predicate": True}, "Received True"),
    ],
)
def test_a_predicate_must_be_given(value, message):
    with pytest.raises(ValueError, match=message):
        make_model().tag(value)


def test_tags_must_be_known_and_as_many_as_words():
    model = make_model("words")
    with pytest.raises(ValueError, match=r"The tag 'Q' is not one that the model has. Expected one of "):
        model.vectorize({"words": ["cat"], "tags": ["Q"]})
    with pytest.raises(ValueError, match="There are 2 words and 1 tags"):
        model.vectorize({"words": ["the", "cat"], "tags": ["E"]})
    with pytest.raises(ValueError, match="The model has no tokenizer"):
        TaggingModel(model.config).tag("cat")
    with pytest.raises(TypeError, match="`tag` has no option 'beam_size'"):
        model.tag("cat", beam_size=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": []}, "`labels` must name at least one tag"),
        ({"labels": ["O", "O"]}, "each once"),
        ({"labels": "O"}, "`labels` must be a list"),
        ({"labels": ["O", "PER"], "scheme": "bio"}, "'PER' is no tag of the scheme BIO"),
        ({"labels": ["O", "I-per"], "scheme": "bio"}, "has I-per, and no B-per"),
        ({"scheme": "iob"}, "`scheme` must be one of 'none', 'bio', 'srl'. Received 'iob'"),
        ({"encoder": "gru"}, "`encoder` must be one of"),
        ({"units": 9}, "`units` must be even, and num_heads=8 must divide it. Received 9"),
        ({"units": 12}, "must divide it. Received 12"),
        ({"crf": True, "label_smoothing": 0.1}, "`label_smoothing` is of the softmax"),
        ({"affix_dim": 0}, "`affix_dim` must be an int >= 1"),
        ({"dropout": 1.0}, "`dropout` must be a number in"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TaggingConfig(**{"vocabulary_size": 9, "labels": ["O", "B-per", "I-per"], **settings})


def test_embeddings_may_start_from_vectors_and_stay():
    model = make_model("words", embeddings="frozen")
    vectors = WordVectors(("cat", "the"), np.arange(12, dtype=np.float32).reshape(2, 6))
    assert model.set_word_vectors(vectors) == 2
    (place,) = model.tokenizer.encode("cat")
    np.testing.assert_array_equal(model.embedding.embeddings[place], vectors.vectors[0])
    assert not any("embedding/" in weight.path for weight in model.trainable_weights)


# Training


def write(path, examples):
    lines = ["\n".join("\t".join(pair) for pair in zip(one["words"], one["tags"], strict=True)) for one in examples]
    path.write_text("\n\n".join(lines) + "\n", "utf-8")
    return path


RECIPE = {
    "version": 1,
    "family": "tagging",
    "model": {"scheme": "bio", "units": 16, "num_layers": 1, "num_heads": 2, "feed_forward_units": 20,
              "affix_buckets": 64, "crf": True},
    "tokenizer": {"kind": "word", "vocabulary_size": 50, "options": {"mask_digits": True}},
    "data": {"format": "conll"},
    "optimizer": {"learning_rate": 1e-2},
    "training": {"steps": 40, "batch_size": 2, "validate_every": 20, "early_stopping": {"metric": "f1"}},
    "evaluation": {"metrics": ["f1"]},
}  # fmt: skip


def test_it_is_trained_by_a_recipe_and_loads_as_it_was(tmp_path):
    train = write(tmp_path / "train.conll", ENTITIES * 3)
    session.train(Recipe.from_dict(RECIPE), tmp_path / "run", [train], [train])
    model = zoo.load(tmp_path / "run")
    assert model.tag([ENTITIES[0]["words"]])[0].output == list(
        zip(ENTITIES[0]["words"], ENTITIES[0]["tags"], strict=True)
    )
    assert model.metadata["scores"]["validation"]["f1"] == 100


def test_the_places_of_columns_are_options_of_the_data(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text("# text = The cat\n1-2\tThecat\t_\t_\n1\tThe\tthe\tDET\n2\tcat\tcat\tNOUN\n", "utf-8")
    options = {"format": "conll", "places": {"words": 1, "tags": 3}, "id_column": 0}
    assert [*read_data([path], columns=TaggingModel.columns, **options)] == [
        {"words": ["The", "cat"], "tags": ["DET", "NOUN"]}
    ]
    with pytest.raises(ValueError, match="has no option 'places'"):
        read_data([path], columns=("words", "tags"), format="tsv", places={"words": 1})


def test_a_missing_column_and_an_unknown_tag_are_named_with_their_line(tmp_path):
    train = write(tmp_path / "train.conll", ENTITIES)
    short = tmp_path / "short.conll"
    short.write_text("Ann\tB-per\nmet\n", "utf-8")
    with pytest.raises(DataError, match=re.escape(f"{short}:2: column 1 ('tags') is missing")):
        session.train(Recipe.from_dict(RECIPE), tmp_path / "run", [short], [train])
    other = tmp_path / "other.conll"
    other.write_text("Ann\tB-per\n\nParis\tB-loc\n", "utf-8")
    with pytest.raises(DataError, match=re.escape(f"{other}:3: The model refuses this: The tag 'B-loc' is not one")):
        session.train(Recipe.from_dict(RECIPE), tmp_path / "run2", [train], [other])


# Round trips


@each_kind
def test_a_preset_gives_the_same_tags(kind, tmp_path):
    model = make_model(kind)
    model.save_to_preset(tmp_path / "preset", {"task": "tagging"})
    copy = zoo.load(tmp_path / "preset")
    assert copy.config == model.config
    for one, other in zip(model.tag(texts_for(model)), copy.tag(texts_for(model)), strict=True):
        assert (one.output, one.score, one.extra) == (other.output, pytest.approx(other.score), other.extra)


def test_it_is_a_keras_model_that_is_saved_and_fitted(tmp_path):
    model = make_model("recurrent")
    model.compile(keras.optimizers.Adam(0.02))
    data = tf.data.Dataset.from_tensors(batch(model, ENTITIES)).repeat(8)
    losses = model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"]
    assert losses[1] < losses[0]
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    assert copy.tag("Ann met Bob").output == model.tag("Ann met Bob").output


@each_kind
def test_ids_run_on_litert_as_in_the_model(kind, tmp_path):
    model = make_model(kind)
    report = model.export(tmp_path / "tags.tflite", "tflite")
    assert report.checks["equal_outputs"] == 1.0
    run = runner.tflite_runner(report.path, "ids")
    for text in texts_for(model):
        example = model.vectorize({"words": text})
        found = run(**{name: np.array([example[name]], np.int32) for name in model.id_columns})
        wanted = model.tag(text)
        assert [model.config.labels[tag] for tag in found["tags"][0]] == [tag for _, tag in wanted.output]
        assert found["score"][0] == pytest.approx(wanted.score, abs=1e-4)
    assert '"affix_buckets": 31' in report.sidecar.read_text("utf-8")


@pytest.mark.parametrize("kind", ["attention", "lstm-words-crf"])
def test_text_runs_in_a_saved_model_as_in_python(kind, tmp_path):
    model = make_model(kind)
    report = export.to_saved_model(model, tmp_path / "saved")
    assert report.checks["text"]["equal_outputs"] == 1.0
    texts = [*texts_for(model), "A 5,000 $ café’s [end]... isn't it" if model.config.has_predicate else "isn't it 7?"]
    found = runner.run_saved_model(str(report.path), "text", {"all": {"words": np.array(texts, object)}})["all"]
    for row, wanted in enumerate(model.tag(texts)):
        size = len(wanted.output)
        pairs = zip(found["words"][row, :size], found["labels"][row, :size], strict=True)
        assert [(word.decode(), tag.decode()) for word, tag in pairs] == wanted.output
        assert set(found["words"][row, size:]) <= {b""}
        assert found["text"][row].decode() == " ".join("/".join(pair) for pair in wanted.output)
        assert found["score"][row] == pytest.approx(wanted.score, abs=1e-5)


def test_a_word_tokenizer_learns_from_words_as_it_finds_them():
    words = WordTokenizer.train([["a.m.", "Don't"], ["a.m.", "\u200b"]], min_count=1)
    assert words.encode_words(["A.M.", "don't"]) == [4, 5]
