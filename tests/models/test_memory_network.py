from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention import export, zoo
from keras_attention.export import runner
from keras_attention.models import MemoryNetworkModel
from keras_attention.training import Recipe, evaluate, session
from keras_attention.training.question_metrics import answer_scores

EXAMPLES = [
    {"story": ["Mary went to the kitchen.", "John got the milk."], "question": "Where is Mary?", "answer": "kitchen"},
    {
        "story": ["John got the milk there.", "He left!"],
        "question": "What is John carrying?",
        "answer": "milk,football",
    },
    {"story": ["Mary is in the garden"], "question": "Is Mary in the garden?", "answer": "yes sir"},
    {"story": ["John went to the garden."], "question": "Where is John?", "answer": "garden"},
]
WORDS = MemoryNetworkModel.learn_tokenizer(EXAMPLES, "word", 100)
LABELS = ("kitchen", "garden", "milk,football", "yes sir", "Garden")
INPUTS = [{name: one[name] for name in ("story", "question")} for one in EXAMPLES]
END = MemoryNetworkModel.sentence_end


def make_model(seed=3, tokenizer=WORDS, **config):
    """A model whose every weight is different, and exact in half precision."""
    config = {"embedding_dim": 7, "max_memories": 4, "max_length": 60, "hops": 3, **config}
    model = MemoryNetworkModel({"vocabulary_size": WORDS.vocabulary_size, "labels": LABELS, **config}, tokenizer)
    generator = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(generator.normal(0, 0.5, weight.shape).astype(np.float16).astype(np.float32))
    return model


def batch(model, examples, story_width=0, question_width=0):
    rows = [model.vectorize(one) for one in examples]
    widths = {"story": story_width, "question": question_width}
    found = {}
    for name in rows[0]:
        width = max(widths.get(name, 0), *(len(row[name]) for row in rows))
        found[name] = tf.constant([[*row[name], *[0] * (width - len(row[name]))] for row in rows], tf.int32)
    return found


def by_hand(model, sentences, question):
    """Sections 2.1, 2.2 and 4.1 for one example, in float64: logits (C,) and the weights of the hops (K, S)."""
    config, memory = model.config, model.memory
    tables = [np.asarray(one, np.float64) for one in memory.embeddings]
    times = [np.asarray(one, np.float64) for one in memory.times]
    d = config.embedding_dim

    def sentence(words, table):
        total = np.zeros(d)
        for j, word in enumerate(words, start=1):
            for k in range(1, d + 1):
                place = (1 - j / len(words)) - (k / d) * (1 - 2 * j / len(words))
                total[k - 1] += (place if config.position_encoding else 1) * table[word][k - 1]
        return total

    def stored(number):
        found = [sentence(words, tables[number]) for words in sentences]
        if config.temporal_encoding:
            found = [one + times[number][len(sentences) - 1 - place] for place, one in enumerate(found)]
        return np.array(found)

    adjacent = config.tying == "adjacent"
    state = sentence(question, tables[0] if adjacent else np.asarray(memory.query_embedding, np.float64))
    weights = []
    for hop in range(config.hops):
        matched, read = (hop, hop + 1) if adjacent else (0, 1)
        scores = stored(matched) @ state
        share = np.exp(scores - scores.max())
        share /= share.sum()
        weights.append(share)
        if not adjacent:
            state = state @ np.asarray(memory.state_kernel, np.float64)
        state = state + share @ stored(read)
    rows = tables[-1] if adjacent else np.asarray(memory.answer_embedding, np.float64)
    return rows[np.asarray(model.answer_rows)] @ state, np.array(weights)


