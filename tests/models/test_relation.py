from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention import export, zoo
from keras_attention.models import RelationConfig, RelationModel, preset
from keras_attention.models.losses import ranking_loss
from keras_attention.text import WordTokenizer
from keras_attention.text.entity_marks import MARKS, reserve_marks
from keras_attention.training import Recipe, evaluate, parse_relation, semeval2010_macro_f1, session

LABELS = ["Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Instrument-Agency(e2,e1)", "Other"]
EXAMPLES = [
    {"text": text, "label": label}
    for text, label in [
        ("The <e1>author</e1> of a keygen uses a <e2>disassembler</e2>.", "Instrument-Agency(e2,e1)"),
        ("The <e1>burst</e1> has been caused by water hammer <e2>pressure</e2>.", "Cause-Effect(e2,e1)"),
        ("<e2>Water</e2> hammer <e1>pressure</e1> has caused it, hasn't it?", "Cause-Effect(e1,e2)"),
        ("A <e1>misty <b>ridge</e1> uprises from the <e2>surge</e2>", "Other"),
    ]
]
TEXTS = [one["text"] for one in EXAMPLES]
VARIANTS = {
    "zhou": {},
    "rich": {"directions": "concat", "entities": True, "position_dim": 3, "position_range": 4, "num_layers": 2},
    "ranking": {"loss": "ranking", "no_relation": "Other", "entities": True},
    "self_attention": {"encoder": "self_attention", "num_layers": 2, "num_heads": 2, "position_dim": 3},
}
each_variant = pytest.mark.parametrize("name", VARIANTS)


def make_model(name="zhou", **changes):
    tokenizer = RelationModel.learn_tokenizer(EXAMPLES, "word", 100)
    keras.utils.set_random_seed(1)
    defaults = {"labels": LABELS, "embedding_dim": 5, "units": 8, "max_length": 40}
    values = {"vocabulary_size": tokenizer.vocabulary_size, **defaults, **VARIANTS[name], **changes}
    model = RelationModel(values, tokenizer)
    generator = np.random.default_rng(2)
    for weight in model.trainable_variables:
        weight.assign(generator.normal(0, 0.5, weight.shape).astype(np.float16).astype(np.float32))
    return model


# The papers in NumPy, one sentence at a time


def numbers(variable):
    return np.asarray(variable, np.float64)


