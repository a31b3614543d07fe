from __future__ import annotations

import math
import re

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_attention.layers import BahdanauAttention, LuongAttention
from keras_attention.scores import additive, recomputed
from tests import reference
from tests.backends import BACKEND, float64_only, gradients, tensorflow_only, to_float64
from tests.layers.conformance import attend, give_values, masks

SIZES = {  # B, Tq, Tv, U, numbers a step
    "one example a step": (3, 5, 7, 6, 1),
    "a last group that is short": (5, 3, 7, 6, 90),
    "two groups, nothing left over": (4, 3, 5, 2, 20),
    "all examples in one step": (2, 4, 5, 3, 10**6),
    "batch of 1": (1, 4, 6, 3, 5),
    "one query": (5, 1, 4, 3, 24),
    "one key": (5, 3, 1, 4, 10),
    "one unit": (3, 4, 2, 1, 3),
}
each_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())


@pytest.fixture
def limits(monkeypatch):
    """Sets from what size on it goes step by step, and how much a step takes."""

    def set_to(whole=0, step=1):
        monkeypatch.setattr(recomputed, "LARGEST_WHOLE", whole)
        monkeypatch.setattr(recomputed, "LARGEST_STEP", step)

    return set_to


def draw(batch, query_length, value_length, units, dtype="float32", seed=0):
    """q', k', v and the gradient of the scores."""
    rng = np.random.default_rng(seed)
    shapes = ((batch, query_length, units), (batch, value_length, units), (units,), (batch, query_length, value_length))
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def expect(query, key, scale, upstream):
    """Scores and the gradients of query, key and scale, from the formula."""
    query, key, scale, upstream = (one.astype("float64") for one in (query, key, scale, upstream))
    weights = {"query_kernel": np.eye(len(scale)), "key_kernel": np.eye(len(scale)), "scale": scale}
    scores = reference.score_matrix(reference.additive, query, key, weights)
    hidden = np.tanh(query[:, :, None] + key[:, None])
    slope = upstream[..., None] * (1 - hidden**2) * scale
    return scores, slope.sum(2), slope.sum(1), np.einsum("bqv,bqvu->u", upstream, hidden)


def found(query, key, scale, upstream):
    """As `expect`, of `weighted_tanh`."""
    scores = to_float64(recomputed.weighted_tanh(query, key, scale))
    upstream = ops.convert_to_tensor(upstream)
    of_inputs, _ = gradients(lambda *inputs: ops.sum(recomputed.weighted_tanh(*inputs) * upstream), [query, key, scale])
    return scores, *of_inputs


def assert_close(got, expected, limit=1e-6):
    """Up to `limit` of the largest entry, or of 1."""
    for one, other in zip(got, expected, strict=True):
        assert np.shape(one) == other.shape
        np.testing.assert_allclose(to_float64(one), other, rtol=0, atol=limit * max(1, np.abs(other).max(initial=0)))


@each_size
def test_steps_give_the_scores_and_gradients_of_the_formula(sizes, limits):
    *shape, step = sizes
    limits(step=step)
    inputs = draw(*shape)
    assert_close(found(*inputs), expect(*inputs))


@each_size
def test_steps_equal_the_plain_formula(sizes, limits):
    *shape, step = sizes
    inputs = draw(*shape, seed=1)
    limits(whole=10**9)
    plain = found(*inputs)
    limits(step=step)
    assert_close(found(*inputs), plain)


@float64_only
def test_steps_in_float64_are_exact(limits):
    limits(step=90)
    inputs = draw(5, 3, 7, 6, "float64")
    assert_close(found(*inputs), expect(*inputs), 1e-13)


@settings(max_examples=5 if BACKEND == "jax" else 20)  # JAX compiles each loop
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(1, 4)),
    step=st.integers(1, 120),
    seed=st.integers(0, 99),
)
def test_no_size_and_no_step_changes_the_result(shape, step, seed):
    inputs = draw(*shape, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recomputed, "LARGEST_WHOLE", 0)
        patch.setattr(recomputed, "LARGEST_STEP", step)
        assert_close(found(*inputs), expect(*inputs))


