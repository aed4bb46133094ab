"""The ONNX front end: load safely, simplify in NumPy, import into Relax.

:func:`from_onnx` does it all; the steps stand for themselves too.  TVM is imported
when a model is loaded, not when this package is.
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.importer import from_onnx
from tvm_hetero.frontends.onnx.load import check_model, load_model
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.randomize import randomize_weights
from tvm_hetero.frontends.onnx.sample_models import light_models
from tvm_hetero.frontends.onnx.simplify import simplify
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES

__all__ = [
    "INPUT_NAMES",
    "MODEL_NAME",
    "OUTPUT_NAMES",
    "OnnxLimits",
    "check_model",
    "from_onnx",
    "light_models",
    "load_model",
    "randomize_weights",
    "simplify",
]
