"""Products of matrices of codes: MatMulInteger and QLinearMatMul.

A zero point is one number, or one for each row of the left side or column of the right one.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.byte_weights import byte_weights
from tvm_hetero.frontends.onnx.quantized.arithmetic import (
    add_codes,
    along,
    as_float,
    centred,
    float_zero,
    scalar_quantizer,
)
from tvm_hetero.frontends.onnx.quantized.exact_sums import (
    ExactSum,
    add_parts,
    cut,
    greatest_magnitude,
    magnitudes,
    sliced,
)


@rewrites("MatMulInteger")
def rewrite_mat_mul_integer(r: Rewriting) -> bool:
    """Give the sums in int32; what is bytes stays as it is (`conversion.byte_products`)."""
    if _is_of_bytes(r, (0, 2), (1, 3)):
        return False
    add_integer_product(r, (0, 2), (1, 3)).as_int32(r, r.outputs)
    return True


@rewrites("QLinearMatMul")
def rewrite_q_linear_mat_mul(r: Rewriting) -> bool:
    """Multiply the sums by all scales at once, and round."""
    total = add_integer_product(r, (0, 2), (3, 5))
    sides = [
        side_along(r, r.operand(1), r.rank(r.operand(0)), -2),
        side_along(r, r.operand(4), r.rank(r.operand(3)), -1),
    ]
    result = scalar_quantizer(r, 6, 7)
    factor = r.add("Div", [r.add("Mul", sides), result.scale])
    scaled = r.exact(r.add("Mul", [total.as_float(r), factor]))
    add_codes(r, scaled, result, r.outputs)
    return True


def side_along(r: Rewriting, name: str, rank: int, axis: int) -> str:
    """Return scales in float32, along the rows (-2) or the columns (-1) of one side."""
    dims = r.dims(name)
    if len(dims) > 1:
        return as_float(r, name)
    return along(r, as_float(r, name), dims, max(rank, 2), axis)


def add_integer_product(r: Rewriting, left: tuple[int, int], right: tuple[int, int]) -> ExactSum:
    """Add the exact product of two operands less their zero points.

    Parameters
    ----------
    r : Rewriting
        The node.
    left, right : pair of int
        Positions of codes and zero point among the operands.
    """
    (a, a_zero), (b, b_zero) = ((r.operand(i), r.operand(j)) for i, j in (left, right))
    if _is_of_bytes(r, left, right):
        return ExactSum(r.add("MatMulInteger", [a, b, a_zero, b_zero]), TensorProto.INT32)
    b_axis = max(r.rank(b) - 2, 0)
    sides = [
        centred(r, codes, _zero(r, zero, r.rank(codes), axis))
        for codes, zero, axis in ((a, a_zero, -2), (b, b_zero, -1))
    ]
    steps, factor = magnitudes(r, b, b_zero, b_axis), greatest_magnitude(r, a, a_zero)
    ranges = cut(r, steps, factor)
    return add_product_parts(r, sides, ranges, (r.rank(a) - 1, b_axis))


def _is_of_bytes(r: Rewriting, left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether the sides are unsigned bytes with one zero point, and constant signed ones."""
    (a, a_zero), (b, b_zero) = ((r.operand(i), r.operand(j)) for i, j in (left, right))
    if r.element_type(a) != TensorProto.UINT8 or (a_zero and np.prod(r.dims(a_zero)) != 1):
        return False
    zero = r.array(b_zero) if b_zero else np.zeros(1, np.int32)
    known = zero is not None and zero.ndim < 2 and r.rank(a) > 0
    return known and byte_weights(r.array(b), zero) is not None


def add_product_parts(
    r: Rewriting, sides: list[str], ranges: list[tuple[int, int]], axes: tuple[int, int]
) -> ExactSum:
    """Add the exact product of two values of whole numbers in float32.

    Parameters
    ----------
    r : Rewriting
        The node.
    sides : list of str
        Both values.
    ranges : list of pair of int
        Of the steps that are added at once.
    axes : pair of int
        Along which steps lie, of either side.
    """

    def part(start: int, end: int) -> str:
        if len(ranges) == 1:
            return r.add("MatMul", sides)
        cuts = [sliced(r, side, start, end, axis) for side, axis in zip(sides, axes, strict=True)]
        return r.add("MatMul", cuts)

    return add_parts(r, ranges, part)


def _zero(r: Rewriting, name: str, rank: int, axis: int) -> str:
    zero = float_zero(r, name)
    if not zero or len(r.dims(name)) > 1:
        return zero
    if rank == 1 and int(np.prod(r.dims(name))) != 1:
        return zero
    return along(r, zero, r.dims(name), rank, axis)
