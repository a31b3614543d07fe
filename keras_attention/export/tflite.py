"""`to_tflite`: one file for LiteRT on phones and small machines, built-in ops only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from keras_attention.export import parity
from keras_attention.export.report import ExportError, ExportReport, check_target, publish, serving_options
from keras_attention.export.saved_model import describe

__all__ = ["QUANTIZATIONS", "to_tflite"]

QUANTIZATIONS = (None, "float16", "int8")


def to_tflite(
    model,
    path: str | os.PathLike,
    *,
    quantize: str | None = None,
    beam_size: int | None = None,
    length_penalty: float | None = None,
) -> ExportReport:
    """Writes a .tflite file with the signature `ids`: one input of any length, answered whole on the device.

    Of a model that writes text: `source` int32 (1, Tv), ended by the end id → with K = `beam_size` and T = the model's
    `max_length`, `ids` (1, K, T), `length` (1, K), `score` (1, K), `attention` (1, K, T, Tv). Of others what their
    `serving_functions` say.

    Args:
        model: a `TaskModel`.
        path: file to write, ending in .tflite.
        quantize: None for float32; "float16" for weights of half the size; "int8" for weights of a quarter, with
            activations quantised as they come (dynamic range).
        beam_size: int > 0; 1 is greedy, and the default.
        length_penalty: float; the model's own by default.

    Returns:
        `ExportReport`.

    Raises:
        ValueError: an unknown `quantize`, another suffix, or options of a search for a model that searches nothing.
        ExportError: the conversion fails, or the file, run by LiteRT in a fresh process, does not say what the model
            says (see `parity.LIMITS`). Nothing is written then.
        OSError: the folder of `path` is missing or cannot be written.
    """
    if quantize not in QUANTIZATIONS:
        raise ValueError(f"`quantize` must be None, 'float16' or 'int8'. Received {quantize!r}.")
    target = check_target(path, ".tflite")
    _require_litert()
    options = serving_options(model, beam_size=beam_size, length_penalty=length_penalty)
    function = model.serving_functions(batch_size=1, **options)["ids"]
    concrete = function.get_concrete_function()
    with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".export-") as folder:
        data = _convert(concrete, Path(folder, "frozen"), quantize)
        draft = Path(folder, target.name)
        draft.write_bytes(data)
        cases = parity.default_inputs(model, batch_size=1)
        checks = parity.check(model, "tflite", draft, quantize or "float32", function, cases)
        details = {
            "format": "tflite",
            "signatures": {"ids": describe(concrete)},
            **({"beam_size": options.get("beam_size", 1)} if model.generates else {}),
            "quantize": quantize,
            "checks": checks,
        }
        return ExportReport(target, publish(model, draft, target, details), len(data), checks)


def _require_litert():
    try:
        import ai_edge_litert  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "A TFLite export is checked with LiteRT before it is kept. "
            'Install it with `pip install "keras-attention-zoo[litert]"`.'
        ) from error


def _convert(concrete, folder: Path, quantize: str | None) -> bytes:
    """The bytes of the file. The graph is frozen first: a loop that closes over variables converts but does not run."""
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    names = sorted(concrete.structured_outputs)
    # A frozen function returns its outputs flat, in the order of the sorted keys.
    specs = concrete.structured_input_signature[0]

    @tf.function(input_signature=specs)
    def ids(*columns):
        return dict(zip(names, frozen(*columns), strict=True))

    module = tf.Module()
    module.ids = ids
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)  # nobody trains a TFLite file
    tf.saved_model.save(module, folder, signatures={"ids": ids}, options=options)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=["ids"])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if quantize is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        return converter.convert()
    except Exception as error:
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ExportError(f"TensorFlow's converter failed: {first}") from error