def softmax(score):
    powers = np.exp(score - score.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(layer, inputs):
    kernel, recurrent, bias = map(numbers, layer.get_weights())
    h = c = np.zeros(recurrent.shape[0])
    outputs = []
    for x in inputs:
        i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def both_directions(layer, inputs):
    return lstm(layer.forward_layer, inputs), lstm(layer.backward_layer, inputs[::-1])[::-1]


def normalized(layer, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * numbers(layer.gamma) + numbers(layer.beta)


def dense(layer, x):
    return x @ numbers(layer.kernel) + numbers(layer.bias)


def with_positions(model, ids):
    """Words, and beside each its distance to <e1> and to <e2>, cut off at the range."""
    rows = [numbers(model.embedding.embeddings)[ids]]
    if model.positions is not None:
        reach = model.config.position_range
        for mark, table in zip((4, 6), model.positions.embeddings, strict=True):
            distances = [place - ids.index(mark) for place in range(len(ids))]
            rows.append(numbers(table.embeddings)[[max(-reach, min(reach, one)) + reach for one in distances]])
    return np.concatenate(rows, axis=-1)


def self_attention_states(encoder, inputs, num_heads):
    """Vaswani et al., 2017, sections 3.2 and 3.3; a normalisation before each sublayer and one at the end."""
    states = dense(encoder.project, inputs)
    for number, attention in enumerate(encoder.attentions):
        x = normalized(encoder.norms[2 * number], states)
        weights = {one.path.rsplit("/", 2)[-2] + "/" + one.name: numbers(one) for one in attention.weights}
        q, k, v = (
            np.einsum("td,dhe->hte", x, weights[f"{name}/kernel"]) + weights[f"{name}/bias"][:, None]
            for name in ("query", "key", "value")
        )
        a = softmax(np.einsum("hqe,hke->hqk", q, k) / np.sqrt(q.shape[-1]))
        read = np.einsum("hqk,hke,heo->qo", a, v, weights["attention_output/kernel"])
        states = states + read + weights["attention_output/bias"]
        fed = np.maximum(dense(encoder.widens[number], normalized(encoder.norms[2 * number + 1], states)), 0)
        states = states + dense(encoder.narrows[number], fed)
    return normalized(encoder.norms[-1], states)


def reference(model, text):
    """Zhou et al., 2016, section 3: probabilities and α; with what the settings add to it."""
    config = model.config
    ids = model.tokenizer.encode(reserve_marks(text))
    inputs = words = with_positions(model, ids)
    if config.encoder == "self_attention":
        states = self_attention_states(model.encoder, inputs, config.num_heads)
    else:
        *lower, top = model.encoder.recurrent.layers
        for layer in lower:
            inputs = np.concatenate(both_directions(layer, inputs), axis=-1)
        forward, backward = both_directions(top, inputs)
        states = forward + backward if config.directions == "sum" else np.concatenate([forward, backward], axis=-1)
    alpha = softmax(np.tanh(states) @ numbers(model.pooling.query))
    parts = [np.tanh(alpha @ states)]
    if config.entities:
        for opened, closed in ((4, 5), (6, 7)):
            inside = slice(ids.index(opened) + 1, ids.index(closed))
            parts += [np.tanh(states[inside].mean(0)), words[inside].mean(0)]
    scores = dense(model.output_layer, np.concatenate(parts))
    if config.no_relation:  # dos Santos et al., 2015: no score, so that it wins where no other is above 0
        scores = np.insert(scores, config.labels.index(config.no_relation), 0.0)
    return softmax(scores), alpha


@each_variant
def test_the_network_is_that_of_the_papers(name):
    model = make_model(name)
    for text in TEXTS:
        wanted, alpha = reference(model, text)
        found = model.relate(text)
        np.testing.assert_allclose([*found.extra["probabilities"].values()], wanted, atol=2e-5)
        np.testing.assert_allclose(found.attention[0].weights[0], alpha, atol=2e-5)
        assert found.output == LABELS[int(wanted.argmax())]


def test_marks_are_words_of_a_map():
    model = make_model("self_attention")
    words, encoder = model.relate("The <e1>author</e1>s of <e2>zorx</e2>.").attention
    assert words.rows == ("label",)
    assert words.columns == ("the", "<e1>", "author", "</e1>", "<unk>", "of", "<e2>", "<unk>", "</e2>", ".")
    assert (encoder.rows, encoder.columns, encoder.axes) == (words.columns, words.columns, ("layer", "head"))
    assert encoder.weights.shape[:2] == (2, 2)
    np.testing.assert_allclose(encoder.weights.sum(-1), 1, atol=1e-5)


@each_variant
def test_padding_and_company_change_nothing(name):
    model = make_model(name)
    for text, other in zip(TEXTS, model.relate(TEXTS), strict=True):
        alone = model.relate(text)
        assert alone.output == other.output
        assert alone.extra["probabilities"] == pytest.approx(other.extra["probabilities"], abs=1e-6)
        for mine, theirs in zip(alone.attention, other.attention, strict=True):
            np.testing.assert_allclose(mine.weights, theirs.weights, atol=1e-6)
    ids = model.vectorize({"text": TEXTS[0]})["text"]
    logits, weights = model.look({"text": tf.constant([ids + [0] * 9])})
    np.testing.assert_allclose(logits, model({"text": tf.constant([ids])}), atol=1e-5)
    assert not any(found[..., len(ids) :].numpy().any() for found in weights.values())


@each_variant
def test_every_trainable_weight_learns(name):
    model = make_model(name)
    rows = [model.vectorize(one) for one in EXAMPLES]
    batch = {key: tf.ragged.constant([one[key] for one in rows], dtype=tf.int32).to_tensor() for key in rows[0]}
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(batch, training=True)
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
    ):
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient).all(), variable.path
        if not variable.path.endswith("key/bias"):  # the same for all keys: no softmax sees it
            assert np.any(gradient != 0), variable.path
        if variable is model.embedding.embeddings:
            assert not np.any(gradient[0]), "padding learns"


@given(st.integers(1, 4), st.integers(2, 6), st.booleans(), st.integers(0, 2**16))
def test_the_ranking_loss_is_that_of_the_paper(rows, count, has_other, seed):
    """Dos Santos et al., 2015, equation 1, one example at a time."""
    count = max(count, 3) if has_other else count
    generator = np.random.default_rng(seed)
    scores, labels = generator.normal(0, 3, (rows, count)), generator.integers(0, count, rows)
    other = int(generator.integers(count)) if has_other else None
    wanted = []
    for row, label in zip(scores, labels, strict=True):
        wrong = max(score for place, score in enumerate(row) if place not in (label, other))
        right = 0.0 if label == other else np.log1p(np.exp(2 * (2.5 - row[label])))
        wanted.append(right + np.log1p(np.exp(2 * (0.5 + wrong))))
    found = ranking_loss(tf.constant(scores, tf.float32), tf.constant(labels, tf.int32), other)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_label_without_a_score_is_chosen_where_no_other_is_above_zero():
    model = make_model("ranking", temperature=2.0)
    kernel, bias = model.output_layer.kernel, model.output_layer.bias
    kernel.assign(tf.zeros_like(kernel))
    for scores, label in (([-1, -2, -0.1], "Other"), ([-1, 0.3, 0.2], LABELS[1])):
        bias.assign(scores)
        found = model.relate(TEXTS[0])
        assert found.output == label
        shares = softmax(np.array([*scores, 0]) / 2)
        np.testing.assert_allclose([*found.extra["probabilities"].values()], shares, atol=1e-6)


