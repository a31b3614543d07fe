"""Runs an exported file on given inputs: alone, in a process of its own, without this library's models.

    python -m keras_attention.export.runner FORMAT PATH SIGNATURE INPUTS OUTPUTS

`INPUTS` is a .npz whose entries are `<case>/<argument>`; `OUTPUTS` gets `<case>/<output>`. Strings travel as UTF-8
bytes.
"""

from __future__ import annotations

import contextlib
import os
import sys

import numpy as np

__all__ = ["main", "run_saved_model", "run_tflite"]


def run_saved_model(path, signature, cases):
    """cases {name: {argument: array}} → {name: {output: array}}, by TensorFlow."""
    import tensorflow as tf

    with contextlib.suppress(ImportError):  # a SavedModel with text names its ops; one with ids alone does without
        import tensorflow_text  # noqa: F401
    function = tf.saved_model.load(path).signatures[signature]
    found = {}
    for name, arguments in cases.items():
        outputs = function(**{key: tf.constant(value) for key, value in arguments.items()})
        found[name] = {key: value.numpy() for key, value in outputs.items()}
    return found


def run_tflite(path, signature, cases, num_threads=None):
    """cases {name: {argument: array}} → {name: {output: array}}, by LiteRT."""
    runner = tflite_runner(path, signature, num_threads)
    return {
        name: {key: np.array(value) for key, value in runner(**arguments).items()} for name, arguments in cases.items()
    }


def tflite_runner(path, signature, num_threads=None):
    """The LiteRT function of one signature of a file."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise ImportError(
            'Running a TFLite file needs ai-edge-litert. Install it with `pip install "keras-attention-zoo[litert]"`.'
        ) from error
    return Interpreter(model_path=str(path), num_threads=num_threads).get_signature_runner(signature)


FORMATS = {"saved_model": run_saved_model, "tflite": run_tflite}


def main(arguments=None):
    kind, path, signature, inputs, outputs = arguments or sys.argv[1:]
    cases: dict[str, dict] = {}
    with np.load(inputs) as archive:
        for key in archive.files:
            case, name = key.split("/")
            cases.setdefault(case, {})[name] = archive[key]
    found = FORMATS[kind](path, signature, cases)
    flat = {f"{case}/{name}": _plain(value) for case, outputs_of in found.items() for name, value in outputs_of.items()}
    with open(outputs, "wb") as file:
        np.savez(file, **flat)


def _plain(value):
    """Strings as fixed-width bytes: an array of objects would need pickle."""
    return value.astype("S") if value.dtype == object else value


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
