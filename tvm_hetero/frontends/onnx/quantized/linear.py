"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, in all their forms.

The scale is one number, one for each slice along an axis, or one for each block of so many elements
along it (then it has the operand's rank).
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.axes import checked_axis
from tvm_hetero.frontends.onnx.quantized.arithmetic import (
    Quantizer,
    add_dequantized,
    add_quantized,
    along,
    as_float,
    code_range,
    float_zero,
)

_FLOAT = TensorProto.FLOAT


@rewrites("QuantizeLinear")
def rewrite_quantize_linear(r: Rewriting) -> bool:
    """Divide, round, add the zero point, saturate."""
    if int(r.attribute("precision", 0)) not in (0, _FLOAT):
        r.refuse("divides in another type than float32, which is not taken")
    if not r.attribute("saturate", 1):
        r.refuse("has saturate = 0: what is too large becomes NaN, which is not taken")
    zero = r.operand(2)
    code = int(r.attribute("output_dtype", 0))
    code = code or (r.element_type(zero) if zero else TensorProto.UINT8)
    add_quantized(r, as_float(r, r.inputs[0]), quantizer_of(r, code), r.outputs)
    return True


@rewrites("DequantizeLinear")
def rewrite_dequantize_linear(r: Rewriting) -> bool:
    """Subtract the zero point, multiply; the result has the type of the scale."""
    made = int(r.attribute("output_dtype", 0)) or r.element_type(r.inputs[1])
    quantizer = quantizer_of(r, r.element_type(r.inputs[0]))
    add_dequantized_as(r, quantizer, made)
    return True


def add_dequantized_as(r: Rewriting, quantizer: Quantizer, made: int) -> None:
    """Make the node's result, of the type `made`, of its first operand."""
    if quantizer.code == TensorProto.INT32 and quantizer.zero:
        r.refuse("has a zero point for codes of int32, which have none")
    if made == _FLOAT:
        add_dequantized(r, r.inputs[0], quantizer, r.outputs)
    else:
        r.add("Cast", [add_dequantized(r, r.inputs[0], quantizer)], r.outputs, to=made)


def quantizer_of(r: Rewriting, code: int, default_axis: int = 1) -> Quantizer:
    """Return the quantizer of a node (x, scale, zero point), for codes of a type.

    Parameters
    ----------
    r : Rewriting
        The node; ``axis`` and ``block_size`` are its.
    code : int
        ONNX element type.
    default_axis : int
        The axis where the node says none.
    """
    scale, zero = as_float(r, r.inputs[1]), float_zero(r, r.operand(2))
    dims = r.dims(r.inputs[1])
    block = int(r.attribute("block_size", 0))
    if not dims or (dims == (1,) and not block):
        if (name := r.operand(2)) and math.prod(r.dims(name)) != 1:
            r.refuse(f"has zero points of {list(r.dims(name))} for one scale")
        return Quantizer(along(r, scale, dims, 0, 0), along(r, zero, dims, 0, 0), code)
    rank = r.rank(r.inputs[0])
    axis = checked_axis(r.refuse, int(r.attribute("axis", default_axis)), rank)
    whole = r.dims(r.inputs[0])
    _check_counts(r, whole, axis, block)
    if not block:
        return Quantizer(along(r, scale, dims, rank, axis), along(r, zero, dims, rank, axis), code)
    spread, moved = (_repeated(r, name, dims, whole, axis, block) for name in (scale, zero))
    return Quantizer(spread, moved, code)


def _check_counts(r: Rewriting, whole: tuple[int, ...], axis: int, block: int) -> None:
    """Refuse scales or zero points that are not one for each element of an axis, or block."""
    if block < 0:
        r.refuse(f"has blocks of {block}")
    expected: tuple[int, ...] = (whole[axis],)
    if block:
        expected = tuple(-(-n // block) if i == axis else n for i, n in enumerate(whole))
    for what, name in (("scales", r.inputs[1]), ("zero points", r.operand(2))):
        if name and r.dims(name) != expected:
            blocks = f" in blocks of {block}" if block else ""
            r.refuse(
                f"has {what} of {list(r.dims(name))} for a value of {list(whole)}{blocks} along "
                f"axis {axis}; expected {list(expected)}"
            )


def _repeated(
    r: Rewriting, name: str, dims: tuple[int, ...], whole: tuple[int, ...], axis: int, block: int
) -> str:
    """Return a value of blocks with each repeated `block` times along the axis."""
    if not name:
        return ""
    count = dims[axis]
    before, after = list(dims[:axis]), list(dims[axis + 1 :])
    apart = r.constant([*before, count, 1, *after], np.int64)
    wide = r.constant([*before, count, block, *after], np.int64)
    flat = r.constant([*before, count * block, *after], np.int64)
    spread = r.add("Expand", [r.add("Reshape", [name, apart]), wide])
    joined = r.add("Reshape", [spread, flat])
    if count * block == whole[axis]:
        return joined
    limits = [r.constant([limit], np.int64) for limit in (0, whole[axis], axis)]
    return r.add("Slice", [joined, *limits])


@rewrites("DynamicQuantizeLinear")
def rewrite_dynamic_quantize_linear(r: Rewriting) -> bool:
    """Quantize to uint8 by the least and the greatest value."""
    names = [name or r.fresh("unused") for name in [*r.outputs, "", ""][:3]]
    add_dynamic_quantization(r, r.inputs[0], names)
    return True


def add_dynamic_quantization(r: Rewriting, x: str, outputs: list[str]) -> None:
    """Add codes, scale and zero point of a value; the range always holds 0.

    Parameters
    ----------
    r : Rewriting
        The node.
    x : str
        Of float32.
    outputs : list of str
        Names of codes (uint8), scale and zero point (scalars).
    """
    low, high = code_range(r, TensorProto.UINT8)
    nothing, steps = r.constant(0.0, np.float32), r.constant(float(high), np.float32)
    least = r.add("Min", [r.add("ReduceMin", [x], keepdims=0), nothing])
    greatest = r.add("Max", [r.add("ReduceMax", [x], keepdims=0), nothing])
    # As ONNX Runtime: what is all 0 has the scale 1.
    span = r.add("Div", [r.add("Sub", [greatest, least]), steps])
    is_nothing = r.add("Equal", [span, nothing])
    scale = r.add("Where", [is_nothing, r.constant(1.0, np.float32), span], outputs[1:2])
    start = r.add("Div", [r.add("Sub", [nothing, least]), scale])
    zero = r.add("Clip", [r.add("Round", [start]), r.constant(float(low), np.float32), steps])
    r.add("Cast", [r.bounded(zero)], outputs[2:3], to=TensorProto.UINT8)
    add_quantized(r, x, Quantizer(scale, zero, TensorProto.UINT8), outputs[:1])
