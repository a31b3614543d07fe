from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import CoverageAttention, LuongAttention, MonotonicAttention
from keras_attention.layers.query_loop import check_state, query_by_query
from tests.backends import tensorflow_only, to_float64
from tests.layers.conformance import attend

QUERIES = np.arange(12, dtype="float32").reshape(2, 3, 2)


def counting(one, keep, memory):
    """Weights that show all that a step gets; the memory counts the steps, and sums the queries up."""
    (steps, total), one = memory, ops.cast(one, "float32")
    weights = ops.cast(keep, "float32") * (one[:, :1] + 100 * total[:, :1] + 10000 * steps[:, None])
    return weights, (steps + 1, total + one)


def start():
    return ops.zeros((2,)), ops.zeros((2, 2))


def test_queries_are_read_in_order_with_the_memory_of_those_before():
    weights = to_float64(query_by_query(counting, start(), ops.convert_to_tensor(QUERIES), None, 4))
    assert weights.shape == (2, 3, 4)
    for b in range(2):
        for t in range(3):
            expected = QUERIES[b, t, 0] + 100 * QUERIES[b, :t, 0].sum() + 10000 * t
            np.testing.assert_array_equal(weights[b, t], np.full(4, expected))


def test_a_query_that_sees_nothing_leaves_its_row_of_the_memory():
    mask = np.ones((2, 3, 4), bool)
    mask[0, 1] = False
    weights = to_float64(
        query_by_query(counting, start(), ops.convert_to_tensor(QUERIES), ops.convert_to_tensor(mask), 4)
    )
    assert (weights[0, 1] == 0).all()
    np.testing.assert_array_equal(weights[0, 2], np.full(4, QUERIES[0, 2, 0] + 100 * QUERIES[0, 0, 0] + 10000))
    np.testing.assert_array_equal(weights[1, 2], np.full(4, QUERIES[1, 2, 0] + 100 * QUERIES[1, :2, 0].sum() + 20000))


def test_no_query_gives_no_row():
    empty = query_by_query(counting, start(), ops.convert_to_tensor(QUERIES[:, :0]), None, 4)
    assert empty.shape == (2, 0, 4)


def test_rows_are_in_at_least_float32():
    rows = query_by_query(counting, start(), ops.cast(QUERIES, "bfloat16"), None, 4)
    assert keras.backend.standardize_dtype(rows.dtype) == "float32"


@pytest.mark.parametrize("kind", [CoverageAttention, MonotonicAttention])
def test_a_state_is_asked_for(kind):
    layer = kind(units=8)
    layer.build([(None, None, 7), (None, None, 6)])
    query, value = np.ones((2, 7), "float32"), np.ones((2, 5, 6), "float32")
    with pytest.raises(ValueError, match=rf"{kind.__name__} looks back at the weights before.*Received none"):
        layer.attend(query, layer.prepare(value))
    check_state(layer, layer.initial_state(layer.prepare(value)))


LAYERS = {
    "coverage": lambda: CoverageAttention(8),
    "location_aware": lambda: LuongAttention("location_aware", 8),
    "monotonic_hard": lambda: MonotonicAttention(units=8),
    "monotonic_expected": lambda: MonotonicAttention("location_aware", 8, inference="expected"),
}


@tensorflow_only
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_lengths_unknown_to_the_graph_convert_to_tflite_and_onnx(make):
    import tensorflow as tf

    layer = make()
    layer.build([(None, None, 7), (None, None, 6)])
    specs = [tf.TensorSpec([1, None, 7], name="query"), tf.TensorSpec([1, None, 6], name="value")]
    specs += [tf.TensorSpec([1, None], tf.bool, name="mask")]

    @tf.function(input_signature=specs)
    def looked_at(query, value, mask):
        return {"weights": layer([query, value], mask=[None, mask], return_attention_scores=True)[1]}

    converted = [in_tflite(looked_at), in_onnx(looked_at)]
    rng = np.random.default_rng(0)
    for query_length, value_length in ((3, 5), (4, 19)):
        query, value = rng.normal(size=(1, query_length, 7)), rng.normal(size=(1, value_length, 6))
        query, value = query.astype("float32"), value.astype("float32")
        mask = np.arange(value_length)[None] < value_length - 1
        _, expected = attend(layer, [query, value], mask=[None, mask])
        for run in converted:
            np.testing.assert_allclose(run(query=query, value=value, mask=mask), expected, rtol=0, atol=1e-5)


def in_tflite(function):
    """A function converted with built-in operations only, as a function of arrays."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    frozen = convert_variables_to_constants_v2(function.get_concrete_function(), lower_control_flow=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    running = interpreter.Interpreter(model_content=converter.convert())

    def run(**arrays):
        places = {one["name"].split(":")[0]: one["index"] for one in running.get_input_details()}
        for name, array in arrays.items():
            running.resize_tensor_input(places[name], array.shape)
        running.allocate_tensors()
        for name, array in arrays.items():
            running.set_tensor(places[name], array)
        running.invoke()
        return running.get_tensor(running.get_output_details()[0]["index"])

    return run


def in_onnx(function):
    tf2onnx, onnxruntime = pytest.importorskip("tf2onnx"), pytest.importorskip("onnxruntime")
    model, _ = tf2onnx.convert.from_function(function, input_signature=function.input_signature, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda **arrays: session.run(None, arrays)[0]
