"""What every attention layer makes of the same numbers on the backend of this process, with all gradients.

    KERAS_BACKEND=… python -m tests.backend_program OUTPUTS

Writes a .npz whose entries are `<name of the row or case>/<what>`.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None

import numpy as np
from keras import ops

from tests.backends import results_and_gradients
from tests.layers.compositions import CASES, built, call, reading_of
from tests.layers.conformance import TABLE, masks


def of_row(row):
    """Context, weights, and the gradients of `Σ r · context`."""
    layer, inputs = row.build(), row.draw()
    query_mask, value_mask, attention_mask = (ops.convert_to_tensor(mask) for mask in masks())

    def function(query, value, key):
        context, weights = layer(
            [query, value, key],
            mask=[query_mask, value_mask],
            attention_mask=attention_mask,
            return_attention_scores=True,
        )
        directions = np.random.default_rng(7).normal(size=context.shape)
        total = ops.sum(context * ops.convert_to_tensor(directions, dtype=context.dtype))
        return total, {"context": context, "weights": weights}

    results, of_inputs, of_weights = results_and_gradients(function, inputs, layer.trainable_variables, compiled=True)
    return named(results, dict(zip(("query", "value", "key"), of_inputs, strict=True)), layer, of_weights)


def of_case(case):
    """Outputs, weights, and the gradients of `reading`."""
    layer, arrays, given = built(case), case.draw(), case.draw_masks()
    ids = {name: arrays[name] for name in case.ints}
    read = reading_of(case, given)

    def function(*floats):
        found = call(case, layer, {**dict(zip(case.arrays, floats, strict=True)), **ids}, given)
        return read(found), found

    floats = [arrays[name] for name in case.arrays]
    results, of_arrays, of_weights = results_and_gradients(function, floats, layer.trainable_variables, compiled=True)
    return named(results, dict(zip(case.arrays, of_arrays, strict=True)), layer, of_weights)


def named(results, of_inputs, layer, of_weights):
    """Everything by what it is; weights by their place among those of the layer, and their own name."""
    weights = [f"{place} {one.name}" for place, one in enumerate(layer.trainable_variables)]
    return {
        **results,
        **{f"gradient of {name}": one for name, one in of_inputs.items()},
        **{f"gradient of weight {name}": one for name, one in zip(weights, of_weights, strict=True)},
    }


def main(outputs):
    found = {row.name: of_row(row) for row in TABLE} | {case.name: of_case(case) for case in CASES}
    flat = {f"{name}/{what}": array for name, one in found.items() for what, array in one.items()}
    with open(outputs, "wb") as file:
        np.savez(file, **flat)


if __name__ == "__main__":
    main(sys.argv[1])
