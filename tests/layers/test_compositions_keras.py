"""Every layer with a call of its own inside Keras: graphs, saved models, symbolic shapes, configs, TimeDistributed."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_attention
from tests.backends import one_backend, tensorflow_only, to_float64
from tests.layers import test_compositions as rules
from tests.layers import test_compositions_gradients as gradient_rules
from tests.layers.cases.mean_pooling import CASES as MEAN
from tests.layers.compositions import (
    CASES,
    Recorder,
    assert_close,
    built,
    call,
    each_case,
    feed,
    float_and_int_axes,
    run,
    symbolic,
    unknown,
)
from tests.layers.conformance import give_values

ROOT = Path(keras_attention.__file__).resolve().parents[1]


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
@each_case
def test_graph_and_xla_of_unknown_sizes_equal_eager(case, jit_compile):
    import tensorflow as tf

    case.needs("xla" if jit_compile else "graph")
    layer = built(case)
    arrays = {
        name: tf.TensorSpec(unknown(axes), "int32" if name in case.ints else "float32", name=name)
        for name, axes in float_and_int_axes(case).items()
    }
    masks = {name: tf.TensorSpec(unknown(axes), "bool", name=f"mask_{name}") for name, axes in case.masks.items()}

    @tf.function(jit_compile=jit_compile, input_signature=[arrays, masks])
    def compiled(arrays, masks):
        return case.call(layer, arrays, masks)

    sizes = [{}, {size: length + 1 for size, length in case.sizes.items()}]
    for longer in sizes[:1] if jit_compile else sizes:  # XLA compiles again for each
        arrays, masks = case.draw(**longer), case.draw_masks(**longer)
        expected = run(case, layer, arrays, masks)
        got = compiled(*({name: tf.constant(one) for name, one in group.items()} for group in (arrays, masks)))
        assert_close({name: to_float64(one) for name, one in got.items()}, expected, 1e-6)


@one_backend
@each_case
def test_config_makes_an_equal_layer(case):
    arrays, masks = case.draw(), case.draw_masks()
    layer = built(case, name="looked_at", dtype="mixed_bfloat16")
    config = json.loads(json.dumps(layer.get_config()))
    twin = case.layer.from_config(config)
    assert json.loads(json.dumps(twin.get_config())) == config
    assert twin.dtype_policy.name == "mixed_bfloat16" and twin.name == "looked_at"
    run(case, twin, arrays)
    assert [one.path for one in twin.weights] == [one.path for one in layer.weights]
    twin.set_weights(layer.get_weights())
    for name, expected in run(case, layer, arrays, masks).items():
        np.testing.assert_array_equal(run(case, twin, arrays, masks)[name], expected)


LOAD_AND_RUN = """
import json, os, sys
if os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None
import numpy as np
import keras
import keras_attention.layers

folder = sys.argv[1]
inputs = dict(np.load(f"{folder}/inputs.npz"))
for name in json.load(open(f"{folder}/names.json")):
    model = keras.saving.load_model(f"{folder}/{name}.keras")
    feed = {key.split(".")[1]: value for key, value in inputs.items() if key.split(".")[0] == name}
    found = {f"whole.{key}": value for key, value in model(feed).items()}
    for weight in model.weights:
        weight.assign(keras.ops.zeros_like(weight.value))
    model.load_weights(f"{folder}/{name}.weights.h5")
    found |= {f"weights.{key}": value for key, value in model(feed).items()}
    np.savez(f"{folder}/{name}.npz", **{key: keras.ops.convert_to_numpy(value) for key, value in found.items()})