def sentences_of(row):
    found = [[]]
    for index in row:
        found[-1:] = [found[-1], []] if index == END else [[*found[-1], index]]
    return [one for one in found if one]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"hops": 1},
        {"tying": "layer_wise", "hops": 2},
        {"position_encoding": False},
        {"temporal_encoding": False},
    ],
)
def test_the_network_is_that_of_the_paper(config):
    model = make_model(**config)
    for example in INPUTS:
        ids = model.vectorize(example)
        logits, weights = by_hand(model, sentences_of(ids["story"]), ids["question"])
        np.testing.assert_allclose(model(batch(model, [example]))[0], logits, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(model.look(batch(model, [example]))[1]["hops"][0], weights, atol=1e-5)


def test_an_answer_that_is_a_word_has_its_row():
    rows = np.asarray(make_model().answer_rows).tolist()
    size = WORDS.vocabulary_size
    kitchen, garden, both = (WORDS.encode(word)[0] for word in ("kitchen", "garden", "milk,football"))
    assert rows == [kitchen, garden, both, size + 3, size + 4]  # two words; a word whose row is taken
    assert np.asarray(make_model(tokenizer=None).answer_rows).tolist() == [size + place for place in range(5)]


def test_padding_changes_nothing_and_a_batch_gives_what_its_rows_give():
    model = make_model()
    together = model(batch(model, INPUTS))
    np.testing.assert_allclose(model(batch(model, INPUTS, 50, 30)), together, atol=1e-5)
    for example, wanted in zip(INPUTS, together, strict=True):
        np.testing.assert_allclose(model(batch(model, [example]))[0], wanted, atol=1e-5)
    nothing = {name: tf.concat([one, tf.zeros_like(one[:1])], axis=0) for name, one in batch(model, EXAMPLES).items()}
    with tf.GradientTape() as tape:
        loss, count = model.loss_terms(nothing, training=False)
    np.testing.assert_allclose(loss, model.loss_terms(batch(model, EXAMPLES), training=False)[0], rtol=1e-5)
    assert float(count) == len(EXAMPLES)
    gradients = tape.gradient(loss, [one.value for one in model.trainable_variables])
    assert all(np.isfinite(tf.convert_to_tensor(one)).all() for one in gradients)


def test_every_weight_learns():
    model = make_model(tying="layer_wise")
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(batch(model, EXAMPLES), training=True)
    for weight, gradient in zip(
        model.trainable_variables, tape.gradient(loss, [one.value for one in model.trainable_variables]), strict=True
    ):
        assert np.abs(tf.convert_to_tensor(gradient)).sum() > 0, weight.path


def test_an_answer_its_probability_and_the_hops():
    model = make_model()
    found = model.answer(INPUTS)
    for one, example in zip(found, INPUTS, strict=True):
        logits, weights = by_hand(model, *(_ids(model, example)))
        probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        assert one.output == LABELS[int(probabilities.argmax())]
        assert one.score == pytest.approx(probabilities.max(), rel=1e-4)
        (seen,) = one.attention
        assert seen.axes == ("hop",)
        np.testing.assert_allclose(seen.weights[:, 0], weights, atol=1e-5)
        assert len(seen.columns) == len(example["story"])
    assert list(found[0].attention[0].rows) == ["where is mary"]
    assert list(found[0].attention[0].columns) == ["mary went to the kitchen", "john got the milk"]
    assert model.answer(INPUTS[0], attention=False).attention == []


def _ids(model, example):
    ids = model.vectorize(example)
    return sentences_of(ids["story"]), ids["question"]


def test_a_story_may_be_typed_or_come_in_sentences():
    model = make_model()
    typed = model.answer("Mary went to the kitchen. John got the milk.", "Where is Mary?")
    assert typed.to_dict() == model.answer(INPUTS[0]["story"], "Where is Mary?").to_dict()
    assert typed.to_dict() == model.run(INPUTS[0]).to_dict()
    open_end = model.answer("Mary went to the kitchen! John got the milk", "where is mary")
    assert open_end.to_dict() == typed.to_dict()


def test_words_that_training_never_had_are_told():
    model = make_model()
    found = model.answer("Zorro went to the kitchen. Zorro got the blurb.", "Where is Zorro?", n_best=2)
    assert found.extra["unknown_words"] == ["zorro", "blurb"]
    assert list(found.attention[0].columns) == ["zorro went to the kitchen", "zorro got the blurb"]
    assert list(found.attention[0].rows) == ["where is zorro"]
    assert found.alternatives[0].extra["unknown_words"] == ["zorro", "blurb"]
    assert model.answer(INPUTS[0]).extra["unknown_words"] == []


def test_of_long_stories_the_last_sentences_are_read():
    model = make_model()
    story = ["John left."] * 10_000 + ["Mary went to the kitchen.", "John got the milk.", "He left.", "Mary left."]
    found = model.answer(story, "Where is Mary?")
    assert found.to_dict() == model.answer(story[-4:], "Where is Mary?").to_dict()
    text = model.serving_functions()["text"](tf.constant([" ".join(story)]), tf.constant(["Where is Mary?"]))
    np.testing.assert_allclose(text["attention_hops"][0], found.attention[0].weights[:, 0], atol=1e-6)
    assert model.answer("x" * 5000 + " left.", "Where?").output in LABELS  # one unknown word


def test_the_hops_are_linear_for_the_first_steps():
    model = make_model(linear_start_steps=2, time_noise=0.0)
    examples, inputs = batch(model, EXAMPLES), batch(model, INPUTS)
    linear = np.asarray(model.look(inputs)[1]["hops"])
    assert not np.allclose(linear.sum(axis=-1), 1)
    assert model.answer(INPUTS[0]).attention == []  # no weights that sum to 1
    first, second, third = (float(model.loss_terms(examples, training=True)[0]) for _ in range(3))
    assert first == pytest.approx(second, rel=1e-6)
    assert third != pytest.approx(second, rel=1e-3)
    after = make_model(time_noise=0.0)
    assert third == pytest.approx(float(after.loss_terms(examples, training=True)[0]), rel=1e-5)
    np.testing.assert_allclose(model(inputs), after(inputs), rtol=1e-5)
    assert int(model.step.numpy()) == 3
    assert len(model.answer(INPUTS[0]).attention) == 1
    model.loss_terms(examples, training=False)
    assert int(model.step.numpy()) == 3  # validation counts no step


def test_a_strategy_counts_the_steps():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = make_model(linear_start_steps=1)
    examples = batch(model, EXAMPLES)

    @tf.function
    def step():
        return strategy.run(lambda: model.loss_terms(examples, training=True)[0])

    step()
    assert bool(model.memory.linear_start.numpy())
    step()
    assert (int(model.step.numpy()), bool(model.memory.linear_start.numpy())) == (2, False)


@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
def test_it_comes_back_from_its_preset_and_from_a_keras_file(tying, tmp_path):
    model = make_model(tying=tying, linear_start_steps=1)
    for _ in range(2):
        model.loss_terms(batch(model, EXAMPLES), training=True)
    wanted = [one.to_dict() for one in model.answer(INPUTS)]
    copy = zoo.load(zoo.save(model, tmp_path / "preset"))
    assert copy.config == model.config
    assert [one.to_dict() for one in copy.answer(INPUTS)] == wanted
    model.save(tmp_path / "model.keras")
    other = keras.saving.load_model(tmp_path / "model.keras")
    assert [one.to_dict() for one in other.answer(INPUTS)] == wanted
    assert int(other.step.numpy()) == int(copy.step.numpy()) == 2


def test_a_tflite_file_says_what_the_model_says(tmp_path):
    model = make_model()
    report = export.to_tflite(model, tmp_path / "model.tflite")
    assert report.checks["equal_outputs"] == 1
    run = runner.tflite_runner(report.path, "ids")
    long = {"story": ["John left."] * 9, "question": "Where is John?"}
    for example in (*INPUTS, long):
        ids = {name: np.array([row], np.int32) for name, row in model.vectorize(example).items()}
        if example is long:  # more sentences than the memory holds: those at the end count
            ids["story"] = np.array([[*WORDS.encode("the milk"), END] * 3 + ids["story"][0].tolist()], np.int32)
        logits, weights = model.look(ids)
        found = run(**ids)
        np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(logits), atol=1e-5)
        np.testing.assert_allclose(found["attention_hops"], weights["hops"], atol=1e-5)
        assert LABELS[found["label"][0]] == model.answer(example).output


