"""Any function of named tensors as a TFLite and as an ONNX file, and what those make of their inputs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

ONNX_OPSET = 18


@dataclass(frozen=True)
class Exportable:
    """A graph to export.

    Attributes:
        function: tensors by name → tensors by name.
        axes: name → axes of each input; a str is the name of a size, "batch" the first.
        dtypes: name → dtype of each input.
    """

    function: object
    axes: dict
    dtypes: dict

    def specs(self, sizes):
        """Of the inputs; what `sizes` does not name is unknown."""
        import tensorflow as tf

        shapes = {
            name: [sizes.get(axis) if isinstance(axis, str) else axis for axis in axes]
            for name, axes in self.axes.items()
        }
        return [tf.TensorSpec(shape, self.dtypes[name], name=name) for name, shape in shapes.items()]

    def traced(self, sizes):
        """A `tf.function` of positional tensors."""
        import tensorflow as tf

        @tf.function(input_signature=self.specs(sizes), autograph=False)
        def graph(*tensors):
            return self.function(dict(zip(self.axes, tensors, strict=True)))

        return graph


def to_tflite(exportable, folder, sizes) -> bytes:
    """A file of built-in operations alone; sizes by name, others may be any. The graph is frozen first."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    concrete = exportable.traced(sizes).get_concrete_function()
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    names = sorted(concrete.structured_outputs)  # a frozen function returns them flat, in this order

    @tf.function(input_signature=exportable.specs(sizes), autograph=False)
    def serving_default(*tensors):
        return dict(zip(names, frozen(*tensors), strict=True))

    module = tf.Module()
    module.serving_default = serving_default
    # A frozen graph has lost what custom gradients take from the one that it was made of.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, folder, signatures={"serving_default": serving_default}, options=options)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=["serving_default"])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    return converter.convert()


def run_tflite(data: bytes, feeds):
    """What LiteRT makes of each of `feeds`, arrays by name."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner("serving_default")
    return [{name: np.array(one) for name, one in runner(**feed).items()} for feed in feeds]


def to_onnx(exportable) -> bytes:
    """A file for any number of examples of any lengths."""
    import tf2onnx

    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    specs = exportable.specs({})
    model, _ = tf2onnx.convert.from_function(exportable.traced({}), input_signature=specs, opset=ONNX_OPSET)
    return model.SerializeToString()


def run_onnx(data: bytes, feeds):
    """What onnxruntime makes of each of `feeds`, arrays by name."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return [dict(zip(names, session.run(None, feed), strict=True)) for feed in feeds]
