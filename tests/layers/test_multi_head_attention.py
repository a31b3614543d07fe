from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from keras_attention import scores
from keras_attention.layers import MultiHeadAttention, PreparedKeys
from tests import reference
from tests.backends import gradients, tensorflow_only, to_float64
from tests.layers.cases.multi_head_attention import by_part, vaswani
from tests.layers.conformance import give_values

HEADS, KEY_DIM = 3, 4
SIZES = (7, 6, 5)
SHAPE = (2, HEADS, 3, 5)
VALUE_MASK = np.array([[True] * 5, [True] * 3 + [False] * 2])


def draw(seed=0, query_length=3, value_length=5):
    rng = np.random.default_rng(seed)
    lengths = (query_length, value_length, value_length)
    return [rng.normal(size=(2, length, size)).astype("float32") for length, size in zip(lengths, SIZES, strict=True)]


def built(seed=1, **options):
    layer = MultiHeadAttention(**{"num_heads": HEADS, "key_dim": KEY_DIM, **options})
    layer.build(*((None, None, size) for size in SIZES))
    give_values(layer, seed)
    return layer


def attend(layer, inputs, **arguments):
    output, weights = layer(*inputs, return_attention_scores=True, **arguments)
    return to_float64(output), to_float64(weights)


def expect(layer, inputs, mask, **more):
    query, value, key = (one.astype("float64") for one in inputs)
    weights = by_part({one.path: to_float64(one.value) for one in layer.weights})
    return vaswani(query, value, key, np.broadcast_to(mask, SHAPE), weights, **more)


def mask_of_heads():
    """Which places each head sees: some, and none at all for one query in one head, and for another in every head."""
    mask = np.random.default_rng(3).random(SHAPE) < 0.6
    mask[..., 1] = True
    mask[0, 1, 2] = False
    mask[1, :, 0] = False
    return mask


PAIRS = np.random.default_rng(4).random((2, 3, 5)) < 0.6
PAIRS[..., 0] = True


# Like Keras' own layer


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"value_mask": VALUE_MASK},
        {"key_mask": VALUE_MASK},
        {"attention_mask": PAIRS},
        {"use_causal_mask": True},
        {"value_mask": VALUE_MASK, "attention_mask": PAIRS, "use_causal_mask": True},
    ],
    ids=["nothing", "values", "keys", "pairs", "the future", "all"],
)
def test_weights_of_keras_layer_give_its_output(arguments, return_weights):
    theirs, inputs = keras.layers.MultiHeadAttention(HEADS, KEY_DIM), draw()
    theirs(*inputs)
    give_values(theirs, 2)
    ours = built()
    assert [one.path.split("/", 1)[1] for one in ours.weights] == [one.path.split("/", 1)[1] for one in theirs.weights]
    ours.set_weights(theirs.get_weights())
    if return_weights:
        for mine, yours in zip(attend(ours, inputs, **arguments), attend(theirs, inputs, **arguments), strict=True):
            np.testing.assert_allclose(mine, yours, rtol=0, atol=1e-5)
    else:
        mine, yours = (to_float64(layer(*inputs, **arguments)) for layer in (ours, theirs))
        np.testing.assert_allclose(mine, yours, rtol=0, atol=1e-5)


def test_weights_start_as_those_of_keras_layer():
    options = {"kernel_initializer": keras.initializers.GlorotUniform(seed=3), "value_dim": 2, "output_shape": 9}
    theirs, ours = (one(HEADS, KEY_DIM, **options) for one in (keras.layers.MultiHeadAttention, MultiHeadAttention))
    for layer in (theirs, ours):
        layer.build(*((None, None, size) for size in SIZES))
    for mine, yours in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, yours)


def test_projections_start_apart():
    layer = MultiHeadAttention(HEADS, KEY_DIM)
    layer.build(*[(None, None, 7)] * 3)
    query, key, value = (to_float64(one.kernel) for one in (layer.query_dense, layer.key_dense, layer.value_dense))
    assert not np.allclose(query, key) and not np.allclose(key, value)


IDS = [np.array([[3, 4, 0], [5, 6, 7]]), np.array([[8, 9, 10, 0, 0], [1, 2, 3, 4, 5]])]


def model_with(attention):
    """A model as users have it: the embeddings make the masks."""
    query, value = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embed = keras.layers.Embedding(11, 7, mask_zero=True)
    output, weights = attention(embed(query), embed(value), return_attention_scores=True)
    pooled = keras.layers.GlobalAveragePooling1D()(output)
    model = keras.Model([query, value], [output, weights, pooled])
    give_values(model, 9)
    return model