"""


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory):
    """All cases saved here and run in one fresh process: case → (outputs here, outputs there)."""
    folder = tmp_path_factory.mktemp("saved")
    here, given = {}, {}
    for seed, case in enumerate(CASES):
        inputs, outputs = symbolic(case, case.make())
        model = keras.Model(inputs, outputs)
        give_values(model, seed)
        fed = feed(case.draw(), case.draw_masks())
        here[case.name] = {name: to_float64(one) for name, one in model(fed).items()}
        given |= {f"{case.name}.{name}": array for name, array in fed.items()}
        model.save(folder / f"{case.name}.keras")
        model.save_weights(folder / f"{case.name}.weights.h5")
    np.savez(folder / "inputs.npz", **given)
    (folder / "names.json").write_text(json.dumps(list(here)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": keras.backend.backend()}
    command = [sys.executable, "-c", LOAD_AND_RUN, str(folder)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name: (outputs, dict(np.load(folder / f"{name}.npz"))) for name, outputs in here.items()}


@each_case
def test_saved_model_and_saved_weights_are_equal_in_a_fresh_process(case, reloaded):
    here, there = reloaded[case.name]
    assert here.keys() == {*case.outputs, *case.weights}
    assert there.keys() == {f"{how}.{name}" for how in ("whole", "weights") for name in here}
    for key, found in there.items():
        np.testing.assert_array_equal(found.astype("float64"), here[key.split(".")[1]], err_msg=key)


@one_backend
@each_case
def test_symbolic_shapes_are_those_of_the_outputs(case):
    layer = case.make()
    inputs, outputs = symbolic(case, layer)
    axes = {**case.outputs, **case.weights}
    for name, one in outputs.items():
        assert one.shape == unknown(axes[name]), name
    actual = keras.Model(inputs, outputs)(feed(case.draw(), case.draw_masks()))
    for name, one in actual.items():
        assert tuple(one.shape) == case.shape(axes[name]), name
        assert keras.backend.standardize_dtype(one.dtype) == outputs[name].dtype, name


@one_backend
@each_case
def test_compute_output_shape_is_that_of_the_call(case):
    case.needs("compute_output_shape")
    layer = Recorder(built(case))
    call(case, layer, case.draw())
    given = {name: one for name, one in layer.arguments.items() if name != "return_attention_scores"}
    expected = keras.tree.map_structure(lambda one: tuple(one.shape), layer.layer(**given))
    tensors = [(name, one) for name, one in given.items() if name != "mask" and holds_tensors(one)]
    shapes = {f"{name}_shape": keras.tree.map_structure(lambda one: tuple(one.shape), one) for name, one in tensors}
    taken = inspect.signature(layer.compute_output_shape).parameters
    if len(taken) == 1:  # as Keras has it: the shapes of the first argument, whatever their name
        found = layer.compute_output_shape(next(iter(shapes.values())))
    else:
        found = layer.compute_output_shape(**{name: shape for name, shape in shapes.items() if name in taken})
    assert found == expected


def holds_tensors(argument):
    return any(hasattr(one, "shape") for one in keras.tree.flatten(argument))


@one_backend
@each_case
def test_time_distributed_equals_each_slice(case):
    case.needs("TimeDistributed")
    layer = Recorder(built(case))
    call(case, layer, case.draw())
    given = next(iter(layer.arguments.values()))
    if not hasattr(given, "shape"):
        pytest.skip("TimeDistributed takes one tensor, and this layer several")
    times = [to_float64(given) * sign for sign in (1, -1, 0.5)]
    together = keras.layers.TimeDistributed(layer.layer)(ops.cast(np.stack(times, axis=1), given.dtype))
    for t, one in enumerate(times):
        alone = layer.layer(ops.cast(one, given.dtype))
        np.testing.assert_allclose(to_float64(together[:, t]), to_float64(alone), rtol=1e-5, atol=1e-6)


class Careless(keras.layers.Layer):
    """A mean over places that heeds the mask in its weights only: padding takes part in the sum."""

    supports_masking = True

    def call(self, inputs, mask=None, return_attention_scores=False, training=None):
        keep = ops.ones_like(inputs[..., 0]) if mask is None else ops.cast(mask, inputs.dtype)
        weights = keep / ops.maximum(ops.sum(keep, axis=-1, keepdims=True), 1)
        return ops.mean(inputs, axis=1), weights


@pytest.mark.parametrize(
    "rule",
    [
        rules.test_values_are_those_of_the_paper,
        rules.test_changed_padding_changes_nothing,
        rules.test_more_padding_changes_nothing,
        gradient_rules.test_padding_gets_no_gradient_and_changes_none,
        gradient_rules.test_rows_with_nothing_to_keep_pass_no_gradient_and_no_nan,
    ],
)
def test_the_rules_find_a_layer_that_breaks_them(rule):
    with pytest.raises(AssertionError):
        rule(replace(MEAN[0], layer=Careless))
