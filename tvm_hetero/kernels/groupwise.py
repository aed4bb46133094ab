"""Products with weights of 8 or 4 bits and a scale for each group along the reduction.

A weight is ``code * scale``: codes are whole numbers, and ``group`` of them, one after the other
along the reduction, share a scale. So a product is

    acc[n] = sum over groups q of scale[q, n] * (sum over the group of x[k] * code[k, n])

and reads 8.5 or 4.5 bits a weight (with groups of 32). Symmetric, without a zero point: that would
be another number for each group, and another sum for each row, for a gain that 4 bits hardly show
where scales have signs (below), and 8 bits not at all.

    8 bits   codes -127 .. 127; scale = largest magnitude / 127
    4 bits   codes -8 .. 7; scale = -(value of the largest magnitude) / 8: that value gets -8, so
             that all sixteen codes are used, whatever its sign

Scales are bfloat16, rounded before codes are chosen, so that their rounding costs nothing. A
weight is off by half a scale at most, and with 8 bits, or 4 where it has the sign of the largest
of its group, never more; the other sign's largest may be off by a whole one (8 would be its code).

Layout
    Columns in blocks of `BLOCK`, as packed products have them (`product`): codes ``[o, k, i]``,
    scales ``[o, q, i]``. Two codes of 4 bits share a byte, those of k and k + 1 for even k, the
    first in the lower half, each plus 8.

Four bits become a float without a conversion: put into the lowest bits of 2^23 they are its last
digits, and 2^23 + 8 less is the code. In the upper half they are sixteen times that, which the
other factor makes good: x / 16 is exact, and one division for a whole block of columns.

`groupwise_dense` builds what is written above with the scale inside of the sum; taking it out is
the schedule's (`groupwise_schedule`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax, te, tirx

from tvm_hetero.errors import ModelError

from .product import Product, Side, static_extents, summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Expr = Any

# Columns side by side: a line of the cache for each step of the reduction, or for two.
BLOCK = 64
GROUP = 32
# Annotation of the accumulation: how many steps of the reduction share a scale.
GROUP_ATTR = "tvm_hetero.group"
_MOST = {8: 127, 4: 8}
# A float whose last digits are whole numbers, and its bits.
_WHOLE, _WHOLE_BITS = 8388608.0, 0x4B000000
# Rows of a tile of several; others are padded to whole ones.
_ROWS = 8


@dataclass(frozen=True)
class GroupwiseWeight:
    """A matrix ``[K, O]`` of few bits.

    Attributes
    ----------
    codes
        int8 ``[blocks, K, BLOCK]``, or uint8 ``[blocks, K / 2, BLOCK]`` for 4 bits.
    scales
        bfloat16 ``[blocks, K / group, BLOCK]``.
    bits, group
        Bits of a code, and how many share a scale.
    shape
        Rows and columns.
    """

    codes: NDArray[Any]
    scales: NDArray[Any]
    bits: int
    group: int
    shape: tuple[int, int]

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales."""
        return self.codes.nbytes + self.scales.nbytes

    def dense(self) -> NDArray[np.float32]:
        """The float32 values that it stands for."""
        codes = self.codes
        if self.bits == 4:
            both = np.stack([codes & 15, codes >> 4], axis=2)
            codes = both.reshape(len(codes), -1, BLOCK).astype(np.int8) - 8
        scales = np.repeat(self.scales.astype(np.float32), self.group, axis=1)
        values = np.moveaxis(codes.astype(np.float32) * scales, 0, 1)
        return np.ascontiguousarray(values.reshape(self.shape[0], -1)[:, : self.shape[1]])