def test_takes_the_place_of_keras_layer_in_a_model_with_masks():
    ours = model_with(MultiHeadAttention(HEADS, KEY_DIM))
    theirs = model_with(keras.layers.MultiHeadAttention(HEADS, KEY_DIM))
    theirs.set_weights(ours.get_weights())
    (mine, my_weights, my_mean), (yours, your_weights, your_mean) = (
        [to_float64(one) for one in model(IDS)] for model in (ours, theirs)
    )
    asked, looked_at = (ids != 0 for ids in IDS)
    np.testing.assert_allclose(mine[asked], yours[asked], rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.moveaxis(my_weights, 1, 2)[asked], np.moveaxis(your_weights, 1, 2)[asked], atol=1e-6)
    np.testing.assert_allclose(my_mean, your_mean, rtol=0, atol=1e-5)  # the mask of the queries went on
    assert (mine[~asked] == 0).all()
    assert (np.moveaxis(my_weights, 3, 1)[~looked_at] == 0).all() and (np.moveaxis(my_weights, 2, 1)[~asked] == 0).all()


# Heads and masks


def test_each_head_may_have_a_mask_of_its_own():
    layer, inputs, mask = built(), draw(), mask_of_heads()
    output, weights = attend(layer, inputs, attention_mask=mask)
    expected_output, expected_weights = expect(layer, inputs, mask)
    np.testing.assert_allclose(weights, expected_weights, rtol=0, atol=1e-5)
    np.testing.assert_allclose(output, expected_output, rtol=0, atol=1e-5)
    assert (weights[~mask] == 0).all()
    assert (output[1, 0] == 0).all() and (output[0, 2] != 0).all()
    np.testing.assert_array_equal(to_float64(layer(*inputs, attention_mask=mask)), output)


def test_masks_of_heads_values_queries_and_the_future_are_taken_together():
    layer, inputs, of_heads = built(alignment="entmax15"), draw(), mask_of_heads()
    query_mask = np.array([[True, True, True], [True, True, False]])
    arguments = {"query_mask": query_mask, "value_mask": VALUE_MASK, "use_causal_mask": True}
    output, weights = attend(layer, inputs, attention_mask=of_heads, **arguments)
    mask = of_heads & reference.full_mask((2, 3, 5), query_mask, VALUE_MASK, None, causal=True)[:, None]
    expected_output, expected_weights = expect(layer, inputs, mask, align=reference.masked_entmax15)
    np.testing.assert_allclose(weights, expected_weights, rtol=0, atol=1e-5)
    np.testing.assert_allclose(output, expected_output, rtol=0, atol=1e-5)


def test_a_row_that_one_head_cannot_see_passes_no_gradient_through_it():
    layer, inputs = built(), draw()
    mask = np.ones(SHAPE, bool)
    mask[:, 1] = False

    def function(query, value, key):
        return keras.ops.sum(layer(query, value, key, attention_mask=mask))

    (_, of_value, _), of_weights = gradients(function, inputs, layer.trainable_variables)
    of_kernel = dict(zip([one.path.split("/", 1)[1] for one in layer.weights], of_weights, strict=True))["value/kernel"]
    assert (of_kernel[:, 1] == 0).all() and (of_kernel[:, [0, 2]] != 0).all() and np.isfinite(of_value).all()


def test_masks_of_values_and_of_keys_are_both_heeded():
    layer, inputs = built(), draw()
    keys = np.array([[False, True, True, True, True]] * 2)
    _, weights = attend(layer, inputs, value_mask=VALUE_MASK, key_mask=keys)
    keep = np.broadcast_to((VALUE_MASK & keys)[:, None, None], SHAPE)
    assert (weights[~keep] == 0).all() and (weights[keep] > 0).all()


@pytest.mark.parametrize(
    ("score", "units", "parts"),
    [("dot", None, 0), ("cosine", None, 0), ("general", None, 1), ("concat", 6, 3), ("mlp", 6, 5)],
)
def test_each_head_scores_with_weights_of_its_own(score, units, parts):
    layer = built(score=score, units=units)
    own = [one.path for one in layer.weights if "score_" in one.path]
    assert len(own) == parts * HEADS and len(set(own)) == len(own)


