"""Which methods of which layers are listened to, and what stands in for them meanwhile.

A method is replaced on the instance alone, where Python finds it before the class's, and taken away again afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings

import numpy as np

from keras_attention.inspection.eager import is_symbolic
from keras_attention.inspection.recorder import equal

__all__ = ["attention_layers", "listening"]

FLAG = "return_attention_scores"
_ABSENT = object()


def attention_layers(model):
    """The layers of a model, itself included, whose weights can be had; warns of those of Keras whose cannot."""
    layers = []
    for layer in model._flatten_layers():
        if _doors(layer):
            layers.append(layer)
        elif _is_keras_attention(layer):
            warnings.warn(
                f"The layer {layer.path or layer.name!r} ({type(layer).__name__}) is left out: its call takes no "
                f"`{FLAG}`. Give it one to have its maps.",
                stacklevel=3,
            )
    return layers


@contextlib.contextmanager
def listening(model, recorder):
    """A context in which the calls of the model's attention layers are recorded."""
    with contextlib.ExitStack() as stack:
        for layer in model._flatten_layers():
            for name, stand_in in [*_doors(layer), *_loop_doors(layer)]:
                method = stand_in(recorder, layer, getattr(layer, name))
                stack.enter_context(_replaced(layer, name, method))
            if getattr(layer, "_remat_mode", None) is not None:  # jax.checkpoint traces what it calls, always
                stack.enter_context(_replaced(layer, "_remat_mode", None))
        yield


@contextlib.contextmanager
def _replaced(instance, name, value):
    before = vars(instance).get(name, _ABSENT)
    object.__setattr__(instance, name, value)  # past Keras and its backends, which would track it
    try:
        yield
    finally:
        if before is _ABSENT:
            object.__delattr__(instance, name)
        else:
            object.__setattr__(instance, name, before)


def _doors(layer):
    """Pairs of the name of a method that has the weights and what makes its stand-in; none if there are no weights."""
    if _reads_fused(layer):
        return [("_compute_attention", _compute_attention)]
    doors = []
    if _takes_flag(layer) and (_is_known(layer) or not _holds_attention(layer)):
        doors.append(("call", _call))
    if _speaks_for_itself(layer) and hasattr(layer, "attend"):
        doors.append(("attend", _attend))
        if hasattr(layer, "align"):
            doors.append(("align", _align))
    return doors


def _loop_doors(layer):
    """As `_doors`, of a `keras.layers.RNN` with attention in its cell."""
    import keras

    if not isinstance(layer, keras.layers.RNN) or not _holds_attention(layer):
        return []
    doors = [("inner_loop", _inner_loop)]
    if hasattr(layer, "_maybe_config_dropout_masks"):
        doors.append(("_maybe_config_dropout_masks", _muted_method))
    return doors


def _reads_fused(layer):
    import keras

    own = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
    return isinstance(layer, own) and hasattr(layer, "_compute_attention")


def _is_keras_attention(layer):
    import keras

    own = keras.layers.Attention, keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention
    return isinstance(layer, own)  # AdditiveAttention is an Attention


def _holds_attention(layer):
    return any(map(_doors, layer._flatten_layers(include_self=False)))


def _is_known(layer):
    """Whether a layer is asked itself, whatever it holds."""
    return _is_keras_attention(layer) or _speaks_for_itself(layer)


def _speaks_for_itself(layer):
    """Whether a layer is of this library's or says that it follows its protocol."""
    ours = any(base.__module__.startswith("keras_attention.layers.") for base in type(layer).__mro__)
    return ours or hasattr(layer, "weights_axes")


def _takes_flag(layer):
    parameters = inspect.signature(layer.call).parameters.values()
    if any(parameter.name == FLAG for parameter in parameters):
        return True
    passes_on = any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    inherited = (inspect.signature(base.call).parameters for base in type(layer).__mro__[1:] if hasattr(base, "call"))
    return passes_on and _is_known(layer) and any(FLAG in parameters for parameters in inherited)


# What stands in for a method: function (recorder, layer, method) → function.


def _call(recorder, layer, method):
    """`call`, always asked for the weights, which are passed on only if the model asked."""
    signature = inspect.signature(method)

    @functools.wraps(method, updated=())
    def call(*args, **kwargs):
        if not recorder.hears(layer):
            return method(*args, **kwargs)
        if _drops_weights(layer, signature, args, kwargs):
            recorder.fail(
                layer,
                "gives its weights with dropout in training. Expected weights before it. Pass training=False, or set "
                "its `dropout` to 0.",
            )
            return method(*args, **kwargs)
        asked, args, kwargs = _ask(signature, args, kwargs)
        since = len(recorder.records)
        with recorder.inside(layer):
            outputs = method(*args, **kwargs)
        if not isinstance(outputs, (list, tuple)) or len(outputs) < 2:
            recorder.fail(layer, f"gave one output with {FLAG}=True. Expected (output, weights). Return both.")
            return outputs
        # Ours return nothing but weights after the output; others may return more, a cache say.
        count = len(outputs) if _speaks_for_itself(layer) else 2
        weights, more = outputs[1:count], outputs[count:]
        recorder.add(layer, weights[0] if len(weights) == 1 else weights, since)
        if asked:
            return outputs
        return (outputs[0], *more) if more else outputs[0]

    return call


