"""`attention_maps`: one call of a model, listened to."""

from __future__ import annotations

import threading

from keras_attention.inspection.eager import run_eagerly
from keras_attention.inspection.example_maps import example_maps
from keras_attention.inspection.interception import attention_layers, listening
from keras_attention.inspection.recorder import Recorder
from keras_attention.maps import AttentionMap

__all__ = ["attention_maps"]

# One call at a time: two would put their wrappers around each other's and take them away in the wrong order.
_ONE_AT_A_TIME = threading.RLock()


def attention_maps(model, inputs, rows=None, columns=None, training=False) -> list[list[AttentionMap]]:
    """Calls a Keras model once and returns what its attention layers looked at in that call.

    Every layer inside the model is found, however deep: in nested models, wrappers, cells, layers of layers. Asked are
    Keras' own (`Attention`, `AdditiveAttention`, `MultiHeadAttention`, `GroupQueryAttention`), those of this library,
    and any whose `call` takes `return_attention_scores`. The model is neither rebuilt nor changed, and computes what
    it always does. On TensorFlow and JAX it runs eagerly for this one call, compiled functions and loops included.

    - The weights are those that the layer read with, given the masks that the model passed. Padding is in them: cut it
      off with labels. Keras' `MultiHeadAttention` and `GroupQueryAttention` do not compute weights where nobody asks
      for them; theirs are read from what the layer then does compute, so that queries with nothing to see have the
      uniform weights that it gave them, and 0 only where the model itself asked for the weights.
    - A layer of this library that holds others, as `HierarchicalAttention`, is asked, and what it reports is not told
      again by those. Any other layer that holds attention layers is not asked itself; they are.
    - `attend`, one step of a decoder, gives one row. All steps of a layer over the same keys make one map, in the order
      of the steps, masked ones included; a loop of `keras.layers.RNN`, and the state of a first step, begin a new one.
    - Where a model folds an axis into the batch, as the sentences of a document, the layer sees B · k rows. They are
      taken as k parts of each example, in order: a leading axis "part", or the rows where the weights have none.

    The call is one like any other: what a model changes in a call, such as the state of a stateful RNN, it changes
    here too. A model with layers that are not built is called once more before, to build them. Other threads may use
    the model meanwhile and are not recorded; calls of `attention_maps` wait for each other.

    Args:
        model: a `keras.Model`, functional, sequential or subclassed, or a `keras.layers.Layer`.
        inputs: what `model(inputs)` takes: arrays or tensors, or lists or dicts of them, B examples.
        rows: labels of what asks: a list of B lists of tokens for all maps that have rows, or a dict from the name of a
            map or layer to such a list. Default: positions. Fewer labels than weights cut the map: leave padding out.
        columns: labels of what is looked at, as `rows`.
        training: bool. Passed to the model.

    Returns:
        a list of B lists, one for each example, each with the same maps in the order of the calls. The `name` of a map
        is the layer's, or its path where two layers share a name; with `[call=1]` where it was called several times,
        and `/part` where it gives several weights. `layer` is its path, `kind` its class ("multi_head_attention"),
        `weights` (rows, columns), one row where there is no axis of queries, and with leading axes: "head", or
        "channel" where its score has channels, or as the layer's `weights_axes` says, a tuple of names, or a dict of
        them from the names of its several weights.

    Raises:
        TypeError: `model` is no Keras layer, or labels are not str.
        ValueError: the model has no attention layer, or called none; a layer gave no weights, or gave them only in a
            graph, or Keras' `Attention` gave them with dropout in training; labels do not fit.

    Example:
    >>> words = keras.Input((5, 8))
    >>> model = keras.Model(words, keras.layers.MultiHeadAttention(num_heads=2, key_dim=4, name="mha")(words, words))
    >>> maps = attention_maps(model, keras.random.normal((3, 5, 8)))
    >>> len(maps), maps[0]
    (3, [AttentionMap('mha', layer='mha', kind='multi_head_attention', (2, 5, 5), axes=('head',))])
    """
    import keras

    if not isinstance(model, keras.layers.Layer):
        raise TypeError(
            f"`model` is a {type(model).__name__}. Expected a keras.Model or keras.layers.Layer of Keras 3. "
            f"Pass the model itself, not a function or its outputs."
        )
    with _ONE_AT_A_TIME:
        # Keras builds by a symbolic call of `call`, which has no weights to show.
        if not all(layer.built for layer in model._flatten_layers()):
            model(inputs)
        layers = attention_layers(model)
        if not layers:
            raise ValueError(
                f"The model {model.name!r} has no attention layer. Expected one of Keras' or of keras_attention, or "
                f"one whose call takes `return_attention_scores`. Check that the model holds it as an attribute."
            )
        recorder = Recorder()
        _call(model, inputs, training, recorder)
    if not recorder.records:
        names = ", ".join(repr(layer.name) for layer in layers)
        raise ValueError(
            f"The model called none of its attention layers ({names}). Expected at least one call for these inputs. "
            f"Pass inputs for which it attends."
        )
    return example_maps(recorder.calls(), _batch_size(inputs), rows, columns)


def _call(model, inputs, training, recorder):
    try:
        with run_eagerly(), listening(model, recorder):
            model(inputs, training=training)
    except Exception as error:
        if recorder.problems:  # they say why; what went wrong afterwards does not
            raise ValueError(recorder.problem_text()) from error
        raise
    if recorder.problems:
        raise ValueError(recorder.problem_text())


def _batch_size(inputs):
    """B, of the first input that has an axis; None where none has."""
    from keras import tree

    shapes = [tuple(leaf.shape) for leaf in tree.flatten(inputs) if getattr(leaf, "shape", ())]
    return shapes[0][0] if shapes else None