def test_a_score_that_is_a_layer_is_the_pattern_of_every_head():
    pattern, inputs = scores.AdditiveScore(6, use_bias=True, normalize=True), draw()
    layer = built(score=pattern)
    assert not pattern.built
    assert len([one for one in layer.weights if one.path.endswith("/gain")]) == HEADS
    output, weights = attend(layer, inputs, value_mask=VALUE_MASK)
    expected = expect(layer, inputs, VALUE_MASK[:, None, None], score=reference.normalized_additive)
    np.testing.assert_allclose(output, expected[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(weights, expected[1], rtol=0, atol=1e-5)
    twin = MultiHeadAttention.from_config(json.loads(json.dumps(layer.get_config())))
    twin.build(*((None, None, size) for size in SIZES))
    twin.set_weights(layer.get_weights())
    np.testing.assert_array_equal(attend(twin, inputs, value_mask=VALUE_MASK)[0], output)


def test_output_may_have_any_axes():
    layer, inputs = built(output_shape=(2, 4)), draw()
    output, _ = attend(layer, inputs, value_mask=VALUE_MASK & [[False], [True]])
    assert output.shape == (2, 3, 2, 4) and (output[0] == 0).all() and (output[1] != 0).all()
    assert layer.compute_output_shape((None, None, 7), (None, None, 6)) == (None, None, 2, 4)
    step, _, _ = layer.attend(inputs[0][:, 0], layer.prepare(*inputs[1:], VALUE_MASK))
    assert step.shape == (2, 2, 4)


# Decoders


def test_steps_equal_the_call():
    for options in ({}, {"score": "additive", "units": 6}, {"score": "cosine", "alignment": "sparsemax"}):
        layer, (query, value, key) = built(**options), draw()
        output, weights = attend(layer, [query, value, key], value_mask=VALUE_MASK)
        prepared = layer.prepare(value, key, VALUE_MASK)
        state = layer.initial_state(prepared)
        for t in range(3):
            step_output, step_weights, state = layer.attend(query[:, t], prepared, state)
            np.testing.assert_allclose(to_float64(step_output), output[:, t], rtol=0, atol=1e-5)
            np.testing.assert_allclose(to_float64(step_weights), weights[:, :, t], rtol=0, atol=1e-6)


@tensorflow_only
def test_a_step_reads_no_weights_of_the_keys_and_of_the_values():
    import tensorflow as tf

    layer, (query, value, key) = built(score="additive", units=6), draw()
    prepared = layer.prepare(value, key)
    graph = tf.function(lambda query, *leaves: layer.attend(query, PreparedKeys(*leaves))[0])
    read = {id(one) for one in graph.get_concrete_function(query[:, 0], *prepared).graph.variables}
    used = [one.path.split("/", 1)[1] for one in layer.weights if id(one.value) in read]
    expected = [f"score_{head}/{name}" for head in range(HEADS) for name in ("query_kernel", "scale")]
    projections = ["query/kernel", "query/bias", "attention_output/kernel", "attention_output/bias"]
    assert sorted(used) == sorted(projections + expected)


# Arguments


def test_config_names_all_arguments():
    options = {
        "num_heads": 2,
        "key_dim": 3,
        "value_dim": 5,
        "dropout": 0.25,
        "use_bias": False,
        "score": "mlp",
        "units": 6,
        "alignment": "sparsemax",
        "seed": 4,
        "name": "looks",
    }
    layer = MultiHeadAttention(
        **options,
        output_shape=9,
        kernel_initializer="he_normal",
        kernel_regularizer=keras.regularizers.L2(0.5),
        kernel_constraint="non_neg",
    )
    config = json.loads(json.dumps(layer.get_config()))
    assert config.items() >= options.items() and config["output_shape"] == [9]
    assert config["kernel_initializer"]["class_name"] == "HeNormal"
    twin = MultiHeadAttention.from_config(config)
    assert json.loads(json.dumps(twin.get_config())) == config
    twin.build(*((None, None, size) for size in SIZES))
    assert len(twin.losses) == 4 and isinstance(twin.key_dense.kernel.constraint, keras.constraints.NonNeg)


def test_activities_of_the_projections_are_regularized():
    layer = built(activity_regularizer=keras.regularizers.L2(0.5))
    layer(*draw())
    assert len(layer.losses) == 4 and all(to_float64(loss) > 0 for loss in layer.losses)


def arguments(**more):
    return {"num_heads": HEADS, "key_dim": KEY_DIM, **more}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (arguments(num_heads=0), ValueError, r"`num_heads` must be an int > 0\. Received 0"),
        (arguments(key_dim=0), ValueError, r"`key_dim` must be an int > 0\. Received 0"),
        (arguments(key_dim=None), ValueError, r"`key_dim` must be an int > 0\. Received None"),
        (arguments(value_dim=-1), ValueError, r"`value_dim` must be an int > 0\. Received -1"),
        (arguments(output_shape=0), ValueError, r"`output_shape` must be an int > 0, or a tuple of such\. Received 0"),
        (arguments(output_shape=()), ValueError, r"`output_shape` must be .* Received \(\)"),
        (arguments(dropout=1.0), ValueError, r"`dropout` must be a share in \[0, 1\)\. Received 1\.0"),
        (arguments(score="dott"), ValueError, r"Unknown score 'dott'.*Did you mean 'dot'\?"),
        (arguments(score="additive"), ValueError, r"'additive' has a hidden layer: give its width as `units`"),
        (arguments(alignment="hardmax"), ValueError, r"Unknown alignment 'hardmax'"),
        (
            arguments(score="location_aware", units=6),
            ValueError,
            r"MultiHeadAttention asks all queries at once.*LocationAwareScore, which has one.*'additive'",
        ),
        (
            arguments(score=scores.ChannelBilinearScore(2)),
            ValueError,
            r"one score a pair.*ChannelBilinearScore, which gives one a channel\. Use MultiDimAttention",
        ),
    ],
)
def test_wrong_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        MultiHeadAttention(**options)


