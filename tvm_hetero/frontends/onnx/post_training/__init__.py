"""Post-training quantisation: of a float model one of bytes, by ONNX Runtime's own tools.

    prepare      the model as its quantiser likes it: opset 13, folded, every node named; and which
                 nodes our kernels for bytes would take (`quantizable_nodes`)
    quantize     the nodes that are named, quantised from calibration inputs, in a child
    nodes_alone  each kind of such nodes by itself, in float32 and in bytes: to be measured

Which nodes are worth it is decided where kernels are measured (`tvm_hetero.pipeline.int8_module`).
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.post_training.prepare import (
    is_quantized,
    prepare_model,
    quantizable_nodes,
)
from tvm_hetero.frontends.onnx.post_training.quantize import (
    float_outputs,
    quantize_model,
    refuse_large,
    require_quantizer,
)

__all__ = [
    "float_outputs",
    "is_quantized",
    "prepare_model",
    "quantizable_nodes",
    "quantize_model",
    "refuse_large",
    "require_quantizer",
]
