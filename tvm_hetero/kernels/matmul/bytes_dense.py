"""Products of unsigned bytes with constant signed ones, as kernels before any schedule.

    acc[n // B, m, n % B] += codes[m, k] * weights[n // B, k, n % B]        in 32 bits, exact

Weights stand in words of four steps of the reduction, ``[n // B, k // 4, n % B]``, the first step
in the lowest byte: so a vector of words is what one instruction multiplies (`product_bytes`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.matmul.product import Product, Side, static_extents, sum_products
from tvm_hetero.kernels.tir.block_roles import BYTES_ATTR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Expr = Any

MOST_DEPTH = 1 << 15
"""Steps of which a sum of products of 255 and -128, and a zero point's part, fit in 32 bits."""
# Columns side by side, and what they are a multiple of.
_BLOCK, _LANES = 64, 16
_WORD = 4
# Rows of a tile of several; others are padded to whole ones.
_ROWS = 4


def bytes_dense(bb: relax.BlockBuilder, codes: relax.Expr, weights: NDArray[Any]) -> relax.Var:
    """``codes @ weights`` in int32.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc and the call.
    codes
        uint8, ``[..., K]`` of known extents, at least two of them.
    weights
        ``[K, N]``, whole numbers from -128 to 127 of any type.

    Raises
    ------
    ModelError
        The sides do not fit.
    """
    extents = static_extents(codes.ty)
    depth, columns = weights.shape
    fits = len(extents) > 1 and min(extents) > 0 and extents[-1] == depth <= MOST_DEPTH
    if not fits or str(codes.ty.dtype) != "uint8":
        raise ModelError(
            f"a product of bytes {codes.ty.dtype}{list(extents)} and {list(weights.shape)}: "
            f"expected uint8 of two or more known extents, the last one of the left side being the "
            f"first one of the right side, {MOST_DEPTH} at most"
        )
    rows, block = math.prod(extents[:-1]), min(_BLOCK, -(-columns // _LANES) * _LANES)
    points = rows if rows <= _ROWS else -(-rows // _ROWS) * _ROWS
    sides = Side(extents, tuple(range(len(extents)))), Side((depth, columns), (0, 1))
    product = Product(*sides, "int32", block, points)

    def compute(data: te.Tensor, words: te.Tensor) -> te.Tensor:
        def term(value: Expr, _: Expr, o: Expr, k: Expr, i: Expr) -> Expr:
            return tirx.Cast("int32", value) * _byte(words(o, k // _WORD, i), k % _WORD)

        return sum_products(data, term, product, {BYTES_ATTR: 1})

    return bb.emit_te(
        compute,
        codes,
        relax.const(tvm.runtime.tensor(in_words(weights, block))),
        primfunc_name_hint="bytes_dense",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: zero points and scales join it
    )


def in_words(weights: NDArray[Any], block: int) -> NDArray[np.int32]:
    """Weights ``[K, N]`` as words ``[blocks, K / 4, block]``; what fills up is zero."""
    depth, columns = weights.shape
    padded = np.pad(weights.astype(np.int8), ((0, -depth % _WORD), (0, -columns % block)))
    parts = padded.reshape(-1, _WORD, padded.shape[1] // block, block).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(parts).view(np.int32)[..., 0]


def _byte(word: Expr, place: Expr) -> Expr:
    """A byte of a word, with its sign; known as soon as the steps of a word are unrolled.

    No shift by a place: TVM would make 64 bits of the word then, as of every index.
    """
    last = tirx.const(24, "int32")
    found = tirx.shift_right(word, last)
    for i in range(_WORD - 1):
        up = tirx.shift_left(word, tirx.const(24 - 8 * i, "int32"))
        found = tirx.Select(place == i, tirx.shift_right(up, last), found)
    return found


def less_zero_point(
    bb: relax.BlockBuilder, total: relax.Expr, zero: relax.Expr, weights: NDArray[Any]
) -> relax.Var:
    """What `bytes_dense` gives, for codes less a zero point.

    Parameters
    ----------
    bb
        Builder that receives it.
    total
        The product of codes and weights.
    zero
        A scalar of any type of whole numbers.
    weights
        As there.
    """
    sums = weights.astype(np.int64).sum(axis=0).astype(np.int32)
    factor = bb.emit(relax.op.astype(zero, "int32"))
    less = bb.emit(relax.op.multiply(relax.const(tvm.runtime.tensor(sums)), factor))
    return bb.emit(relax.op.subtract(total, less))
