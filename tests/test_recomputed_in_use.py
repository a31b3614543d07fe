"""`recomputed.weighted_tanh` in the layers that score with it, and in files."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import BahdanauAttention, LuongAttention
from keras_attention.scores import additive
from tests import reference
from tests.backends import gradients, tensorflow_only, to_float64
from tests.layers.conformance import attend, give_values, masks
from tests.test_recomputed import assert_close, draw, expect, limits

LAYERS = {
    "bahdanau": (lambda **more: BahdanauAttention(8, use_bias=True, **more), reference.additive),
    "normalized": (lambda **more: BahdanauAttention(8, normalize=True, **more), reference.normalized_additive),
    "mlp": (lambda **more: LuongAttention("mlp", units=8, **more), reference.mlp),
}
each_layer = pytest.mark.parametrize(("make", "score"), LAYERS.values(), ids=LAYERS.keys())


def built(make, **more):
    layer = make(**more)
    layer.build([(None, None, 7), (None, None, 6), (None, None, 4)])
    give_values(layer, 1)
    return layer


def draw_inputs(batch=2, query_length=3, value_length=5):
    rng = np.random.default_rng(2)
    sizes = ((query_length, 7), (value_length, 6), (value_length, 4))
    return [rng.normal(size=(batch, *size)).astype("float32") for size in sizes]


@each_layer
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_layers_weigh_as_their_papers_say(make, score, policy, monkeypatch):
    limits(monkeypatch, step=40)
    layer, inputs = built(make, dtype=policy), draw_inputs()
    query_mask, value_mask, attention_mask = masks()
    context, weights = attend(layer, inputs, mask=[query_mask, value_mask], attention_mask=attention_mask)
    mask = reference.full_mask((2, 3, 5), query_mask, value_mask, attention_mask)
    named = {one.name: to_float64(one) for one in layer.weights}
    query, value, key = (one.astype("float64") for one in inputs)
    expected = reference.masked_softmax(reference.score_matrix(score, query, key, named), mask)
    limit = 1e-6 if policy == "float32" else 0.05
    np.testing.assert_allclose(weights, expected, rtol=0, atol=limit)
    np.testing.assert_allclose(context, reference.context(expected, value), rtol=0, atol=4 * limit)
    assert (weights[~mask] == 0).all()


@each_layer
def test_layers_have_the_gradients_of_the_plain_formula(make, score, monkeypatch):
    layer, inputs = built(make), draw_inputs()
    _, value_mask, _ = masks()
    weigh = ops.convert_to_tensor(np.random.default_rng(5).normal(size=(2, 3, 6)).astype("float32"))

    def of_context(*inputs):
        return ops.sum(weigh * layer(list(inputs), mask=[None, value_mask]))

    limits(monkeypatch, whole=10**9)
    plain_inputs, plain_weights = gradients(of_context, inputs, layer.trainable_weights)
    limits(monkeypatch, step=40)
    of_inputs, of_weights = gradients(of_context, inputs, layer.trainable_weights)
    assert_close([*of_inputs, *of_weights], [*plain_inputs, *plain_weights], 2e-6)
    for one in of_inputs[1:]:
        assert (one[~value_mask] == 0).all() and (one[value_mask] != 0).any()


@each_layer
def test_more_padding_changes_no_output_and_no_gradient(make, score, monkeypatch):
    limits(monkeypatch, step=40)
    layer, inputs = built(make), draw_inputs()
    padded = [inputs[0], *(np.pad(one, [(0, 0), (0, 4), (0, 0)], constant_values=3) for one in inputs[1:])]
    kept = np.arange(9) < 5
    mask = np.stack([kept, kept])

    def of_context(*inputs):
        return ops.sum(ops.square(layer(list(inputs), mask=[None, mask[:, : inputs[1].shape[1]]])))

    assert_close([attend(layer, padded, mask=[None, mask])[0]], [attend(layer, inputs)[0]])
    short, _ = gradients(of_context, inputs)
    long, _ = gradients(of_context, padded)
    assert_close([long[0], long[1][:, :5], long[2][:, :5]], short, 2e-6)
    assert (long[1][:, 5:] == 0).all() and (long[2][:, 5:] == 0).all()


def test_symbolic_inputs_take_the_plain_formula(monkeypatch):
    limits(monkeypatch)
    inputs = [keras.Input((None, 6)), keras.Input((None, 6))]
    assert additive(*inputs, np.ones(6, "float32")).shape == (None, None, None)


FILE_SIZES = ((5, 7), (1, 3), (4, 1))  # Tq and Tv
SCALE = draw(1, 1, 1, 6)[2]


def draw_for_file(batch, query_length, value_length):
    query, key, _, upstream = draw(batch, query_length, value_length, 6)
    return query, key, SCALE, upstream


def graph_of_any_size(batch):
    import tensorflow as tf

    specs = [tf.TensorSpec((batch, None, 6), name="query"), tf.TensorSpec((batch, None, 6), name="key")]
    return tf.function(
        lambda query, key: {"score": additive(query, key, SCALE)}, input_signature=specs, autograph=False
    )


@tensorflow_only
def test_tflite_takes_it_with_built_in_operations_alone(tmp_path, monkeypatch):
    import tensorflow as tf

    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    limits(monkeypatch, whole=60, step=20)
    module = tf.Module()
    module.graph = graph_of_any_size(1)
    tf.saved_model.save(module, tmp_path, signatures=module.graph)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    runner = interpreter.Interpreter(model_content=converter.convert()).get_signature_runner()
    for query_length, value_length in FILE_SIZES:
        inputs = draw_for_file(1, query_length, value_length)
        got = runner(query=inputs[0], key=inputs[1])["score"]
        assert_close([got], expect(*inputs)[:1])


@tensorflow_only
def test_onnx_takes_it(monkeypatch):
    tf2onnx, onnxruntime = pytest.importorskip("tf2onnx"), pytest.importorskip("onnxruntime")
    limits(monkeypatch, whole=60, step=50)
    graph = graph_of_any_size(None)
    model, _ = tf2onnx.convert.from_function(graph, input_signature=graph.input_signature, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch, (query_length, value_length) in zip((3, 1, 5), FILE_SIZES, strict=True):
        inputs = draw_for_file(batch, query_length, value_length)
        (got,) = session.run(None, {"query": inputs[0], "key": inputs[1]})
        assert_close([got], expect(*inputs)[:1])


@tensorflow_only
def test_saved_graph_keeps_the_gradient(tmp_path, monkeypatch):
    import tensorflow as tf

    limits(monkeypatch, whole=60, step=50)
    module = tf.Module()
    module.graph = graph_of_any_size(None)
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path).graph
    for batch, (query_length, value_length) in zip((3, 1, 5), FILE_SIZES, strict=True):
        query, key, scale, upstream = draw_for_file(batch, query_length, value_length)
        query, key = tf.constant(query), tf.constant(key)
        with tf.GradientTape() as tape:
            tape.watch([query, key])
            scores = loaded(query, key)["score"]
        got = [scores, *tape.gradient(scores, [query, key], output_gradients=upstream)]
        assert_close(got, expect(query.numpy(), key.numpy(), scale, upstream)[:3])
