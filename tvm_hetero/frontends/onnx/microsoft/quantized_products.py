"""Products of codes that give float32, or that take it.

MatMulIntegerToFloat   (A - a_zero)(B - b_zero) a_scale b_scale + bias
DynamicQuantizeMatMul  the same of an A that is quantized first
QGemm                  alpha (A' - a_zero)(B' - b_zero) + C, as float32 or as codes
QLinearConv            the standard one, or with channels last
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.convolutions import (
    channels_first_order,
    channels_last_order,
)
from tvm_hetero.frontends.onnx.microsoft.forms import contributed
from tvm_hetero.frontends.onnx.quantized.arithmetic import (
    add_codes,
    add_quantized,
    along,
    as_float,
    centred,
    float_zero,
    scalar_quantizer,
)
from tvm_hetero.frontends.onnx.quantized.convolutions import add_quantized_convolution
from tvm_hetero.frontends.onnx.quantized.exact_sums import (
    ExactSum,
    add_parts,
    cut,
    greatest_magnitude,
    magnitudes,
    sliced,
)
from tvm_hetero.frontends.onnx.quantized.linear import (
    add_dequantized_as,
    add_dynamic_quantization,
    quantizer_of,
)
from tvm_hetero.frontends.onnx.quantized.matrix_products import (
    add_integer_product,
    add_product_parts,
    side_along,
)

_WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


@contributed("QuantizeLinear", operands=3, attributes=("axis",))
def rewrite_quantize_linear(r: Rewriting) -> None:
    """As the standard one, which knew less types at the time."""
    code = r.element_type(r.operand(2)) if r.operand(2) else TensorProto.UINT8
    add_quantized(r, as_float(r, r.inputs[0]), quantizer_of(r, code), r.outputs)


@contributed("DequantizeLinear", operands=3, attributes=("axis",))
def rewrite_dequantize_linear(r: Rewriting) -> None:
    """As the standard one, which knew less types at the time."""
    quantizer = quantizer_of(r, r.element_type(r.inputs[0]))
    add_dequantized_as(r, quantizer, r.element_type(r.inputs[1]))


@contributed("MatMulIntegerToFloat", operands=7)
def rewrite_mat_mul_integer_to_float(r: Rewriting) -> None:
    """Multiply the sums by both scales, and add the bias."""
    total = add_integer_product(r, (0, 4), (1, 5))
    sides = [
        side_along(r, r.operand(2), r.rank(r.operand(0)), -2),
        side_along(r, r.operand(3), r.rank(r.operand(1)), -1),
    ]
    _scaled(r, total.as_float(r), r.add("Mul", sides), r.operand(6))


@contributed("DynamicQuantizeMatMul", operands=5)
def rewrite_dynamic_quantize_mat_mul(r: Rewriting) -> None:
    """Quantize the left side by its range."""
    made = [r.fresh(f"{part}_of_{r.inputs[0]}") for part in ("codes", "scale", "zero")]
    add_dynamic_quantization(r, r.inputs[0], made)
    codes, zero = (r.add("Cast", [made[i]], to=TensorProto.FLOAT) for i in (0, 2))
    left = r.add("Sub", [codes, zero])
    total = _product_with_codes(r, left, 1, 3)
    scale = side_along(r, r.operand(2), r.rank(r.operand(1)), -1)
    _scaled(r, total.as_float(r), r.add("Mul", [made[1], scale]), r.operand(4))


def _product_with_codes(r: Rewriting, left: str, codes: int, zero: int) -> ExactSum:
    """Add the exact product of centred codes of uint8 with an operand less its zero point."""
    b, b_zero = r.operand(codes), r.operand(zero)
    rank = r.rank(b)
    offset = float_zero(r, b_zero)
    if offset and len(r.dims(b_zero)) < 2:
        offset = along(r, offset, r.dims(b_zero), rank, -1)
    right = centred(r, b, offset)
    ranges = cut(r, magnitudes(r, b, b_zero, rank - 2), 255)
    return add_product_parts(r, [left, right], ranges, (r.rank(r.inputs[0]) - 1, rank - 2))


def _scaled(r: Rewriting, total: str, factor: str, bias: str) -> None:
    if bias:
        r.add("Add", [r.add("Mul", [total, factor]), bias], r.outputs)
    else:
        r.add("Mul", [total, factor], r.outputs)


@contributed("QGemm", operands=9, attributes=("alpha", "transA", "transB"))
def rewrite_q_gemm(r: Rewriting) -> None:
    """Transpose, add the exact product and C, scale; round where the result has a scale."""
    total = _gemm_sums(r)
    scales = [as_float(r, r.operand(1)), as_float(r, r.operand(4))]
    columns = along(r, scales[1], r.dims(r.operand(4)), 2, 1)
    alpha = r.constant(float(r.attribute("alpha", 1.0)), np.float32)
    row = along(r, scales[0], r.dims(r.operand(1)), 0, 0)
    factor = r.add("Mul", [r.add("Mul", [alpha, row]), columns])
    if not r.operand(7):
        r.add("Mul", [total, factor], r.outputs)
        return
    result = scalar_quantizer(r, 7, 8)
    scaled = r.exact(r.add("Mul", [total, r.add("Div", [factor, result.scale])]))
    add_codes(r, scaled, result, r.outputs)


def _gemm_sums(r: Rewriting) -> str:
    """Return the product of QGemm plus C, in float32."""
    a, b = r.operand(0), r.operand(3)
    flips = [bool(r.attribute(name, 0)) for name in ("transA", "transB")]
    zeros = [float_zero(r, r.operand(position)) for position in (2, 5)]
    column = int(not flips[1])
    placed = [
        along(r, zeros[0], (1,), 0, 0),
        along(r, zeros[1], r.dims(r.operand(5)) if zeros[1] else (), 2, column),
    ]
    sides = [centred(r, name, zero) for name, zero in zip((a, b), placed, strict=True)]
    # The steps lie along the other axis than the columns.
    steps = magnitudes(r, b, r.operand(5), 1 - column)
    ranges = cut(r, steps, greatest_magnitude(r, a, r.operand(2)))

    def part(start: int, end: int) -> str:
        pieces = sides
        if len(ranges) > 1:
            axes = (int(not flips[0]), 1 - column)
            pieces = [sliced(r, s, start, end, axis) for s, axis in zip(sides, axes, strict=True)]
        return r.add("Gemm", pieces, transA=int(flips[0]), transB=int(flips[1]))

    total = add_parts(r, ranges, part)
    return (total.plus(r, r.operand(6)) if r.operand(6) else total).as_float(r)


@contributed("QLinearConv", operands=9, attributes=(*_WINDOW, "group", "channels_last"))
def rewrite_q_linear_conv(r: Rewriting) -> None:
    """Bring the channels to the front and back where they are last."""
    x = scalar_quantizer(r, 1, 2)
    last = bool(r.attribute("channels_last", 0))
    left = centred(r, r.inputs[0], x.zero)
    if not last:
        add_quantized_convolution(r, left, x, r.outputs)
        return
    left = r.add("Transpose", [left], perm=channels_first_order(r.rank(r.inputs[0])))
    made = add_quantized_convolution(r, left, x, 1)
    r.add("Transpose", [made], r.outputs, perm=channels_last_order(r.rank(r.inputs[0])))
