"""``DynamicQuantizeLSTM``: codes for weights; input and state are quantized by their ranges.

The input is quantized once for all steps.  The state is quantized in each step, which no operator
of ONNX says: the graph notes it of the LSTM, whose kernel does it
(`tvm_hetero.kernels.recurrent.levels`).  ONNX's order of weights is that of the transpose.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import ADVICE, contributed
from tvm_hetero.frontends.onnx.quantized.arithmetic import as_float, centred, float_zero
from tvm_hetero.frontends.onnx.quantized.linear import add_dynamic_quantization


@contributed(
    "DynamicQuantizeLSTM",
    operands=12,
    results=3,
    attributes=(
        "activation_alpha",
        "activation_beta",
        "activations",
        "clip",
        "direction",
        "hidden_size",
        "input_forget",
    ),
)
def rewrite_dynamic_quantize_lstm(r: Rewriting) -> None:
    """Make numbers of the codes, and quantize the input."""
    if r.operand(4):
        r.refuse(f"has sequence_lens, which is not taken. {ADVICE}")
    x = _in_levels(r, r.operand(0))
    weights = [_numbers(r, 1, 8), _numbers(r, 2, 10)]
    rest = [r.operand(position) for position in range(3, 8)]
    while rest and not rest[-1]:
        rest.pop()
    kept = {a.name: r.attribute(a.name) for a in r.node.attribute}
    r.add("LSTM", [x, *weights, *rest], r.outputs, **kept)
    r.quantize_state(r.outputs)


def _in_levels(r: Rewriting, x: str) -> str:
    """Return the input as it is once it has been quantized: all steps by one range."""
    made = [r.fresh(f"{part}_of_{x}") for part in ("codes", "scale", "zero")]
    add_dynamic_quantization(r, x, made)
    codes, zero = (r.add("Cast", [made[i]], to=TensorProto.FLOAT) for i in (0, 2))
    return r.add("Mul", [r.exact(r.add("Sub", [codes, zero])), made[1]])


def _numbers(r: Rewriting, codes: int, scale: int) -> str:
    """Return weights (direction, input, gates) as numbers, (direction, gates, input).

    Scales and zero points are one for each direction, or for each of its columns.
    """
    zero = float_zero(r, r.operand(scale + 1))
    numbers = centred(r, r.operand(codes), _by_direction(r, zero, scale + 1) if zero else "")
    scaled = r.add("Mul", [numbers, _by_direction(r, as_float(r, r.operand(scale)), scale)])
    return r.add("Transpose", [scaled], perm=[0, 2, 1])


def _by_direction(r: Rewriting, name: str, position: int) -> str:
    """Return an operand, (direction,) or (direction, column), with three dimensions."""
    columns = (*r.dims(r.operand(position)), 1)[1]
    return r.add("Reshape", [name, r.constant([-1, 1, columns], np.int64)])
