from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import scores
from keras_attention.layers import LuongAttention
from tests import reference
from tests.backends import to_float64
from tests.layers.conformance import attend, give_values, masks

QUERY_MASK, VALUE_MASK, _ = masks()


def draw(key_dim=7, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for shape in ((2, 3, 7), (2, 5, 6), (2, 5, key_dim))]


@keras.saving.register_keras_serializable("tests")
class DistanceScore(scores.Score):
    """A score of the user's own: `-s ‖q − k‖²`."""

    def __init__(self, sharpness=1.0, **kwargs):
        super().__init__(**kwargs)
        self.sharpness = sharpness

    def score(self, query, prepared_key):
        differences = ops.expand_dims(query, 2) - ops.expand_dims(prepared_key, 1)  # (B, Tq, Tv, D)
        return -self.sharpness * ops.sum(differences * differences, axis=-1)

    def get_config(self):
        return {**super().get_config(), "sharpness": self.sharpness}


def distance(query, key, weights):
    return -0.5 * float(np.sum((query - key) ** 2))


def test_general_is_the_default():
    layer = LuongAttention()
    layer(draw(key_dim=4))
    assert {w.name: tuple(w.shape) for w in layer.weights} == {"kernel": (4, 7)}


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_dot_scores_have_no_weights(score):
    layer = LuongAttention(score)
    layer(draw())
    assert layer.weights == []


def test_dot_equals_keras_attention():
    inputs = draw()
    mask = [QUERY_MASK, VALUE_MASK]
    context, weights = attend(LuongAttention("dot"), inputs, mask=mask, use_causal_mask=True)
    theirs, their_weights = keras.layers.Attention()(
        inputs, mask=mask, use_causal_mask=True, return_attention_scores=True
    )
    np.testing.assert_allclose(context, to_float64(theirs), atol=1e-6)
    # Keras masks the context of a masked query, not its weights.
    np.testing.assert_allclose(weights[QUERY_MASK], to_float64(their_weights)[QUERY_MASK], atol=1e-6)


def test_a_score_of_ones_own_is_used_and_saved_in_the_config():
    layer, inputs = LuongAttention(DistanceScore(0.5)), draw()
    context, weights = attend(layer, inputs, mask=[None, VALUE_MASK])
    matrix = reference.score_matrix(distance, inputs[0], inputs[2], {})
    np.testing.assert_allclose(weights, reference.masked_softmax(matrix, VALUE_MASK[:, None]), atol=1e-6)

    twin = LuongAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert isinstance(twin.score, DistanceScore) and twin.score.sharpness == 0.5
    np.testing.assert_array_equal(attend(twin, inputs, mask=[None, VALUE_MASK])[0], context)


def test_a_score_layer_of_the_library_can_be_given_too():
    layer, inputs = LuongAttention(scores.AdditiveScore(3, use_bias=True)), draw(key_dim=4)
    layer(inputs)
    give_values(layer, 1)
    _, weights = attend(layer, inputs)
    of_layer = {w.name: to_float64(w.value) for w in layer.weights}
    expected = reference.masked_softmax(reference.score_matrix(reference.additive, inputs[0], inputs[2], of_layer))
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_a_score_with_weights_survives_saving(tmp_path):
    query, value = keras.Input((None, 7)), keras.Input((None, 6))
    model = keras.Model([query, value], LuongAttention(scores.AdditiveScore(3))([query, value]))
    give_values(model, 1)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert [w.path for w in loaded.weights] == [w.path for w in model.weights] and len(model.weights) == 3
    inputs = draw()[:2]
    np.testing.assert_array_equal(to_float64(loaded(inputs)), to_float64(model(inputs)))


def test_unknown_scores_name_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown score 'genral'.*dot, general.*Did you mean 'general'\?"):
        LuongAttention("genral")


def test_a_score_that_is_neither_name_nor_layer_is_refused():
    with pytest.raises(TypeError, match=r"`score` must be a name or a .*Score\. Received 3"):
        LuongAttention(3)


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general"])
def test_units_are_refused_where_nothing_is_hidden(score):
    with pytest.raises(ValueError, match=f"{score}' has no hidden layer.*units=8.*Leave it out"):
        LuongAttention(score, units=8)
    with pytest.raises(ValueError, match=r"layer has its own width.*units=8"):
        LuongAttention(scores.AdditiveScore(3), units=8)


@pytest.mark.parametrize("score", ["concat", "additive"])
def test_units_are_wanted_where_there_is_a_hidden_layer(score):
    with pytest.raises(ValueError, match=f"{score}' has a hidden layer: give its width as `units`"):
        LuongAttention(score)
    with pytest.raises(ValueError, match=r"`units` must be an int > 0\. Received -2"):
        LuongAttention(score, units=-2)


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_widths_that_a_dot_cannot_multiply_are_refused(score):
    with pytest.raises(ValueError, match=r"same width.*\(2, 3, 7\).*\(2, 5, 4\).*score='general'"):
        LuongAttention(score)(draw(key_dim=4))


@keras.saving.register_keras_serializable("tests")
def uniform(score, mask=None):
    """An alignment of the user's own: the same weight on all kept places."""
    kept = ops.ones_like(score) if mask is None else ops.cast(ops.logical_and(mask, score == score), score.dtype)
    return kept / ops.maximum(ops.sum(kept, axis=-1, keepdims=True), 1)


def test_an_alignment_of_ones_own_is_used_and_saved_in_the_config():
    layer, inputs = LuongAttention("dot", alignment=uniform), draw()
    _, weights = attend(layer, inputs, mask=[None, VALUE_MASK])
    np.testing.assert_allclose(
        weights, np.broadcast_to((VALUE_MASK / VALUE_MASK.sum(-1, keepdims=True))[:, None], weights.shape)
    )
    twin = LuongAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert twin.alignment is uniform


def test_argmax_reads_the_best_value():
    layer, (query, value, key) = LuongAttention("dot", alignment="argmax"), draw()
    context, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    matrix = reference.score_matrix(reference.dot, query, key, {})
    best = np.where(VALUE_MASK[:, None], matrix, -np.inf).argmax(-1)
    np.testing.assert_array_equal(weights.argmax(-1), best)
    np.testing.assert_allclose(context, np.take_along_axis(value, best[..., None], 1), atol=1e-6)


def test_unknown_alignments_are_refused():
    with pytest.raises(ValueError, match=r"Unknown alignment 'softmx'.*Did you mean 'softmax'\?"):
        LuongAttention(alignment="softmx")


def test_scores_of_several_channels_are_refused():
    with pytest.raises(ValueError, match=r"one score a pair.*ChannelBilinearScore, which gives one a channel"):
        LuongAttention(scores.ChannelBilinearScore(3))(draw())


def test_config_names_all_arguments():
    layer = LuongAttention("concat", units=8, dropout=0.25, seed=4, name="looks")
    expected = {"score": "concat", "units": 8, "dropout": 0.25, "seed": 4, "name": "looks"}
    assert layer.get_config().items() >= expected.items()


def test_the_example_of_the_docstring_runs():
    layer = LuongAttention(score="general")
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 3, 5))