def test_word_dropout_spares_marks_and_padding():
    model = make_model(word_dropout=0.9)
    ids = tf.constant([[*model.vectorize({"text": text})["text"][:9], 0] for text in TEXTS])
    some = model._some_unknown(ids).numpy()
    ids = ids.numpy()
    assert (some[ids < 8] == ids[ids < 8]).all()
    changed = some != ids
    assert changed.any() and (some[changed] == model.tokenizer.unk_id).all()


@each_variant
def test_a_preset_comes_back(name, tmp_path):
    model = make_model(name)
    copy = preset.load(preset.save(model, tmp_path / "preset"))
    assert copy.config == model.config
    assert [one.to_dict() for one in copy.relate(TEXTS)] == [one.to_dict() for one in model.relate(TEXTS)]


@pytest.mark.parametrize("name", ["rich", "self_attention"])
def test_exports_say_what_the_model_says(name, tmp_path):
    model = make_model(name)
    assert export.to_tflite(model, tmp_path / "model.tflite").checks["equal_outputs"] == 1.0
    saved = export.to_saved_model(model, tmp_path / "saved").checks
    assert saved["text"] == {"cases": 3, "equal_outputs": 1.0}


MODEL = make_model()
GRAPH = tf.function(lambda strings: MODEL.graph_ids("text", strings), input_signature=[tf.TensorSpec([1], tf.string)])
pieces = st.one_of(
    st.sampled_from(
        [*MARKS, " ", "<e1", "e1>", "<", ">", "</", "<E1>", "\ue001", "\ue004", ".", ",", "isn't", "water"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)


def in_graph(text):
    ids = GRAPH(tf.constant([text])).numpy()[0].tolist()
    return ids if ids != [0] else []  # an empty text is one place of padding


@settings(max_examples=200)
@given(st.lists(pieces, max_size=12).map("".join))
def test_the_graph_reads_any_text_as_python_does(text):
    assert in_graph(text) == MODEL.tokenizer.encode(reserve_marks(text))


@pytest.mark.parametrize(
    "text", [*TEXTS, "\ue001a<e1>\u00a0b</e1>isn't<e2>c.</e2>,", "<e1>" + "x" * 5000 + "</e1> <e2>y</e2>"]
)
def test_the_graph_reads_what_the_model_reads(text):
    assert in_graph(text) == MODEL.vectorize({"text": text})["text"]


@each_variant
@pytest.mark.parametrize("text", ["", "No marks.", "<e1>a</e1>", "<e1>a <e2>b</e1> c</e2> <e1>", "</e2></e1><e2><e1>"])
def test_wrong_marks_do_no_harm_in_the_graph(name, text):
    model = make_model(name)
    function = model.serving_functions()["text"]
    alone = function(tf.constant([text]))["probabilities"].numpy()
    assert np.isfinite(alone).all()
    beside = function(tf.constant([text, TEXTS[0]]))["probabilities"].numpy()
    np.testing.assert_allclose(beside[:1], alone, atol=1e-6)
    np.testing.assert_allclose(beside[1:], function(tf.constant(TEXTS[:1]))["probabilities"], atol=1e-6)


def test_a_mark_cannot_be_forged():
    """The character that stands for <e1> inside is one that nobody knows, outside."""
    plain, forged = (MODEL.vectorize({"text": text})["text"] for text in ("x" + TEXTS[0], "\ue001 " + TEXTS[0]))
    assert plain[0] == forged[0] == MODEL.tokenizer.unk_id
    assert forged.count(4) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("No marks.", "The mark <e1> is missing in 'No marks.'. Expected both entities marked once, such as"),
        ("<e1>a</e1> <e2>b</e2> <e1>c</e1>", "The mark <e1> comes 2 times"),
        ("<e1>a <e2>b</e2></e1>", "Expected one entity closed before the other opens"),
        ("<e1>a</e1> <e2>\u200b</e2>", "There is no word between <e2> and </e2>"),
        (" ", "The text is empty"),
        ("<e1>a</e1> <e2>b</e2>" + " c" * 35, "The text has 41 words; the model reads at most 40"),
    ],
)
def test_bad_texts_are_told(text, message):
    with pytest.raises(ValueError, match=message):
        MODEL.relate(text)
    with pytest.raises(ValueError, match=r".*\(input 2\)"):
        MODEL.relate([TEXTS[0], text])


