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
from tvm_hetero.frontends.onnx.model.byte_weights import MOST_STEPS
from tvm_hetero.frontends.onnx.quantized.arithmetic import as_float, centred, float_zero
from tvm_hetero.frontends.onnx.quantized.linear import add_dynamic_quantization

# Where weights of the input and of the state are, and their scales.
_WEIGHTS = ((1, 8), (2, 10))


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
    factors = [_factors_of_bytes(r, *each) for each in _WEIGHTS]
    weights = [
        _numbers(r, *each) if factor is None else _whole_numbers(r, *each)
        for each, factor in zip(_WEIGHTS, factors, strict=True)
    ]
    rest = [r.operand(position) for position in range(3, 8)]
    while rest and not rest[-1]:
        rest.pop()
    kept = {a.name: r.attribute(a.name) for a in r.node.attribute}
    r.add("LSTM", [x, *weights, *rest], r.outputs, **kept)
    r.quantize_state(r.outputs, *factors)


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
    numbers = _centred(r, codes, scale + 1)
    scaled = r.add("Mul", [numbers, _by_direction(r, as_float(r, r.operand(scale)), scale)])
    return r.add("Transpose", [scaled], perm=[0, 2, 1])


def _whole_numbers(r: Rewriting, codes: int, scale: int) -> str:
    """Return them without their scales."""
    return r.add("Transpose", [_centred(r, codes, scale + 1)], perm=[0, 2, 1])


def _centred(r: Rewriting, codes: int, position: int) -> str:
    zero = float_zero(r, r.operand(position))
    return centred(r, r.operand(codes), _by_direction(r, zero, position) if zero else "")


def _factors_of_bytes(r: Rewriting, weights: int, scales: int) -> np.ndarray | None:
    """Return the scales of weights, if these are bytes once they are centred.

    As (direction, column). None where they are known only when the model runs, or lie more than a
    signed byte from their zero point.
    """
    codes, scale = (r.array(r.operand(position)) for position in (weights, scales))
    zero = r.array(r.operand(scales + 1)) if r.operand(scales + 1) else np.zeros(1, np.int32)
    if codes is None or scale is None or zero is None or codes.shape[1] > MOST_STEPS:
        return None
    middle = np.broadcast_to(_columns(zero).astype(np.int64), (len(codes), 1, codes.shape[2]))
    apart = codes.astype(np.int64) - middle
    if apart.min(initial=0) < -128 or apart.max(initial=0) > 127:
        return None
    return np.broadcast_to(_columns(scale)[:, 0], (len(codes), codes.shape[2])).astype(np.float32)


def _columns(values: np.ndarray) -> np.ndarray:
    """Return what is one for each direction, or one for each of its columns, as (d, 1, column)."""
    return values.reshape(-1, 1, values.shape[1] if values.ndim > 1 else 1)


def _by_direction(r: Rewriting, name: str, position: int) -> str:
    """Return an operand, (direction,) or (direction, column), with three dimensions."""
    columns = (*r.dims(r.operand(position)), 1)[1]
    return r.add("Reshape", [name, r.constant([-1, 1, columns], np.int64)])
