"""Every attention layer as a TFLite file of built-in operations, and as an ONNX file: both say what the layer says."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from tests.backends import tensorflow_only, to_float64
from tests.layers.compositions import CASES, built, feed, float_and_int_axes
from tests.layers.conformance import QUERY_DIM, TABLE, VALUE_DIM
from tests.layers.exporting import Exportable, run_onnx, run_tflite, to_onnx, to_tflite

pytestmark = [tensorflow_only, pytest.mark.slow, pytest.mark.ci]
BOUND = 1e-4

# The sizes of a row of the table; those of a case are its own.
ROW_SIZES = {"query": 3, "value": 5}


def row_exportable(row):
    """The call of a layer, and two steps of a decoder: the second has the state that the first returned."""
    layer = row.build()

    def function(given):
        query, value, key, mask = (given[name] for name in ("query", "value", "key", "mask"))
        context, weights = layer([query, value, key], mask=[None, mask], return_attention_scores=True)
        prepared = layer.prepare(value, key, mask)
        first, first_weights, state = layer.attend(query[:, 0], prepared, layer.initial_state(prepared))
        second, second_weights, _ = layer.attend(query[:, 1], prepared, state)
        return {
            "context": context,
            "weights": weights,
            "steps": ops.stack([first, second], axis=1),
            "step_weights": ops.stack([first_weights, second_weights], axis=-2),
        }

    axes = {
        "query": ("batch", "query", QUERY_DIM),
        "value": ("batch", "value", VALUE_DIM),
        "key": ("batch", "value", row.key_dim),
        "mask": ("batch", "value"),
    }
    return Exportable(function, axes, {name: "bool" if name == "mask" else "float32" for name in axes})


def row_feed(row, batch, sizes):
    query, value, key = row.draw(batch, sizes["query"], sizes["value"])
    mask = np.arange(sizes["value"]) < sizes["value"] - 1 - np.arange(batch)[:, None] % 2
    return {"query": query, "value": value, "key": key, "mask": mask}


def case_exportable(case):
    layer = built(case)
    axes = {**float_and_int_axes(case), **{f"mask_{name}": one for name, one in case.masks.items()}}
    dtypes = {name: "int32" if name in case.ints else "float32" for name in float_and_int_axes(case)}

    def function(given):
        masks = {name: given[f"mask_{name}"] for name in case.masks}
        return case.call(layer, {name: given[name] for name in dtypes}, masks)

    return Exportable(function, axes, {**dtypes, **{f"mask_{name}": "bool" for name in case.masks}})


def case_feed(case, batch, sizes):
    return feed(case.draw(batch=batch, **sizes), case.draw_masks(batch=batch, **sizes))


SUBJECTS = [
    *((row, row_exportable, row_feed, ROW_SIZES) for row in TABLE),
    *((case, case_exportable, case_feed, {n: s for n, s in case.sizes.items() if n != "batch"}) for case in CASES),
]
each_subject = pytest.mark.parametrize(
    ("subject", "exportable_of", "feed_of", "sizes"), SUBJECTS, ids=[subject[0].name for subject in SUBJECTS]
)


def assert_same(exportable, feeds, found):
    for given, outputs in zip(feeds, found, strict=True):
        expected = exportable.function({name: ops.convert_to_tensor(array) for name, array in given.items()})
        assert outputs.keys() == expected.keys()
        for name, one in expected.items():
            np.testing.assert_allclose(outputs[name], to_float64(one), rtol=BOUND, atol=BOUND, err_msg=name)


@each_subject
def test_tflite_of_built_in_operations_says_the_same(subject, exportable_of, feed_of, sizes, tmp_path):
    subject.needs("tflite")
    exportable = exportable_of(subject)
    lengths = [{name: size + more for name, size in sizes.items()} for more in (0, 2)]
    feeds = [feed_of(subject, 1, one) for one in lengths]
    if "tflite of any lengths" not in subject.left_out:
        found = run_tflite(to_tflite(exportable, tmp_path, {"batch": 1}), feeds)
    else:  # a file for each
        files = [to_tflite(exportable, tmp_path / str(place), {"batch": 1, **one}) for place, one in enumerate(lengths)]
        found = [run_tflite(file, [given])[0] for file, given in zip(files, feeds, strict=True)]
    assert_same(exportable, feeds, found)


@each_subject
def test_onnx_says_the_same(subject, exportable_of, feed_of, sizes):
    subject.needs("onnx")
    exportable = exportable_of(subject)
    feeds = [feed_of(subject, 1 + more, {name: size + more for name, size in sizes.items()}) for more in (0, 2)]
    assert_same(exportable, feeds, run_onnx(to_onnx(exportable), feeds))