def test_a_saved_model_reads_text(tmp_path):
    model = make_model()
    report = export.to_saved_model(model, tmp_path / "saved")
    assert report.checks["text"]["equal_outputs"] == 1
    columns = {name: np.array([model.as_text(name, one[name]).encode() for one in INPUTS]) for name in INPUTS[0]}
    found = runner.run_saved_model(str(report.path), "text", {"one": columns})["one"]
    wanted = model.answer(INPUTS)
    assert [one.decode() for one in found["text"]] == [one.output for one in wanted]
    for row, one in zip(found["attention_hops"], wanted, strict=True):
        (seen,) = one.attention
        np.testing.assert_allclose(row[:, : len(seen.columns)], seen.weights[:, 0], atol=1e-6)
    assert '"sentence_end": 3' in report.sidecar.read_text("utf-8")


TEXT = st.text(st.sampled_from("Mary left. The!?, \n\u2019") | st.characters(codec="utf-8"), max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=3), st.sampled_from(["story", "question"]))
def test_the_graph_reads_the_sentences_that_python_reads(texts, column):
    model = make_model(max_memories=50, max_length=500)
    for row, text in zip(model.graph_ids(column, tf.constant(texts)).numpy().tolist(), texts, strict=True):
        wanted = model.words_of(column, text)
        if column == "question":
            assert [index for index in row if index] == wanted
        else:
            assert sentences_of([index for index in row if index]) == sentences_of(wanted)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"story": "", "question": "Where?"}, ValueError, "The story is empty. Give at least one word"),
        ({"story": [], "question": "Where?"}, ValueError, "The story is empty"),
        ({"story": [" ", ""], "question": "Where?"}, ValueError, "The story has no word"),
        ({"story": "Mary left.", "question": "?!"}, ValueError, "The question has no word. Give at least one"),
        (
            {"story": ["Mary left.", 3], "question": "Where?"},
            TypeError,
            "list of sentences. Received int as sentence 2",
        ),
        ({"story": "Mary left."}, TypeError, "`answer` wants text, or a dict with text under story, question"),
        ("Mary left.", TypeError, "`answer` wants text, or a dict with text under story, question"),
        (
            {"story": "the " * 70, "question": "Where?"},
            ValueError,
            "The story has 71 words; the model reads at most 60",
        ),
    ],
)
def test_what_cannot_be_answered_is_told(inputs, error, message):
    with pytest.raises(error, match=message):
        make_model().answer(inputs)


