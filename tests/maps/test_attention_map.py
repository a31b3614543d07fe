from __future__ import annotations

import doctest
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from keras_attention.maps import AttentionMap, attention_map

ROWS, COLUMNS = ["le", "chat", "dort"], ["the", "small", "cat", "is", "asleep"]
SHAPES = hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4)
UNIT = st.floats(0, 1, width=32)


def make(weights, **changes) -> AttentionMap:
    shape = np.asarray(weights).shape
    fields = {
        "name": "decoder",
        "layer": "decoder/attention",
        "kind": "luong_general",
        "weights": weights,
        "rows": [f"r{i}" for i in range(shape[-2])],
        "columns": [f"c{i}" for i in range(shape[-1])],
        "axes": ("hop", "head", "channel")[: len(shape) - 2],
    }
    return AttentionMap(**{**fields, **changes})


def random_weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).random(shape, dtype=np.float32)


def test_labels_become_tuples_and_weights_a_read_only_float32_copy():
    given_weights = np.zeros((3, 5))
    kept = make(given_weights, rows=ROWS, columns=COLUMNS)
    given_weights[:] = 0.5
    assert kept.rows == ("le", "chat", "dort") and kept.columns == tuple(COLUMNS)
    assert kept.weights.dtype == np.float32 and not kept.weights.any()
    with pytest.raises(ValueError, match="read-only"):
        kept.weights[0, 0] = 1


def test_a_kind_of_label_of_its_own_is_kept():
    class Grid(tuple):
        """Labels with a geometry."""

    columns = Grid(["a", "b"])
    assert type(make(np.zeros((2, 3, 2)), columns=columns).select(hop=1).columns) is Grid


@pytest.mark.parametrize("bad", [-0.1, 1.002, np.nan, np.inf])
def test_a_weight_outside_0_to_1_is_refused_and_named(bad):
    weights = np.zeros((3, 5), np.float32)
    weights[1, 2] = bad
    with pytest.raises(ValueError, match=rf"holds 1 values outside \[0, 1\], e\.g\. {np.float32(bad)}.*softmax"):
        make(weights)


def test_a_weight_that_rounding_put_above_1_is_taken():
    assert make([[1.0005]]).weights[0, 0] > 1


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"rows": ["a", "b"]}, ValueError, "`rows` has 2 labels for weights with 3 rows.*one label each"),
        ({"columns": ["a"]}, ValueError, "`columns` has 1 labels for weights with 5 columns"),
        ({"rows": "abc"}, TypeError, "`rows` is 'abc', a str. Expected a sequence of str"),
        ({"rows": [1, "b", "c"]}, TypeError, r"`rows\[0\]` is 1, a int. Expected a str"),
        ({"axes": ("head",)}, ValueError, r"`axes` is \('head',\) for weights with leading axes of lengths \(\)"),
        ({"axes": "head"}, TypeError, "Expected a tuple of str"),
        ({"name": None}, TypeError, "`name` is None, a NoneType. Expected a str"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_mend(changes, error, message):
    with pytest.raises(error, match=message):
        make(np.zeros((3, 5)), **changes)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([[0.1, 0.2], [0.3]], TypeError, "`weights` is no array of numbers"),
        ([["a"]], TypeError, "`weights` is no array of numbers"),
        ([0.1, 0.2], ValueError, r"`weights` has the shape \(2,\). Expected \(..., rows, columns\)"),
        (np.zeros((0, 2, 2)), ValueError, "no leading axis of length 0"),
    ],
)
def test_what_is_no_array_of_weights_is_refused(weights, error, message):
    with pytest.raises(error, match=message):
        AttentionMap("decoder", "attention", "dot", weights, ["a", "b"], ["x", "y"])


def test_two_axes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="all different"):
        make(np.zeros((2, 2, 3, 5)), axes=("head", "head"))


