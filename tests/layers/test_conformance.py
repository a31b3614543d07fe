"""Every attention layer, every rule: values, masks, dropout, and the stepwise calls."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import layers
from tests import reference
from tests.backends import float64_only, one_backend, to_float64
from tests.layers.conformance import (
    ABSTRACT,
    TABLE,
    VALUE_DIM,
    VALUE_LENGTH,
    attend,
    contents,
    each_row,
    masks,
    over_channels,
)

SHAPE = (2, 3, 5)
QUERY_MASK, VALUE_MASK, ATTENTION_MASK = masks()
MASKS = {
    "nothing": {},
    "values": {"value_mask": VALUE_MASK},
    "queries": {"query_mask": QUERY_MASK},
    "pairs": {"attention_mask": ATTENTION_MASK},
    "the future": {"causal": True},
    "all four": {
        "query_mask": QUERY_MASK,
        "value_mask": VALUE_MASK,
        "attention_mask": ATTENTION_MASK,
        "causal": True,
    },
}
each_mask = pytest.mark.parametrize("masked", MASKS.values(), ids=MASKS.keys())


def as_arguments(query_mask=None, value_mask=None, attention_mask=None, causal=False):
    """Masks as the layers take them."""
    mask = None if query_mask is None and value_mask is None else [query_mask, value_mask]
    return {"mask": mask, "attention_mask": attention_mask, "use_causal_mask": causal}


def test_table_covers_every_public_layer():
    public = {name: getattr(layers, name) for name in layers.__all__}
    attention = {n for n, c in public.items() if isinstance(c, type) and issubclass(c, layers.AttentionLayer)}
    assert attention - ABSTRACT == {row.layer.__name__ for row in TABLE}
    assert attention >= ABSTRACT
    assert len({row.name for row in TABLE}) == len(TABLE)


@each_mask
@each_row
def test_values_are_those_of_the_paper(row, masked):
    layer, inputs = row.build(), row.draw()
    context, weights = attend(layer, inputs, **as_arguments(**masked))
    expected_context, expected_weights = row.expect(layer, inputs, masked)
    np.testing.assert_allclose(weights, expected_weights, rtol=0, atol=1e-5)
    np.testing.assert_allclose(context, expected_context, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(to_float64(layer(inputs, **as_arguments(**masked))), context)


@float64_only
@each_row
def test_values_in_float64_are_those_of_the_paper(row):
    layer, inputs = row.build(dtype="float64"), row.draw(dtype="float64")
    context, weights = layer(inputs, return_attention_scores=True, **as_arguments(**MASKS["all four"]))
    assert {keras.backend.standardize_dtype(one.dtype) for one in (context, weights)} == {"float64"}
    expected = row.expect(layer, inputs, MASKS["all four"])
    np.testing.assert_allclose(to_float64(weights), expected[1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(to_float64(context), expected[0], rtol=0, atol=1e-10)


@one_backend
@each_row
def test_key_defaults_to_value(row):
    layer = row.build(width=7)
    query, value = np.random.normal(size=(2, 3, 7)), np.random.normal(size=(2, 5, 7))
    for got, expected in zip(attend(layer, [query, value]), attend(layer, [query, value, value]), strict=True):
        np.testing.assert_array_equal(got, expected)


@each_row
def test_weights_are_at_least_0_and_sum_to_1_or_0(row):
    row.needs("rows sum to 1")
    kept = reference.full_mask(SHAPE, **MASKS["all four"]).any(-1)
    _, weights = attend(row.build(), row.draw(), **as_arguments(**MASKS["all four"]))
    assert (weights >= 0).all()
    kept = over_channels(kept, weights)
    np.testing.assert_allclose(weights.sum(-1)[kept], 1, atol=1e-6)
    np.testing.assert_array_equal(weights.sum(-1)[~kept], 0)
    np.testing.assert_allclose(attend(row.build(), row.draw())[1].sum(-1), 1, atol=1e-6)


@each_row
def test_weights_on_masked_places_are_exactly_0(row):
    keep = reference.full_mask(SHAPE, **MASKS["all four"])
    assert 0 < keep.sum() < keep.size
    _, weights = attend(row.build(), row.draw(), **as_arguments(**MASKS["all four"]))
    keep = over_channels(keep, weights)
    assert (weights[~keep] == 0).all()
    row.needs("every kept place is seen")
    assert (weights[keep] > 0).all()


@each_row
def test_changed_padding_changes_nothing(row):
    layer, (query, value, key) = row.build(), row.draw()
    before = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    value[~VALUE_MASK], key[~VALUE_MASK] = 1e6, -1e4
    after = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    for got, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(got, expected)


@one_backend
@each_row
def test_more_padding_changes_nothing(row):
    layer, (query, value, key) = row.build(), row.draw()
    context, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    value, key = (np.pad(one, ((0, 0), (0, 4), (0, 0)), constant_values=3.0) for one in (value, key))
    mask = np.pad(VALUE_MASK, ((0, 0), (0, 4)))
    longer_context, longer_weights = attend(layer, [query, value, key], mask=[None, mask])
    np.testing.assert_allclose(longer_context, context, rtol=0, atol=1e-6)
    np.testing.assert_allclose(longer_weights[..., :VALUE_LENGTH], weights, rtol=0, atol=1e-6)
    assert (longer_weights[..., VALUE_LENGTH:] == 0).all()


@each_row
def test_rows_with_nothing_to_keep_are_0(row):
    layer, inputs = row.build(), row.draw()
    value_mask = np.array([[False] * 5, [True] * 5])
    context, weights = attend(layer, inputs, mask=[None, value_mask])
    assert (context[0] == 0).all() and (weights[0] == 0).all()
    np.testing.assert_allclose(weights[1], attend(layer, inputs)[1][1], atol=1e-6)


@each_row
def test_masked_queries_give_0(row):
    layer, inputs = row.build(), row.draw()
    context, weights = attend(layer, inputs, mask=[QUERY_MASK, None])
    assert (context[~QUERY_MASK] == 0).all() and (weights[over_channels(~QUERY_MASK, weights)] == 0).all()
    assert (context[QUERY_MASK] != 0).all()


@one_backend
@each_row
def test_one_value_is_read_as_it_is(row):
    row.needs("rows sum to 1")
    inputs = row.draw(query_length=1, value_length=1)
    context, weights = attend(row.build(), inputs)
    np.testing.assert_array_equal(weights, np.ones(row.weights_shape(2, 1, 1)))
    np.testing.assert_allclose(context, inputs[1], atol=1e-6)


@one_backend
@each_row
def test_batch_of_one_equals_row_of_many(row):
    layer, inputs = row.build(), row.draw(batch=4)
    query_mask, value_mask, attention_mask = masks(batch=4)
    many = attend(layer, inputs, mask=[query_mask, value_mask], attention_mask=attention_mask)
    for b in range(4):
        one = slice(b, b + 1)
        alone = attend(
            layer,
            [tensor[one] for tensor in inputs],
            mask=[query_mask[one], value_mask[one]],
            attention_mask=attention_mask[one],
        )
        np.testing.assert_allclose(alone[0][0], many[0][b], rtol=0, atol=1e-6)
        np.testing.assert_allclose(alone[1][0], many[1][b], rtol=0, atol=1e-6)


@one_backend
@each_row
def test_permuting_the_memory_permutes_the_weights(row):
    row.needs("permutation")
    layer, (query, value, key) = row.build(), row.draw()
    order = np.array([3, 0, 4, 1, 2])
    context, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    moved = attend(layer, [query, value[:, order], key[:, order]], mask=[None, VALUE_MASK[:, order]])
    np.testing.assert_allclose(moved[1], weights[..., order], rtol=0, atol=1e-6)
    np.testing.assert_allclose(moved[0], context, rtol=0, atol=1e-6)
    assert not np.allclose(moved[1], weights, atol=1e-3)


@each_row
def test_dropout_drops_in_training_only_and_never_from_the_returned_weights(row):
    row.needs("the same weights in training")
    layer, (query, _, key) = row.build(width=7, dropout=0.4, seed=5), row.draw()
    key = np.pad(key, ((0, 0), (0, 0), (0, 7 - row.key_dim)))
    value = np.broadcast_to(np.eye(5, 7, dtype="float32"), (2, 5, 7))  # the context shows the weights it was made with
    read, weights = attend(layer, [query, value, key])
    kept = reference.context(weights, value)[..., :5]
    np.testing.assert_allclose(read[..., :5], kept, atol=1e-6)
    read, in_training = attend(layer, [query, value, key], training=True)
    np.testing.assert_array_equal(in_training, weights)
    dropped = read[..., :5] == 0
    assert 0 < dropped.sum() < dropped.size
    np.testing.assert_allclose(read[..., :5][~dropped], kept[~dropped] / 0.6, rtol=1e-5)


@each_row
def test_dropout_is_seeded_and_inference_deterministic(row):
    inputs = row.draw()
    first, second = (row.make(dropout=0.4, seed=11) for _ in range(2))
    for layer in (first, second):
        layer.build([one.shape for one in inputs])
    second.set_weights(first.get_weights())
    in_training = to_float64(first(inputs, training=True))
    np.testing.assert_array_equal(to_float64(second(inputs, training=True)), in_training)
    assert not np.allclose(to_float64(first(inputs, training=True)), in_training)
    np.testing.assert_array_equal(to_float64(first(inputs)), to_float64(first(inputs)))


@each_row
def test_steps_equal_the_call(row):
    layer, (query, value, key) = row.build(), row.draw()
    context, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    prepared = layer.prepare(value, key, VALUE_MASK)
    state = layer.initial_state(prepared)
    for t in range(query.shape[1]):
        step_context, step_weights, state = layer.attend(query[:, t], prepared, state)
        np.testing.assert_allclose(to_float64(step_context), context[:, t], rtol=0, atol=1e-6)
        np.testing.assert_allclose(to_float64(step_weights), weights[..., t, :], rtol=0, atol=1e-6)


@each_row
def test_a_beam_gathers_prepared_keys_and_state(row):
    layer, (query, value, key) = row.build(), row.draw()
    prepared = layer.prepare(value, key, VALUE_MASK)
    context, weights, state = layer.attend(query[:, 0], prepared, layer.initial_state(prepared))
    leaves = keras.tree.flatten((prepared, state))
    assert len(leaves) >= 3 and all(leaf.shape[0] == 2 for leaf in leaves)

    beams = [1, 1, 0, 1]
    prepared, state = keras.tree.map_structure(lambda leaf: ops.take(leaf, beams, axis=0), (prepared, state))
    assert isinstance(prepared, layers.PreparedKeys)
    got = layer.attend(query[beams, 0], prepared, layer.initial_state(prepared))
    np.testing.assert_allclose(to_float64(got[0]), to_float64(context)[beams], rtol=0, atol=1e-6)
    np.testing.assert_allclose(to_float64(got[1]), to_float64(weights)[beams], rtol=0, atol=1e-6)
    layer.attend(query[beams, 1], prepared, state)


@one_backend
@each_row
def test_prepared_keys_default_to_the_values_and_to_no_mask(row):
    layer = row.build(width=7)
    query, value = np.random.normal(size=(2, 3, 7)), np.random.normal(size=(2, 5, 7))
    query, value = query.astype("float32"), value.astype("float32")
    prepared = layer.prepare(value)
    context = to_float64(layer.attend(query[:, 0], prepared, layer.initial_state(prepared))[0])
    np.testing.assert_allclose(context, attend(layer, [query, value])[0][:, 0], rtol=0, atol=1e-6)


@each_row
def test_nothing_is_stored_on_the_layer(row):
    layer, inputs = row.build(dropout=0.2, seed=1), row.draw()
    query, value, key = inputs
    layer(inputs)  # Keras notes here that the layer was called
    before = contents(layer)
    attend(layer, inputs, mask=[QUERY_MASK, VALUE_MASK], attention_mask=ATTENTION_MASK, training=True)
    prepared = layer.prepare(value, key, VALUE_MASK)
    layer.attend(query[:, 0], prepared, layer.initial_state(prepared))
    assert contents(layer) == before


@one_backend
@each_row
def test_query_and_value_of_other_lengths_give_other_shapes(row):
    layer = row.build()
    for batch, query_length, value_length in ((1, 4, 2), (3, 1, 6)):
        context, weights = attend(layer, row.draw(batch, query_length, value_length))
        assert context.shape == (batch, query_length, VALUE_DIM)
        assert weights.shape == row.weights_shape(batch, query_length, value_length)
