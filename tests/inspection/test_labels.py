"""Labels of the maps: positions, or the tokens of each example."""

from __future__ import annotations

import numpy as np
import pytest

from keras_attention import attention_maps
from keras_attention.layers import LuongAttention, StructuredAttention
from tests.inspection.models import WIDTH, Calling, draw, weights_of

TARGET, SOURCE = draw(2, 3, WIDTH), draw(2, 5, WIDTH, seed=1)
SOURCE_TOKENS = [["the", "cat", "sat"], ["a", "dog", "sat", "on", "it"]]
TARGET_TOKENS = [["le", "chat"], ["un", "chien", "assis"]]


def cross():
    return Calling(lambda look, x: look([x[0], x[1]]), LuongAttention(name="look"))


def both():
    def call(source, look, x):
        read = source([x[1], x[1]])
        return look([x[0], read])

    return Calling(call, LuongAttention(name="source"), LuongAttention(name="look"))


def test_labels_are_positions_by_default():
    one = attention_maps(cross(), [TARGET, SOURCE])[0][0]
    assert (one.rows, one.columns) == (("0", "1", "2"), ("0", "1", "2", "3", "4"))


def test_tokens_cut_the_maps_at_their_number():
    model = cross()
    whole = weights_of(attention_maps(model, [TARGET, SOURCE]))
    maps = attention_maps(model, [TARGET, SOURCE], rows=TARGET_TOKENS, columns=SOURCE_TOKENS)
    assert [one.weights.shape for (one,) in maps] == [(2, 3), (3, 5)]
    assert (maps[0][0].rows, maps[0][0].columns) == (("le", "chat"), ("the", "cat", "sat"))
    np.testing.assert_array_equal(maps[0][0].weights, whole[0, :2, :3])


def test_each_layer_may_have_its_own():
    columns = {"source": SOURCE_TOKENS, "look": SOURCE_TOKENS}
    maps = attention_maps(both(), [TARGET, SOURCE], rows={"look": TARGET_TOKENS}, columns=columns)
    assert [one.rows for one in maps[1]] == [("0", "1", "2", "3", "4"), ("un", "chien", "assis")]
    assert [one.columns for one in maps[1]] == [tuple(SOURCE_TOKENS[1])] * 2


def test_each_call_of_a_layer_may_have_its_own():
    layer = LuongAttention(name="look")
    model = Calling(lambda look, x: look([x[0], look([x[1], x[1]])]), layer)
    rows = {"look[call=0]": SOURCE_TOKENS, "look[call=1]": TARGET_TOKENS}
    maps = attention_maps(model, [TARGET, SOURCE], rows=rows)
    assert [one.rows for one in maps[0]] == [("the", "cat", "sat"), ("le", "chat")]


def test_an_image_grid_stays_what_it_is():
    class Grid(tuple):
        __slots__ = ()

    grid = Grid("abcde")
    maps = attention_maps(cross(), [TARGET, SOURCE], columns=[grid, grid])
    assert maps[0][0].columns is grid


def test_more_labels_than_weights_are_refused():
    with pytest.raises(
        ValueError, match="`rows` has 5 labels for the 3 rows of 'look'. Expected at most as many. Give"
    ):
        attention_maps(both(), [TARGET, SOURCE], rows=[SOURCE_TOKENS[1]] * 2)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (SOURCE_TOKENS[:1], "`columns` has 1 lists for 2 examples. Expected one list of tokens for each example"),
        ("it", "`columns` has one text for 2 examples"),
        ({"lock": SOURCE_TOKENS}, r"`columns` names \['lock'\], which gave no maps. Expected names among \['look'\]"),
    ],
)
def test_labels_that_do_not_fit_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        attention_maps(cross(), [TARGET, SOURCE], columns=columns)


def test_labels_that_are_no_lists_of_text_are_refused():
    with pytest.raises(TypeError, match="`columns` is 'ab', a str. Expected a sequence of str"):
        attention_maps(cross(), [TARGET, SOURCE], columns=["ab", "cd"])


def test_rows_of_all_maps_do_not_name_the_rows_of_a_layer_without_queries():
    class Single(StructuredAttention):
        def call(self, inputs, mask=None, return_attention_scores=False, training=None):
            context, weights = super().call(inputs, mask, True, training)
            return (context, weights[:, 0]) if return_attention_scores else context

    model = Calling(lambda look, one, x: look([x[0], one(x[1])]), LuongAttention(name="look"), Single(2, 4, name="one"))
    maps = attention_maps(model, [TARGET, SOURCE], rows=TARGET_TOKENS)
    assert [one.rows for one in maps[0]] == [("0",), ("le", "chat")]