def quantize(weight: NDArray[Any], bits: int, group: int = GROUP) -> GroupwiseWeight:
    """The nearest matrix of few bits.

    Parameters
    ----------
    weight
        ``[K, O]``, finite; of any type of floats and any strides.
    bits
        Of a code, 8 or 4.
    group
        How many along K share a scale; where it does not divide K, their greatest common divisor.

    Raises
    ------
    ModelError
        There is no such matrix.
    """
    if bits not in _MOST or weight.ndim != 2 or min(weight.shape) < 1 or group < 1:
        raise ModelError(
            f"weights {list(weight.shape)} of {bits} bits in groups of {group}: expected a matrix, "
            "8 or 4 bits, and a group of at least 1"
        )
    depth, columns = weight.shape
    group = math.gcd(depth, group)
    if bits == 4 and group % 2:
        raise ModelError(
            f"{depth} rows in groups of {group}: two codes of 4 bits share a byte, so groups have "
            "an even number of rows; use 8 bits for this matrix"
        )
    blocks = -(-columns // BLOCK)
    codes = np.zeros((blocks, depth * bits // 8, BLOCK), np.int8 if bits == 8 else np.uint8)
    scales = np.zeros((blocks, depth // group, BLOCK), ml_dtypes.bfloat16)
    for b in range(blocks):  # a block at a time: a whole matrix of float32 may be large
        values = np.zeros((depth, BLOCK), np.float32)
        part = weight[:, b * BLOCK : (b + 1) * BLOCK]
        values[:, : part.shape[1]] = part
        codes[b], scales[b] = _quantized(values.reshape(-1, group, BLOCK), bits)
    if not np.isfinite(scales.astype(np.float32)).all():
        raise ModelError("weights have values that are no numbers, or too large for bfloat16")
    return GroupwiseWeight(codes, scales, bits, group, (depth, columns))


def _quantized(values: NDArray[np.float32], bits: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Codes ``[K or K / 2, BLOCK]`` and scales of values ``[groups, group, BLOCK]``."""
    at = np.abs(values).argmax(axis=1)[:, np.newaxis]
    largest = np.take_along_axis(values, at, axis=1)
    scales = np.abs(largest) if bits == 8 else -largest
    scales = (scales / np.float32(_MOST[bits])).astype(ml_dtypes.bfloat16)
    divisors = scales.astype(np.float32)
    codes = np.divide(values, divisors, out=np.zeros_like(values), where=divisors != 0)
    codes = np.rint(codes).clip(-_MOST[bits], 127 if bits == 8 else 7).astype(np.int8)
    codes = codes.reshape(-1, BLOCK)
    if bits == 4:
        halves = (codes + 8).astype(np.uint8)
        codes = halves[::2] | halves[1::2] << 4
    return codes, scales[:, 0]


def groupwise_dense(bb: relax.BlockBuilder, x: relax.Expr, weight: GroupwiseWeight) -> relax.Expr:
    """``x @ weight`` as a kernel that reads the codes.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    x
        float32, ``[..., K]`` of known extents.
    weight
        The right side.

    Raises
    ------
    ModelError
        The sides do not fit.
    """
    extents = static_extents(x.ty)
    if not extents or min(extents) < 1 or extents[-1] != weight.shape[0]:
        raise ModelError(
            f"a product of {list(extents)} and {list(weight.shape)}: expected known extents, the "
            "last one of the left side being the first one of the right side"
        )
    rows = math.prod(extents[:-1])
    points = rows if rows <= _ROWS else -(-rows // _ROWS) * _ROWS
    extents = extents if len(extents) > 1 else (1, *extents)
    sides = Side(extents, tuple(range(len(extents)))), Side(weight.shape, (0, 1))
    product = Product(*sides, "float32", BLOCK, points)
    result = bb.call_te(
        lambda data, codes, scales: _compute(data, codes, scales, product, weight),
        x if len(static_extents(x.ty)) > 1 else bb.emit(relax.op.reshape(x, extents)),
        relax.const(tvm.runtime.tensor(weight.codes)),
        relax.const(tvm.runtime.tensor(weight.scales)),
        primfunc_name_hint="groupwise_dense",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias and activation join it
    )
    if len(static_extents(x.ty)) > 1:
        return result
    return relax.op.reshape(bb.emit(result), (weight.shape[1],))


def _compute(
    data: te.Tensor, codes: te.Tensor, scales: te.Tensor, product: Product, weight: GroupwiseWeight
) -> te.Tensor:
    def term(value: Expr, _: Expr, o: Expr, k: Expr, i: Expr) -> Expr:
        scale = tirx.Cast("float32", scales(o, k // weight.group, i))
        if weight.bits == 8:
            return value * (tirx.Cast("float32", codes(o, k, i)) * scale)
        code, share = _of_half(codes(o, k // 2, i), k % 2)
        return value * share * (code * scale)

    return summed(data, term, product, {GROUP_ATTR: weight.group})


def _of_half(byte: Expr, half: Expr) -> tuple[Expr, Expr]:
    """A multiple of the code in one half of a byte, and what it is to be multiplied with."""
    lower = half == 0

    def either(one: float, other: float, dtype: str) -> Expr:
        return tirx.Select(lower, tirx.const(one, dtype), tirx.const(other, dtype))

    bits = tirx.bitwise_and(tirx.Cast("int32", byte), either(15, 15 << 4, "int32"))
    near = tirx.reinterpret("float32", tirx.bitwise_or(bits, tirx.const(_WHOLE_BITS, "int32")))
    code = near - either(_WHOLE + 8, _WHOLE + 8 * 16, "float32")
    return code, either(1.0, 1.0 / 16, "float32")