@given(batch=st.integers(0, 200), numbers=st.integers(0, 200), step=st.integers(1, 3000))
def test_groups_hold_each_example_within_the_step(batch, numbers, step):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recomputed, "LARGEST_STEP", step)
        count, group = recomputed._groups(batch, numbers)
    assert batch <= count * group < batch + max(count, 1)
    assert group <= 1 or group * numbers <= step


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_and_sums_in_float32(dtype, limits):
    limits(step=90)
    inputs = [ops.cast(one, dtype) for one in draw(5, 30, 7, 6)]
    scores, *of_inputs = found(*inputs)
    assert keras.backend.standardize_dtype(recomputed.weighted_tanh(*inputs[:3]).dtype) == dtype
    # One rounding of the result, 2⁻⁸ of it at most, and none on the way.
    assert_close([scores, *of_inputs], expect(*(to_float64(one) for one in inputs)), 2**-8)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
@pytest.mark.parametrize("whole", [0, 250], ids=["steps", "either"])
def test_one_graph_of_unknown_sizes_takes_all(whole, jit_compile, limits):
    import tensorflow as tf

    limits(whole, step=50)
    shapes = ((None, None, 6), (None, None, 6), (6,), (None, None, None))

    @tf.function(jit_compile=jit_compile, input_signature=[tf.TensorSpec(shape) for shape in shapes])
    def both(query, key, scale, upstream):
        with tf.GradientTape() as tape:
            tape.watch([query, key, scale])
            scores = recomputed.weighted_tanh(query, key, scale)
        return [scores, *tape.gradient(scores, [query, key, scale], output_gradients=upstream)]

    for shape in ((2, 3, 5), (3, 5, 7), (1, 1, 1)):  # 180, 630 and 6 numbers
        inputs = draw(*shape, 6)
        assert_close(both(*inputs), expect(*inputs))


@tensorflow_only
def test_graph_of_unknown_sizes_takes_no_examples(limits):
    import tensorflow as tf

    limits(whole=1, step=50)
    specs = [tf.TensorSpec((None, 5, 6)), tf.TensorSpec((None, 7, 6)), tf.TensorSpec((6,))]
    graph = tf.function(recomputed.weighted_tanh, input_signature=specs, autograph=False)
    assert graph(*draw(0, 5, 7, 6)[:3]).shape == (0, 5, 7)


@pytest.mark.skipif(BACKEND != "jax", reason="jax.jit")
def test_jit_of_jax_gives_scores_and_gradients(limits):
    import jax

    limits(step=90)
    inputs = draw(5, 3, 7, 6)

    @jax.jit
    def both(query, key, scale, upstream):
        scores, back = jax.vjp(recomputed.weighted_tanh, query, key, scale)
        return scores, *back(upstream)

    assert_close(both(*inputs), expect(*inputs))


# What is in memory ---------------------------------------------------------------------------------------------------

SHAPE = (4, 12, 10, 8)  # B, Tq, Tv, U
WHOLE, STEP = math.prod(SHAPE), 160  # a step takes two examples


def shapes_of_tensorflow_graph():
    import tensorflow as tf

    graph_def = _of_tensorflow(False).get_concrete_function(*draw(*SHAPE)).graph.as_graph_def(add_shapes=True)
    nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
    shapes = [tf.TensorShape(one) for node in nodes for one in node.attr["_output_shapes"].list.shape]
    return [shape.as_list() for shape in shapes if shape.is_fully_defined()]


def shapes_of_tensorflow_xla():
    return _in_hlo(_of_tensorflow(True).experimental_get_compiler_ir(*draw(*SHAPE))(stage="optimized_hlo"))


def _of_tensorflow(jit_compile):
    import tensorflow as tf

    @tf.function(jit_compile=jit_compile)
    def both(query, key, scale, upstream):
        with tf.GradientTape() as tape:
            tape.watch([query, key, scale])
            scores = recomputed.weighted_tanh(query, key, scale)
        return [scores, *tape.gradient(scores, [query, key, scale], output_gradients=upstream)]

    return both


def shapes_of_jax():
    import jax

    def both(query, key, scale, upstream):
        scores, back = jax.vjp(recomputed.weighted_tanh, query, key, scale)
        return scores, *back(upstream)

    return _in_hlo(jax.jit(both).lower(*draw(*SHAPE)).compile().as_text())


def _in_hlo(text):
    return [[int(size) for size in one.split(",")] for one in re.findall(r"\bf32\[([\d,]+)\]", text)]


def shapes_of_torch():
    from torch.utils._python_dispatch import TorchDispatchMode

    shapes = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            shapes.extend(list(one.shape) for one in keras.tree.flatten(result) if hasattr(one, "shape"))
            return result

    with Recorder():
        found(*draw(*SHAPE))
    return shapes


