from __future__ import annotations

import math
import re

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_attention.scores import additive, recomputed
from tests import reference
from tests.backends import BACKEND, float64_only, gradients, tensorflow_only, to_float64

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


def limits(monkeypatch, whole=0, step=1):
    """Sets from what size on it goes step by step, and how much a step takes."""
    monkeypatch.setattr(recomputed, "LARGEST_WHOLE", whole)
    monkeypatch.setattr(recomputed, "LARGEST_STEP", step)


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
def test_steps_give_the_scores_and_gradients_of_the_formula(sizes, monkeypatch):
    *shape, step = sizes
    limits(monkeypatch, step=step)
    inputs = draw(*shape)
    assert_close(found(*inputs), expect(*inputs))


@each_size
def test_steps_equal_the_plain_formula(sizes, monkeypatch):
    *shape, step = sizes
    inputs = draw(*shape, seed=1)
    limits(monkeypatch, whole=10**9)
    plain = found(*inputs)
    limits(monkeypatch, step=step)
    assert_close(found(*inputs), plain)


@float64_only
def test_steps_in_float64_are_exact(monkeypatch):
    limits(monkeypatch, step=90)
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
        assert_close(found(*inputs), expect(*inputs), 4e-6)  # up to 125 numbers of either sign, summed in float32


@given(batch=st.integers(0, 200), numbers=st.integers(0, 200), step=st.integers(1, 3000))
def test_groups_hold_each_example_within_the_step(batch, numbers, step):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recomputed, "LARGEST_STEP", step)
        count, group = recomputed._groups(batch, numbers)
    assert batch <= count * group < batch + max(count, 1)
    assert group <= 1 or group * numbers <= step


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_and_sums_in_float32(dtype, monkeypatch):
    limits(monkeypatch, step=90)
    inputs = [ops.cast(one, dtype) for one in draw(5, 30, 7, 6)]
    scores, *of_inputs = found(*inputs)
    assert keras.backend.standardize_dtype(recomputed.weighted_tanh(*inputs[:3]).dtype) == dtype
    # One rounding of the result, 2⁻⁸ of it at most, and none on the way.
    assert_close([scores, *of_inputs], expect(*(to_float64(one) for one in inputs)), 2**-8)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
@pytest.mark.parametrize("whole", [0, 250], ids=["steps", "either"])
def test_one_graph_of_unknown_sizes_takes_all(whole, jit_compile, monkeypatch):
    import tensorflow as tf

    limits(monkeypatch, whole, step=50)
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
def test_graph_of_unknown_sizes_takes_no_examples(monkeypatch):
    import tensorflow as tf

    limits(monkeypatch, whole=1, step=50)
    specs = [tf.TensorSpec((None, 5, 6)), tf.TensorSpec((None, 7, 6)), tf.TensorSpec((6,))]
    graph = tf.function(recomputed.weighted_tanh, input_signature=specs, autograph=False)
    assert graph(*draw(0, 5, 7, 6)[:3]).shape == (0, 5, 7)


@pytest.mark.skipif(BACKEND != "jax", reason="jax.jit")
def test_jit_of_jax_gives_scores_and_gradients(monkeypatch):
    import jax

    limits(monkeypatch, step=90)
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
def test_hidden_layer_is_never_whole_in_memory_forward_or_backward(shapes, monkeypatch):
    limits(monkeypatch, WHOLE - 1, STEP)
    sizes = sorted(math.prod(shape) for shape in shapes())
    assert sizes[-1] == max(STEP, math.prod(SHAPE[:3]))  # a step, or the scores
    assert len(sizes) > 50

    limits(monkeypatch, WHOLE, STEP)
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
def test_loop_is_there_where_the_size_wants_it(shape, whole, loops, monkeypatch):
    import tensorflow as tf

    limits(monkeypatch, whole, STEP)
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