def test_select_takes_an_index_or_the_mean_along_named_axes():
    weights = random_weights(2, 4, 3, 5)
    whole = make(weights)
    one = whole.select(head=2)
    assert one.axes == ("hop",) and one.name == "decoder[head=2]"
    np.testing.assert_array_equal(one.weights, weights[:, 2])
    both = whole.select(head="mean", hop=-1)
    assert both.axes == () and both.rows == whole.rows
    np.testing.assert_allclose(both.weights, weights[1].astype(np.float64).mean(0), rtol=1e-6)
    assert whole.select() is whole


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        ({"channel": 0}, ValueError, "no axis 'channel'. Expected one of its axes: hop, head"),
        ({"head": 4}, ValueError, "`head` is 4. Expected -4 to 3"),
        ({"head": -5}, ValueError, "`head` is -5"),
        ({"head": "max"}, ValueError, "`head` is 'max'. Expected an int or 'mean'"),
        ({"head": 1.0}, TypeError, "`head` is 1.0, a float"),
        ({"head": True}, TypeError, "`head` is True, a bool"),
    ],
)
def test_select_refuses_what_it_cannot_take(axes, error, message):
    with pytest.raises(error, match=message):
        make(np.zeros((2, 4, 3, 5))).select(**axes)


@given(hnp.arrays(np.float32, SHAPES, elements=st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0])))
@settings(deadline=None, max_examples=60)
def test_links_are_those_of_brute_force(weights):
    flat = weights.reshape(-1, *weights.shape[-2:]).astype(np.float64)
    mean = [[np.float32(flat[:, i, j].mean()) for j in range(flat.shape[2])] for i in range(flat.shape[1])]
    heaviest, heavy = [], []
    for i, row in enumerate(mean):
        if max(row) > 0:
            heaviest.append((i, row.index(max(row))))
        heavy += [(i, j) for j, weight in enumerate(row) if weight >= np.float32(0.7)]
    assert make(weights).links() == heaviest
    assert make(weights).links(0.7) == heavy
    assert all(type(place) is int for link in heaviest + heavy for place in link)


def test_rows_without_weight_link_to_nothing_and_the_first_of_equals_wins():
    assert make([[0.0, 0.0], [0.5, 0.5]]).links() == [(1, 0)]


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_a_threshold_outside_0_to_1_is_refused(threshold):
    with pytest.raises(ValueError, match=r"`threshold` is .* Expected a weight from 0 to 1"):
        make([[0.5]]).links(threshold)


@given(hnp.arrays(np.float32, SHAPES, elements=UNIT), st.text(), st.data())
@settings(deadline=None, max_examples=100)
def test_a_map_comes_back_from_json_exactly(weights, name, data):
    labels = st.lists(st.text(), min_size=weights.shape[-2], max_size=weights.shape[-2])
    before = make(weights, name=name, rows=data.draw(labels))
    after = AttentionMap.from_dict(json.loads(json.dumps(before.to_dict())))
    np.testing.assert_array_equal(after.weights, before.weights)
    for field in ("name", "layer", "kind", "rows", "columns", "axes"):
        assert getattr(after, field) == getattr(before, field)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (2, 3, 0), (0, 0)])
def test_an_empty_map_comes_back_with_its_shape(shape):
    assert AttentionMap.from_dict(make(np.zeros(shape)).to_dict()).weights.shape == shape


def test_json_weights_are_short():
    assert make([[0.1, 0.7]]).to_dict()["weights"] == [[0.1, 0.7]]


def test_unknown_and_missing_keys_are_refused():
    values = make([[0.1]]).to_dict()
    with pytest.raises(ValueError, match=r"The keys \['colour'\] are missing from the map or unknown"):
        AttentionMap.from_dict({**values, "colour": "red"})
    values.pop("rows")
    with pytest.raises(ValueError, match=r"The keys \['rows'\]"):
        AttentionMap.from_dict(values)


def test_str_is_short_and_equality_is_identity():
    one = make(random_weights(2, 3, 5))
    assert str(one) == (
        "AttentionMap('decoder', layer='decoder/attention', kind='luong_general', (2, 3, 5), axes=('hop',))"
    )
    assert one != make(one.weights) and len({one, one}) == 1


def test_a_map_survives_pickling():
    one = make(random_weights(3, 5))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).weights, one.weights)


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(attention_map) == doctest.TestResults(failed=0, attempted=3)
