"""What the call leaves behind: nothing."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import attention_maps
from keras_attention.layers import BahdanauAttention, CoverageAttention, LocalAttention, LuongAttention
from tests.inspection.models import WIDTH, Calling, Kept, array, draw, names, weights_of

INPUTS = draw(2, 5, WIDTH)
OURS = {
    "bahdanau": lambda: BahdanauAttention(4),
    "luong": lambda: LuongAttention("general"),
    "local": lambda: LocalAttention(1, score="general"),
    "coverage": lambda: CoverageAttention(4),
}
KERAS = {
    "attention": lambda: keras.layers.Attention(),
    "additive": lambda: keras.layers.AdditiveAttention(),
    "multi_head": lambda: keras.layers.MultiHeadAttention(2, 4),
    "grouped_query": lambda: keras.layers.GroupQueryAttention(4, 4, 2),
}


def model_of(layer):
    """Two calls of the layer, the second on what the first read; `Kept` sees what comes out."""
    inputs = keras.Input((5, WIDTH))
    several = isinstance(layer, (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention))
    look = layer if several else lambda query, value: layer([query, value])
    return keras.Model(inputs, Kept(name="kept")(look(look(inputs, inputs), inputs)))


@pytest.mark.parametrize("name", [*OURS, *KERAS])
def test_the_model_computes_what_it_always_does(name):
    model = model_of({**OURS, **KERAS}[name]())
    before, inside = array(model(INPUTS)), attention_maps(model, INPUTS)
    during = model.get_layer("kept").seen[-1]
    np.testing.assert_allclose(during, before, atol=1e-6 if name in KERAS else 0, rtol=0)
    assert len(inside[0]) == 2


def everything(model):
    """What every layer of a model holds."""
    return [dict(vars(layer)) for layer in model._flatten_layers()]


@pytest.mark.parametrize("name", [*OURS, *KERAS])
def test_nothing_of_the_model_changes(name):
    layer = {**OURS, **KERAS}[name]()
    model = model_of(layer)
    model(INPUTS)
    values, config, methods = model.get_weights(), model.get_config(), dict(vars(type(layer)))
    held = [set(one) for one in everything(model)]
    attention_maps(model, INPUTS)
    assert [set(one) for one in everything(model)] == held
    assert model.get_config() == config
    assert dict(vars(type(layer))) == methods
    for one, other in zip(model.get_weights(), values, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_method_that_the_instance_had_is_there_again():
    layer = LuongAttention()
    layer.build([INPUTS.shape, INPUTS.shape])
    call = layer.call

    def mine(*args, **kwargs):
        return call(*args, **kwargs)

    object.__setattr__(layer, "call", mine)
    attention_maps(layer, [INPUTS, INPUTS])
    assert vars(layer)["call"] is mine


def test_an_exception_of_the_model_passes_and_leaves_nothing():
    is_broken = [True]

    def call(look, x):
        read = look([x, x])
        if is_broken[0]:
            raise ZeroDivisionError("in the model")
        return read

    layer = LuongAttention()
    layer.build([INPUTS.shape, INPUTS.shape])
    model = Calling(call, layer)
    model.built = True
    held = [set(one) for one in everything(model)]
    with pytest.raises(ZeroDivisionError, match="in the model"):
        attention_maps(model, INPUTS)
    assert [set(one) for one in everything(model)] == held
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        assert not tf.config.functions_run_eagerly()
    is_broken[0] = False
    assert model(INPUTS).shape == INPUTS.shape
    assert len(attention_maps(model, INPUTS)) == 2


def test_predict_is_compiled_as_before_and_gives_the_same():
    calls = []

    class Counting(keras.layers.Layer):
        def call(self, inputs):
            calls.append(0)
            return inputs

    inputs = keras.Input((5, WIDTH))
    look = keras.layers.MultiHeadAttention(2, 4)
    model = keras.Model(inputs, Counting()(look(inputs, inputs)))
    before, function = model.predict(INPUTS, verbose=0), model.predict_function
    attention_maps(model, INPUTS)
    calls.clear()
    np.testing.assert_array_equal(model.predict(INPUTS, verbose=0), before)
    assert model.predict_function is function
    assert len(calls) == (1 if keras.backend.backend() == "torch" else 0)  # not traced again


def test_training_goes_on_after_it():
    inputs = keras.Input((5, WIDTH))
    model = keras.Model(inputs, LuongAttention("general")([inputs, inputs]))
    model.compile("sgd", "mse")
    model.fit(INPUTS, INPUTS, verbose=0)
    attention_maps(model, INPUTS, training=True)
    before = model.get_weights()
    model.fit(INPUTS, INPUTS, verbose=0)
    assert any((one != other).any() for one, other in zip(model.get_weights(), before, strict=True))


def test_training_is_passed_to_the_model():
    seen = []

    class Asking(keras.layers.Layer):
        def call(self, inputs, training=None):
            seen.append(training)
            return inputs

    model = Calling(lambda look, ask, x: ask(look([x, x])), LuongAttention(), Asking())
    model(INPUTS)
    seen.clear()
    attention_maps(model, INPUTS)
    attention_maps(model, INPUTS, training=True)
    assert seen == [False, True]


def test_what_another_thread_does_is_not_recorded():
    layer = LuongAttention(name="look")
    layer.build([INPUTS.shape, INPUTS.shape])
    outputs = []

    def call(look, x):
        other = threading.Thread(target=lambda: outputs.append(look([x, x])))
        other.start()
        other.join()
        return look([x, x])

    model = Calling(call, layer)
    model.built = True
    assert names(attention_maps(model, INPUTS)) == ["look"]
    assert outputs[0].shape == INPUTS.shape


def test_a_call_within_a_call_has_its_own_maps():
    layer, inner = LuongAttention(name="look"), []
    layer.build([INPUTS.shape, INPUTS.shape])

    def call(look, x):
        inner.append(attention_maps(look, [x, x]))
        return look([x, x])

    model = Calling(call, layer)
    model.built = True
    maps = attention_maps(model, INPUTS)
    np.testing.assert_array_equal(weights_of(maps), weights_of(inner[0]))
    assert "call" not in vars(layer)


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="`model` is a function. Expected a keras.Model or keras.layers.Layer of Keras"):
        attention_maps(lambda x: x, INPUTS)


def test_a_model_without_attention_is_refused():
    with pytest.raises(ValueError, match="The model 'plain' has no attention layer. Expected one of Keras'"):
        attention_maps(keras.Sequential([keras.layers.Dense(3)], name="plain"), INPUTS)


def test_a_model_that_does_not_attend_is_refused():
    layer = LuongAttention(name="look")
    layer.build([INPUTS.shape, INPUTS.shape])
    with pytest.raises(ValueError, match=r"The model called none of its attention layers \('look'\)"):
        attention_maps(Calling(lambda look, x: x, layer), INPUTS)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda x: x, r"gave one output with return_attention_scores=True. Expected \(output, weights\)"),
        (lambda x: (x, None), "gave no weights. Expected some"),
        (lambda x: (x, x[:, 0, 0]), r"gave weights of shape \(2,\). Expected the batch first"),
        (lambda x: (x, ops.abs(x) + 2), "The layer 'odd' gave no attention map. `weights` holds 30 values outside"),
    ],
)
def test_weights_that_are_none_are_refused(returned, message):
    class Odd(keras.layers.Layer):
        def call(self, inputs, return_attention_scores=False):
            return returned(inputs) if return_attention_scores else inputs

    with pytest.raises(ValueError, match=message):
        attention_maps(Calling(lambda odd, x: odd(x), Odd(name="odd")), INPUTS)