def test_a_score_that_has_weights_already_is_refused():
    score = scores.GeneralScore()
    score.build([(None, None, KEY_DIM)] * 2)
    with pytest.raises(
        ValueError, match=r"a pattern, of which each head gets a copy.*GeneralScore with weights already"
    ):
        MultiHeadAttention(HEADS, KEY_DIM, score=score)


def same(query, value, key):
    return [query, value, key]


FLOATS = np.ones((2, 5), "float32")
WRONG = {
    "rank": (lambda q, v, k: [q[0], v, k], {}, ValueError, r"`query` must be of rank 3.*\(3, 7\)"),
    "lengths": (lambda q, v, k: [q, v, k[:, :4]], {}, ValueError, r"same length Tv.*\(2, 4, 5\).*or omit `key`"),
    "batches": (lambda q, v, k: [q[:1], v, k], {}, ValueError, r"same batch size.*\(1, 3, 7\)"),
    "float mask": (
        same,
        {"value_mask": FLOATS},
        TypeError,
        r"value_mask must be bool.*float32",
    ),
    "float pairs": (same, {"attention_mask": np.ones(SHAPE)}, TypeError, r"attention_mask must be bool.*float"),
    "length": (
        same,
        {"key_mask": VALUE_MASK[:, :4]},
        ValueError,
        r"`key_mask` must be bool \(B, Tv\), here \(2, 5\)",
    ),
    "swapped": (same, {"query_mask": VALUE_MASK}, ValueError, r"`query_mask` must be bool \(B, Tq\), here \(2, 3\)"),
    "heads": (
        same,
        {"attention_mask": mask_of_heads()[:, :2]},
        ValueError,
        r"`attention_mask` must be bool \(B, Tq, Tv\) or \(B, H, Tq, Tv\), here \(2, 3, 3, 5\)\. Received \(2, 2",
    ),
    "no queries": (same, {"attention_mask": VALUE_MASK}, ValueError, r"here \(2, 3, 5\)\. Received \(2, 5\)"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_call_says_what_is_wrong(case):
    change, more, error, message = case
    with pytest.raises(error, match=f"(?s){message}"):
        MultiHeadAttention(HEADS, KEY_DIM)(*change(*draw()), **more)


def test_a_wrong_step_says_what_is_wrong():
    layer, (query, value, key) = built(), draw()
    with pytest.raises(ValueError, match=r"query of one step, \(B, Dq\).*\(2, 3, 7\)"):
        layer.attend(query, layer.prepare(value, key))
    with pytest.raises(TypeError, match="mask must be bool"):
        layer.prepare(value, key, VALUE_MASK.astype("float32"))
    with pytest.raises(ValueError, match=r"`mask` must be bool \(B, Tv\), here \(2, 5\)\. Received \(2, 3\)"):
        layer.prepare(value, key, VALUE_MASK[:, :3])
    for unbuilt in (lambda one: one.empty_cache(2, 4), lambda one: one.prepare(value, key)):
        with pytest.raises(ValueError, match=r"MultiHeadAttention 'looks' has no weights yet.*Call it once first"):
            unbuilt(MultiHeadAttention(HEADS, KEY_DIM, name="looks"))


def test_the_example_of_the_docstring_runs():
    layer = MultiHeadAttention(num_heads=4, key_dim=8, score="additive", units=16)
    query, value = keras.random.normal((2, 3, 32)), keras.random.normal((2, 5, 24))
    output, weights = layer(query, value, return_attention_scores=True)
    assert (output.shape, weights.shape) == ((2, 3, 32), (2, 4, 3, 5))