def _ask(signature, args, kwargs):
    """Whether the caller asked for the weights, and the arguments with which they are asked for."""
    if FLAG not in signature.parameters:
        return kwargs.get(FLAG, False), args, {**kwargs, FLAG: True}
    bound = signature.bind(*args, **kwargs)
    asked = bound.arguments.get(FLAG, signature.parameters[FLAG].default)
    bound.arguments[FLAG] = True
    return asked, bound.args, bound.kwargs


def _drops_weights(layer, signature, args, kwargs):
    """Whether the weights that `keras.layers.Attention` would return are those after dropout."""
    import keras

    if not isinstance(layer, keras.layers.Attention) or not layer.dropout:
        return False
    return bool(signature.bind(*args, **kwargs).arguments.get("training", kwargs.get("training")))


def _attend(recorder, layer, method):
    """`attend`, one step: context, weights, state."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def attend(*args, **kwargs):
        if not recorder.hears(layer, is_step=True):
            return method(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        since = len(recorder.records)
        with recorder.inside(layer):
            begins = _is_first(layer, given.get("prepared"), given.get("state"))
            outputs = method(*args, **kwargs)
        keys = given.get("prepared", given.get("state"))  # of self-attention the past is all the state
        recorder.add_step(layer, outputs[1], keys, begins, since)
        return outputs

    return attend


def _is_first(layer, prepared, state):
    """Whether a state is that of the first step. A layer without a state does not say."""
    from keras import tree

    if prepared is None or not tree.flatten(state) or any(map(is_symbolic, tree.flatten((prepared, state)))):
        return False
    return equal(layer.initial_state(prepared), state)


def _align(recorder, layer, method):
    """`align`, which a decoder may call for all steps at once: weights."""

    @functools.wraps(method)
    def align(*args, **kwargs):
        if not recorder.hears(layer):
            return method(*args, **kwargs)
        since = len(recorder.records)
        with recorder.inside(layer):
            weights = method(*args, **kwargs)
        recorder.add(layer, weights, since)
        return weights

    return align


def _compute_attention(recorder, layer, method):
    """The part of Keras' multi-head layers that makes weights and reads; where it fuses both, there are no weights."""

    @functools.wraps(method)
    def compute(query, key, value, *args, **kwargs):
        outputs = method(query, key, value, *args, **kwargs)
        if recorder.hears(layer):
            weights = outputs[1]
            if weights is None:
                weights = _weights_by_reading(method, query, key, value, *args, **kwargs)
            recorder.add(layer, _one_axis_a_side(weights, getattr(layer, "attention_axes", None)))
        return outputs

    return compute


def _weights_by_reading(compute, query, key, value, *args, **kwargs):
    """The weights of a reading that returns none: what it reads from the unit vectors, which are the weights.

    As many at a time as the values are wide, so that a kernel that takes the values takes them too.
    query (B, Tq, H, D), key (B, Tv, H, D), value (B, Tv, H, Dv) → weights (B, H, Tq, Tv).
    """
    from keras import ops

    length, width = value.shape[1], value.shape[-1]
    if length is None:  # in a graph; the recorder says so
        return value
    units = np.eye(length, -(-length // width) * width, dtype="float32")
    blocks = []
    for start in range(0, units.shape[1], width):
        block = ops.convert_to_tensor(units[None, :, None, start : start + width], dtype=value.dtype)
        blocks.append(compute(query, key, ops.broadcast_to(block, ops.shape(value)), *args, **kwargs)[0])
    return ops.transpose(ops.concatenate(blocks, axis=-1)[..., :length], (0, 2, 1, 3))


def _one_axis_a_side(weights, attention_axes):
    """Attention over several axes, (…, T₁ … Tₙ, S₁ … Sₙ) → (…, Tq, Tv), last axis fastest on both sides."""
    from keras import ops

    count = len(attention_axes or (1,))
    if count == 1:
        return weights
    shape = tuple(weights.shape)
    lead, queries, values = shape[: -2 * count], shape[-2 * count : -count], shape[-count:]
    return ops.reshape(weights, (*lead, int(np.prod(queries)), int(np.prod(values))))


def _inner_loop(recorder, layer, method):
    """The loop of a `keras.layers.RNN`, without the steps that only find out shapes, which come first."""
    from keras import tree

    @functools.wraps(method)
    def inner_loop(sequences, *args, **kwargs):
        if not recorder.hears(layer):
            return method(sequences, *args, **kwargs)
        starts = []
        with recorder.loop(), _replaced(layer.cell, "call", _noting(starts, recorder, layer.cell.call)):
            outputs = method(sequences, *args, **kwargs)
        extra = len(starts) - tree.flatten(sequences)[0].shape[1]
        if extra > 0:
            del recorder.records[starts[0] : starts[extra]]
        return outputs

    return inner_loop


def _noting(starts, recorder, method):
    @functools.wraps(method)
    def call(*args, **kwargs):
        starts.append(len(recorder.records))
        return method(*args, **kwargs)

    return call


def _muted_method(recorder, layer, method):
    @functools.wraps(method)
    def silent(*args, **kwargs):
        if not recorder.hears(layer):
            return method(*args, **kwargs)
        with recorder.muted():
            return method(*args, **kwargs)

    return silent