def test_marks_come_first_in_the_vocabulary():
    tokenizer = RelationModel.learn_tokenizer(EXAMPLES, "word", 12, mask_digits=True, min_count=1)
    assert tokenizer.vocabulary_size == 12
    assert tokenizer.encode(reserve_marks("<e1></e1><e2></e2>")) == [4, 5, 6, 7]
    for text in TEXTS:
        words, first, second = parse_relation(text, MODEL.tokenizer.words)
        ids = MODEL.vectorize({"text": text})["text"]
        assert len(ids) == len(words) + 4
        assert ids.index(5) - ids.index(4) - 1 == first[1] - first[0]
        assert ids.index(7) - ids.index(6) - 1 == second[1] - second[0]


def test_a_tokenizer_without_marks_is_refused():
    with pytest.raises(ValueError, match="The marks of the entities are words. Received the tokenizer 'sentencepiece'"):
        RelationModel.learn_tokenizer(EXAMPLES, "sentencepiece", 100)
    tokenizer = WordTokenizer.from_words([f"w{number}" for number in range(9)])
    with pytest.raises(ValueError, match="does not have the marks.* as its first words. Make one with RelationModel"):
        RelationModel({"vocabulary_size": tokenizer.vocabulary_size, "labels": LABELS}, tokenizer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": "gru"}, "`encoder` must be one of 'lstm', 'self_attention'. Received 'gru'"),
        ({"directions": "both"}, "`directions` must be one of 'sum', 'concat'"),
        ({"word_dropout": 1.0}, r"`word_dropout` must be a number in \[0, 1\)"),
        ({"directions": "concat", "units": 7}, "`units` must be even"),
        ({"encoder": "self_attention", "units": 9, "num_heads": 4}, "a multiple of `num_heads`. Received 9 and 4"),
        ({"vocabulary_size": 8}, "`vocabulary_size` must be an int >= 9"),
        ({"loss": "hinge"}, "`loss` must be one of 'cross_entropy', 'ranking'"),
        ({"no_relation": "c"}, "`no_relation` must be one of at least three labels, a, b, or \"\". Received 'c'"),
        ({"no_relation": "b"}, "one of at least three labels"),
        ({"loss": "ranking", "label_smoothing": 0.1}, "no `label_smoothing`. Received 2 and 0.1"),
        ({"entities": 1}, "`entities` must be true or false"),
    ],
)
def test_bad_settings_are_told(changes, message):
    with pytest.raises(ValueError, match=message):
        RelationConfig(**{"vocabulary_size": 20, "labels": ("a", "b"), **changes})


@pytest.mark.parametrize(
    ("encoder", "more"),
    [("lstm", {}), ("self_attention", {}), ("lstm", {"loss": "ranking", "no_relation": "Other"})],
)
def test_a_recipe_learns_a_file_of_the_task(encoder, more, tmp_path):
    path = tmp_path / "train.txt"
    blocks = [f'{number}\t"{one["text"]}"\n{one["label"]}\nComment:\n\n' for number, one in enumerate(EXAMPLES, 1)]
    path.write_text("".join(blocks), "utf-8")
    recipe = Recipe.from_dict(
        {
            "version": 1,
            "family": "relation",
            "model": {"encoder": encoder, "embedding_dim": 8, "units": 16, "position_dim": 3, "word_dropout": 0.1}
            | more,
            "tokenizer": {"kind": "word", "vocabulary_size": 60},
            "data": {"format": "relations"},
            "optimizer": {"learning_rate": 0.02},
            "training": {"steps": 60, "batch_size": 4, "early_stopping": {"metric": "macro_f1"}},
        }
    )
    assert session.train(recipe, tmp_path / "run", [path], [path]).steps == 60
    model = zoo.load(tmp_path / "run")
    assert model.config.labels == tuple(LABELS)
    assert evaluate(model, EXAMPLES)["macro_f1"] == 100.0


def test_macro_f1_is_the_official_one():
    """Other is no class of its own, and a wrong direction is wrong: not the mean over all labels."""
    predicted = [one.output for one in MODEL.relate(TEXTS)]
    gold = [*LABELS[:3], predicted[3]]
    examples = [{"text": text, "label": label} for text, label in zip(TEXTS, gold, strict=True)]
    scores = evaluate(MODEL, examples)
    assert scores["macro_f1"] == semeval2010_macro_f1(gold, predicted)
    assert scores["accuracy"] == 100 * np.mean([one == other for one, other in zip(gold, predicted, strict=True)])
    other = make_model(labels=["a", "b"])
    free = evaluate(other, [{"text": text, "label": "a"} for text in TEXTS])
    assert "macro_f1_labels" not in free and free["task"] == "relation"
