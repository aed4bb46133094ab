"""Sums of float16 in float32, and functions that only it has.

A sum of many float16 numbers loses digits with each addition, and passes 65504 early.  ONNX Runtime
has no kernels of float16 on a CPU: it casts operands to float32 and results back.  So do these.
Neither has LLVM code for inverse trigonometric and hyperbolic functions of float16.
"""

from __future__ import annotations

from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites(
    "Softmax",
    "LogSoftmax",
    "ReduceSum",
    "ReduceProd",
    "GlobalAveragePool",
    "InstanceNormalization",
    "GroupNormalization",
    "Softplus",
    "Asin",
    "Acos",
    "Atan",
    "Asinh",
    "Acosh",
)
def rewrite_wide(r: Rewriting) -> bool:
    """Compute in float32, and give the result in float16."""
    if r.element_type(r.inputs[0]) != TensorProto.FLOAT16:
        return False
    operands = [
        r.add("Cast", [name], to=TensorProto.FLOAT) if _is_half(r, name) else name
        for name in r.inputs
    ]
    given = {a.name: r.attribute(a.name) for a in r.node.attribute}
    wide = r.add(r.node.op_type, operands, **given)
    r.add("Cast", [wide], [r.outputs[0]], to=TensorProto.FLOAT16)
    return True


def _is_half(r: Rewriting, name: str) -> bool:
    return bool(name) and r.element_type(name) == TensorProto.FLOAT16