SHAPES = {
    "tensorflow": [shapes_of_tensorflow_graph, shapes_of_tensorflow_xla],
    "jax": [shapes_of_jax],
    "torch": [shapes_of_torch],
}[BACKEND]


@pytest.mark.parametrize("shapes", SHAPES)
def test_hidden_layer_is_never_whole_in_memory_forward_or_backward(shapes, limits):
    limits(WHOLE - 1, STEP)
    sizes = sorted(math.prod(shape) for shape in shapes())
    assert sizes[-1] == max(STEP, math.prod(SHAPE[:3]))  # a step, or the scores
    assert len(sizes) > 50

    limits(WHOLE, STEP)
    assert max(math.prod(shape) for shape in shapes()) == WHOLE  # so it would be seen


@tensorflow_only
@pytest.mark.parametrize(
    ("shape", "whole", "loops"),
    [
        ((4, 12, 10), WHOLE, False),
        ((4, 12, 10), WHOLE - 1, True),
        ((4, 1, 10), 0, False),
        ((4, 12, 1), 0, False),
        ((None, 1, None), 0, False),
        ((None, 12, 10), 12 * 10 * 8 - 1, True),
        ((None, None, None), WHOLE, True),
    ],
)
def test_loop_is_there_where_the_size_wants_it(shape, whole, loops, limits):
    import tensorflow as tf

    limits(whole, STEP)
    batch, query_length, value_length = shape
    specs = [tf.TensorSpec((batch, query_length, 8)), tf.TensorSpec((batch, value_length, 8)), tf.TensorSpec((8,))]
    graph_def = (
        tf.function(additive, input_signature=specs, autograph=False).get_concrete_function().graph.as_graph_def()
    )
    kinds = {node.op for node in graph_def.node}
    kinds |= {node.op for function in graph_def.library.function for node in function.node_def}
    assert bool(kinds & {"While", "StatelessWhile"}) == loops
    assert loops or "IdentityN" not in kinds  # nor a gradient of its own
    # The choice is made in the graph only where nothing is known before.
    assert bool(kinds & {"If", "StatelessIf"}) == (shape == (None, None, None))


# In layers -----------------------------------------------------------------------------------------------------------

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
def test_layers_weigh_as_their_papers_say(make, score, policy, limits):
    limits(step=40)
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
def test_layers_have_the_gradients_of_the_plain_formula(make, score, limits):
    layer, inputs = built(make), draw_inputs()
    _, value_mask, _ = masks()
    weigh = ops.convert_to_tensor(np.random.default_rng(5).normal(size=(2, 3, 6)).astype("float32"))

    def of_context(*inputs):
        return ops.sum(weigh * layer(list(inputs), mask=[None, value_mask]))

    limits(whole=10**9)
    plain_inputs, plain_weights = gradients(of_context, inputs, layer.trainable_weights)
    limits(step=40)
    of_inputs, of_weights = gradients(of_context, inputs, layer.trainable_weights)
    assert_close([*of_inputs, *of_weights], [*plain_inputs, *plain_weights], 2e-6)
    for one in of_inputs[1:]:
        assert (one[~value_mask] == 0).all() and (one[value_mask] != 0).any()


@each_layer
def test_more_padding_changes_no_output_and_no_gradient(make, score, limits):
    limits(step=40)
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


def test_symbolic_inputs_take_the_plain_formula(limits):
    limits()
    inputs = [keras.Input((None, 6)), keras.Input((None, 6))]
    assert additive(*inputs, np.ones(6, "float32")).shape == (None, None, None)


# In files ------------------------------------------------------------------------------------------------------------

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
def test_tflite_takes_it_with_built_in_operations_alone(tmp_path, limits):
    import tensorflow as tf

    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    limits(whole=60, step=20)
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
def test_onnx_takes_it(limits):
    tf2onnx, onnxruntime = pytest.importorskip("tf2onnx"), pytest.importorskip("onnxruntime")
    limits(whole=60, step=50)
    graph = graph_of_any_size(None)
    model, _ = tf2onnx.convert.from_function(graph, input_signature=graph.input_signature, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch, (query_length, value_length) in zip((3, 1, 5), FILE_SIZES, strict=True):
        inputs = draw_for_file(batch, query_length, value_length)
        (got,) = session.run(None, {"query": inputs[0], "key": inputs[1]})
        assert_close([got], expect(*inputs)[:1])


@tensorflow_only
def test_saved_graph_keeps_the_gradient(tmp_path, limits):
    import tensorflow as tf

    limits(whole=60, step=50)
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