def test_no_tokenizer_and_unknown_answers_are_told():
    with pytest.raises(ValueError, match="The model has no tokenizer, so it cannot read text"):
        make_model(tokenizer=None).answer("Mary left.", "Where?")
    with pytest.raises(ValueError, match="The label 'cellar' is not one that the model has"):
        make_model().vectorize({**INPUTS[0], "answer": "cellar"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hops": 0}, "`hops` must be an int >= 1. Received 0"),
        ({"tying": "none"}, "`tying` must be one of 'adjacent', 'layer_wise'"),
        ({"time_noise": 1.0}, "`time_noise` must be a number in"),
        ({"linear_start_steps": -1}, "`linear_start_steps` must be an int >= 0"),
        ({"temporal_encoding": 1}, "`temporal_encoding` must be true or false"),
        ({"embedding_dropout": 0.1}, "those of its hops.*embedding_dropout 0.1. Leave both out"),
        ({"hop": 1}, "Unknown key 'hop' in MemoryNetworkConfig.*Did you mean 'hops'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        MemoryNetworkModel({"vocabulary_size": 30, "labels": LABELS, **change})


def write_task(path, rooms):
    people, places = ("Mary", "John"), ("kitchen", "garden")
    stories = []
    for (first, second), (one, other) in itertools.product(
        itertools.permutations(people), itertools.product(rooms, rooms)
    ):
        stories.append(f"1 {first} went to the {one}.\n2 {second} is in the {other}.\n3 Where is {first}?\t{one}\t1\n")
    assert set(rooms) <= set(places)
    path.write_text("".join(stories), "utf-8")
    return path


def recipe(*changes):
    values = {
        "version": 1,
        "family": "memory_question_answering",
        "model": {"embedding_dim": 20, "hops": 2, "max_memories": 5, "linear_start_steps": 40},
        "tokenizer": {"kind": "word", "vocabulary_size": 100},
        "data": {"format": "babi"},
        "optimizer": {"learning_rate": 0.02, "clip_norm": 40},
        "training": {"seed": 1, "steps": 240, "batch_size": 4, "validate_every": 60, "checkpoint_every": 80},
        "evaluation": {"metrics": ["mean_error", "failed_tasks", "task_1"], "samples": 1},
    }
    return Recipe.from_dict(values).override(changes)


def test_a_training_learns_where_people_are_and_resumes_past_the_linear_start(tmp_path):
    files = [
        write_task(tmp_path / "qa1_train.txt", ("kitchen", "garden")),
        write_task(tmp_path / "qa7_x.txt", ("garden",)),
    ]
    session.train(recipe("training.steps=120"), tmp_path / "run", files, files)
    done = session.train(recipe(), tmp_path / "run", files, files)
    assert done.steps == 240
    model = zoo.load(tmp_path / "run")
    assert model.config.labels == ("garden", "kitchen")
    assert int(model.step.numpy()) > 40
    assert not model.memory.linear_start.numpy()
    found = model.answer("John is in the garden. Mary went to the kitchen.", "Where is Mary?")
    assert found.output == "kitchen"
    assert found.attention[0].weights[..., 1].max() > 0.5
    from keras_attention.training import read_babi

    scores = evaluate(model, read_babi(files))
    assert (scores["mean_error"], scores["failed_tasks"], scores["task_7"], scores["examples"]) == (0, 0, 0, 10)
    whole = session.train(recipe(), tmp_path / "whole", files, files)
    assert whole.best_metric == pytest.approx(done.best_metric, rel=1e-4)


def test_scores_by_hand():
    scores = answer_scores(list("aabbccdd"), list("aabaccxd"), [1, 1, 1, 1, 2, 2, 3, 3])
    assert scores == {
        "accuracy": 75.0,
        "mean_error": pytest.approx((25 + 0 + 50) / 3),
        "failed_tasks": 2,
        "task_1": 25.0,
        "task_2": 0.0,
        "task_3": 50.0,
    }
    assert answer_scores(["a", "b"], ["a", "a"]) == {"accuracy": 50.0, "mean_error": 50.0}
    twenty = answer_scores(["a"] * 20, ["b"] + ["a"] * 19, [4] * 20)
    assert (twenty["task_4"], twenty["failed_tasks"]) == (5.0, 0)
    with pytest.raises(ValueError, match="Received 0 right answers, 0 predictions, no tasks"):
        answer_scores([], [])
