"""The maps of Keras' own layers, against what these return themselves and against NumPy."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import attention_maps
from tests.inspection.models import WIDTH, Calling, array, draw, weights_of

IDS = np.array([[3, 1, 4, 0, 0], [1, 5, 2, 6, 3], [2, 0, 0, 0, 0]], "int32")
TARGET = np.array([[2, 7, 0], [1, 4, 4], [5, 0, 0]], "int32")
MULTI_HEAD = {
    "multi_head": lambda **more: keras.layers.MultiHeadAttention(num_heads=2, key_dim=4, **more),
    "grouped_query": lambda **more: keras.layers.GroupQueryAttention(4, 4, 2, **more),
}
multi_head = pytest.mark.parametrize("make", MULTI_HEAD.values(), ids=MULTI_HEAD)


def masked_model(layer, **call):
    """Embedded ids with masks from padding → attention."""
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embed = keras.layers.Embedding(9, WIDTH, mask_zero=True)
    query, value = embed(target), embed(source)
    single = isinstance(layer, keras.layers.Attention)
    return keras.Model([target, source], layer([query, value], **call) if single else layer(query, value, **call))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.Attention(use_scale=True),
        lambda: keras.layers.Attention(score_mode="concat"),
        lambda: keras.layers.AdditiveAttention(),
    ],
    ids=["dot", "concat", "additive"],
)
def test_single_head_layers_report_what_they_return(layer, causal):
    layer = layer()
    model = masked_model(layer, use_causal_mask=causal)
    query, value = (model.layers[2](ids) for ids in (TARGET, IDS))
    masks = [ops.convert_to_tensor(TARGET != 0), ops.convert_to_tensor(IDS != 0)]
    _, expected = layer([query, value], mask=masks, use_causal_mask=causal, return_attention_scores=True)
    maps = attention_maps(model, [TARGET, IDS])
    np.testing.assert_array_equal(weights_of(maps), array(expected).astype("float32"))
    assert [len(of_one) for of_one in maps] == [1, 1, 1]
    assert maps[0][0].kind == {"Attention": "attention"}.get(type(layer).__name__, "additive_attention")


def reference(layer, query, value, mask):
    """`softmax(q k / √d)` of each head over what the mask (B, Tq, Tv) keeps; uniform where it keeps nothing."""
    kernels = {part: array(getattr(layer, f"_{part}_dense").kernel) for part in ("query", "key")}
    biases = {part: array(getattr(layer, f"_{part}_dense").bias) for part in ("query", "key")}
    queries = np.einsum("btd,dhk->bhtk", query, kernels["query"]) + biases["query"][None, :, None]
    keys = np.einsum("bsd,dhk->bhsk", value, kernels["key"]) + biases["key"][None, :, None]
    keys = np.repeat(keys, queries.shape[1] // keys.shape[1], axis=1)
    score = np.einsum("bhtk,bhsk->bhts", queries, keys) / np.sqrt(queries.shape[-1])
    nothing = ~mask.any(-1, keepdims=True)[:, None]
    mask = mask[:, None] | nothing
    exponent = np.exp(score - score.max(-1, keepdims=True)) * mask
    weights = exponent / exponent.sum(-1, keepdims=True)
    return np.where(nothing, 1 / weights.shape[-1], weights)


@multi_head
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_layers_report_what_the_fused_reading_used(make, masked, causal):
    layer = make(name="heads")
    query, value = draw(3, 3, WIDTH), draw(3, 5, WIDTH, seed=1)
    layer.build(query.shape, value.shape)
    for place, weight in enumerate(layer.weights):  # biases too
        weight.assign(draw(*weight.shape, seed=place + 2))
    mask = np.ones((3, 3, 5), bool)
    if masked:
        mask = (TARGET != 0)[:, :, None] & (IDS != 0)[:, None]
    if causal:
        mask = mask & np.tri(3, 5, dtype=bool)
    given = {"attention_mask": (TARGET != 0)[:, :, None] & (IDS != 0)[:, None]} if masked else {}
    model = Calling(lambda heads, x: heads(x[0], x[1], use_causal_mask=causal, **given), layer)
    expected = reference(layer, query, value, mask)
    maps = attention_maps(model, [query, value])
    np.testing.assert_allclose(weights_of(maps), expected, atol=2e-6)
    assert maps[0][0].axes == ("head",)
    assert maps[0][0].layer.endswith("heads")


@pytest.mark.filterwarnings("ignore:Layer '.*' .of type EinsumDense. was passed")  # Keras' own, in its grouped layer
@multi_head
def test_the_masks_that_keras_passes_on_are_those_of_the_maps(make):
    model = masked_model(make(name="heads"))
    weights = weights_of(attention_maps(model, [TARGET, IDS]))
    kept = np.broadcast_to(((TARGET != 0)[:, :, None] & (IDS != 0)[:, None])[:, None], weights.shape)
    rows = np.broadcast_to((TARGET != 0)[:, None, :, None], weights.shape)
    assert (weights[kept] > 0).all()
    assert (weights[rows & ~kept] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


@multi_head
def test_where_the_model_asks_for_the_weights_it_gets_them_and_the_map_has_the_same(make):
    asked = []
    mask = (IDS != 0)[:, :, None] & (IDS != 0)[:, None]

    def call(heads, x):
        output, weights = heads(x, x, attention_mask=mask, return_attention_scores=True)
        asked.append(array(weights))
        return output

    maps = attention_maps(Calling(call, make()), draw(3, 5, WIDTH))
    np.testing.assert_array_equal(weights_of(maps), asked[-1].astype("float32"))
    assert (weights_of(maps)[0, :, 3:] == 0).all()  # here Keras gives queries that see nothing no weights


@multi_head
def test_the_weights_of_multi_head_layers_carry_no_dropout(make):
    layer = make(dropout=0.5)
    model = Calling(lambda heads, x: heads(x, x), layer)
    inputs = draw(2, 5, WIDTH)
    calm, wild = attention_maps(model, inputs), attention_maps(model, inputs, training=True)
    np.testing.assert_array_equal(weights_of(calm), weights_of(wild))
    np.testing.assert_allclose(weights_of(wild).sum(-1), 1, atol=1e-6)


@multi_head
def test_a_layer_that_must_not_be_asked_for_weights_is_not_asked(make):
    """As those with flash attention, which refuse."""
    layer = make()
    call = layer.call

    def refusing(*args, return_attention_scores=False, **kwargs):
        assert not return_attention_scores
        return call(*args, **kwargs)

    object.__setattr__(layer, "call", refusing)
    maps = attention_maps(Calling(lambda heads, x: heads(x, x), layer), draw(2, 5, WIDTH))
    np.testing.assert_allclose(weights_of(maps).sum(-1), 1, atol=1e-6)


def test_attention_over_two_axes_has_one_axis_a_side():
    layer = keras.layers.MultiHeadAttention(2, 4, attention_axes=(1, 2))
    inputs = draw(2, 3, 4, WIDTH)
    _, expected = layer(inputs, inputs, return_attention_scores=True)
    maps = attention_maps(Calling(lambda heads, x: heads(x, x), layer), inputs)
    np.testing.assert_allclose(weights_of(maps), array(expected).reshape(2, 2, 12, 12), atol=1e-6)


def test_attention_over_the_second_of_two_axes_has_the_first_as_an_axis():
    layer = keras.layers.MultiHeadAttention(2, 4, attention_axes=2)
    inputs = draw(2, 3, 4, WIDTH)
    _, expected = layer(inputs, inputs, return_attention_scores=True)
    maps = attention_maps(Calling(lambda heads, x: heads(x, x), layer), inputs)
    assert maps[0][0].axes == ("axis_1", "head")
    np.testing.assert_allclose(weights_of(maps), array(expected), atol=1e-6)


def test_weights_with_dropout_are_refused():
    layer = keras.layers.Attention(dropout=0.5, name="look")
    model = Calling(lambda look, x: look([x, x]), layer)
    inputs = draw(2, 5, WIDTH)
    np.testing.assert_allclose(weights_of(attention_maps(model, inputs)).sum(-1), 1, atol=1e-6)
    with pytest.raises(ValueError, match=r"'.*look' \(Attention\) gives its weights with dropout in training"):
        attention_maps(model, inputs, training=True)
    always = Calling(lambda look, x: look([x, x], training=True), layer)
    with pytest.raises(ValueError, match="Pass training=False, or set its `dropout` to 0"):
        attention_maps(always, inputs)


@pytest.mark.parametrize("passes_on", [True, False])
def test_a_subclass_is_asked_if_its_call_passes_the_flag_on(passes_on):
    class Open(keras.layers.Attention):
        def call(self, inputs, **kwargs):
            return super().call(inputs, **kwargs)

    class Closed(keras.layers.Attention):
        def call(self, inputs):
            return super().call(inputs)

    layers = [Open(name="one"), keras.layers.Attention(name="two")]
    if not passes_on:
        layers[0] = Closed(name="one")
    model = Calling(lambda one, two, x: two([one([x, x]), x]), *layers)
    inputs = draw(2, 5, WIDTH)
    if passes_on:
        assert len(attention_maps(model, inputs)[0]) == 2
        return
    with pytest.warns(
        UserWarning, match=r"'.*one' \(Closed\) is left out: its call takes no `return_attention_scores`"
    ):
        assert len(attention_maps(model, inputs)[0]) == 1


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@multi_head
def test_in_half_precision_rows_sum_to_1(make, policy):
    layer = make(dtype=policy)
    maps = attention_maps(Calling(lambda heads, x: heads(x, x), layer), draw(2, 5, WIDTH))
    np.testing.assert_allclose(weights_of(maps).sum(-1), 1, atol=0.02)
