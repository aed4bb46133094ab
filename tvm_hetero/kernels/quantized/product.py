"""Products with weights of 8 or 4 bits and a scale for each group along the reduction.

A weight is ``code * scale``: codes are integers, and ``group`` of them, one after the other
along the reduction, share a scale. So a product is                         -> `groupwise_dense`

    acc[n] = sum over groups q of scale[q, n] * (sum over the group of x[k] * code[k, n])

Codes, without a zero point; scales are rounded to bfloat16 first           -> `_quantized`

    8 bits   codes -127 .. 127; scale = largest magnitude / 127
    4 bits   codes -8 .. 7; scale = -(value of the largest magnitude) / 8

Layout
    Columns in blocks of B, at most `BLOCK`, as packed products have them (`product`): scales
    ``[o, q, i]``, times 2^bits; codes ``[o, k', i]`` in words of 32 bits, each of the next 4 or 8
    steps of the reduction, the first in the lowest bits, plus 128 or 8.

Codes become floats by a shift, 1.5 + code / 2^bits or 16.5 + code / 16     -> `_near`

Codes that stay integers: `quantized.integer_product`. The schedule takes what a group shares
out of the sum (`quantized.factored`, `quantized.float_schedule`).

Derivation: docs/method/groupwise-weights.md.
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
from tvm_hetero.kernels.matmul.product import Product, Side, static_extents, sum_products
from tvm_hetero.kernels.tir.block_roles import GROUP_ATTR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Expr = Any

# Columns side by side: a line of the cache for each step of the reduction, or for two.
BLOCK = 128
# Columns that a block is a multiple of.
_LANES = 16
GROUP = 32
_MOST = {8: 127, 4: 8}
_WORD = 32
# Bits of a float behind its point.
_BEHIND = 23
# Rows of a tile of several; others are padded to whole ones.
_ROWS = 8


@dataclass(frozen=True)
class GroupwiseWeight:
    """A matrix ``[K, O]`` of few bits.

    Attributes
    ----------
    codes
        int32 ``[blocks, K bits / 32, B]``.
    scales
        bfloat16 ``[blocks, K / group, B]``, each 2^bits times that of a code.
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
    def block(self) -> int:
        """Columns of a block."""
        return int(self.codes.shape[2])

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales."""
        return self.codes.nbytes + self.scales.nbytes

    def dense(self) -> NDArray[np.float32]:
        """The float32 values that it stands for."""
        words = self.codes.view(np.uint32)[:, :, np.newaxis]
        codes = words >> _places(self.bits) & (2**self.bits - 1)
        codes = codes.reshape(len(self.codes), -1, self.block)
        scales = np.repeat(self.scales.astype(np.float32), self.group, axis=1)
        values = (codes / np.float32(2**self.bits) - np.float32(0.5)) * scales
        values = np.moveaxis(values, 0, 1).reshape(self.shape[0], -1)
        return np.ascontiguousarray(values[:, : self.shape[1]], np.float32)


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
    if group * bits % _WORD:
        raise ModelError(
            f"{depth} rows in groups of {group}: the codes of {_WORD // bits} rows stand in one "
            f"word, so the number of rows must be a multiple of {_WORD // bits}; keep this matrix "
            "as it is"
        )
    block = min(BLOCK, -(-columns // _LANES) * _LANES)
    blocks = -(-columns // block)
    codes = np.zeros((blocks, depth * bits // _WORD, block), np.int32)
    scales = np.zeros((blocks, depth // group, block), ml_dtypes.bfloat16)
    for b in range(blocks):  # a block at a time: a whole matrix of float32 may be large
        values = np.zeros((depth, block), np.float32)
        part = weight[:, b * block : (b + 1) * block]
        values[:, : part.shape[1]] = part
        codes[b], scales[b] = _quantized(values.reshape(-1, group, block), bits)
    return GroupwiseWeight(codes, scales, bits, group, (depth, columns))


def _quantized(values: NDArray[np.float32], bits: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Words ``[K bits / 32, B]`` and scales of values ``[groups, group, B]``."""
    at = np.abs(values).argmax(axis=1)[:, np.newaxis]
    largest = np.take_along_axis(values, at, axis=1)
    scales = np.abs(largest) if bits == 8 else -largest
    scales = (scales / np.float32(_MOST[bits])).astype(ml_dtypes.bfloat16)
    divisors = scales.astype(np.float32)
    # A power of two: no rounding.
    stored = (divisors[:, 0] * np.float32(2**bits)).astype(ml_dtypes.bfloat16)
    if not np.isfinite(stored.astype(np.float32)).all():
        raise ModelError("weights have values that are no numbers, or too large for bfloat16")
    codes = np.divide(values, divisors, out=np.zeros_like(values), where=divisors != 0)
    codes = np.rint(codes).clip(-_MOST[bits], 127 if bits == 8 else 7) + 2 ** (bits - 1)
    words = codes.astype(np.uint32).reshape(-1, _WORD // bits, values.shape[2])
    return np.bitwise_or.reduce(words << _places(bits), axis=1).view(np.int32), stored


def _places(bits: int) -> NDArray[np.uint32]:
    """Where each code of a word begins, along an axis before the last."""
    return np.arange(0, _WORD, bits, dtype=np.uint32)[:, np.newaxis]


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
    product = Product(*sides, "float32", weight.block, points)
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
    each = _WORD // weight.bits

    def term(value: Expr, _: Expr, o: Expr, k: Expr, i: Expr) -> Expr:
        scale = tirx.Cast("float32", scales(o, k // weight.group, i))
        near, middle = _near(codes(o, k // each, i), k % each, weight.bits)
        return value * ((near - middle) * scale)

    return sum_products(data, term, product, {GROUP_ATTR: weight.group})


def _near(word: Expr, which: Expr, bits: int) -> tuple[Expr, Expr]:
    """A float whose last digits are one of the codes of a word, and what it is for a code of 0.

    Two codes of 4 bits are moved together: the lower one then stands four places lower, behind the
    point of 16 instead of 1.
    """
    places = range(0, _WORD, bits)
    lower = [place + bits < place // 8 * 8 + 8 for place in places]
    ones = [2.0**bits if low else 1.0 for low in lower]
    masks = [(2**bits - 1) << (_BEHIND - (8 if low else bits)) for low in lower]
    moved = _one_of([_moved(word, _BEHIND - 8 - place // 8 * 8) for place in places], which)
    kept = tirx.bitwise_and(moved, _one_of([tirx.const(m, "int32") for m in masks], which))
    exponents = [tirx.const(int(np.float32(one).view(np.int32)), "int32") for one in ones]
    near = tirx.reinterpret("float32", tirx.bitwise_or(kept, _one_of(exponents, which)))
    return near, _one_of([tirx.const(one + 0.5, "float32") for one in ones], which)


def _one_of(values: list[Expr], which: Expr) -> Expr:
    """The value that ``which`` says; known as soon as the steps of a word are unrolled."""
    chosen = values[-1]
    for i, value in reversed(list(enumerate(values[:-1]))):
        chosen = tirx.Select(which == i, value, chosen)
    return chosen


def _moved(word: Expr, up: int) -> Expr:
    """The bits of a word, so many places higher."""
    by = tirx.const(abs(up), "int32")
    return tirx.shift_left(word, by) if up >= 0 else tirx.shift_right(word, by)
