"""A matrix product of two tensors that are known only at run time (attention, for one).

How the right side is read depends on how it stands in memory and on how often each value of it
is used:

    one tile of rows, columns side by side      as it stands: every value is used once
    few rows, the reduction side by side        as it stands, by dot products (`dot`)
    otherwise                                   packed inside the kernel, a panel at a time

A ``permute_dims`` in front of either side is folded into the way in which the side is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax

from tvm_hetero.kernels.matmul.dot import compute_dot, fits
from tvm_hetero.kernels.matmul.product import Product, Side, compute, static_extents
from tvm_hetero.kernels.matmul.product_tiles import (
    Extents,
    ProductLayout,
    choose_product_layout,
    product_tile,
)

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Vectors in a block that is read as it stands: of several rows, of one.
_ROWS_WORTH_PACKING = 8
_WIDTHS = ((4, 3, 2, 1), (16, 12, 8, 6, 4, 3, 2, 1))


def batch_matmul(
    bb: relax.BlockBuilder, a: relax.Expr, b: relax.Expr, dtype: str, units: Sequence[VectorUnit]
) -> relax.Expr | None:
    """A kernel that packs at run time what needs it, or None where it does not fit.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    a, b
        The sides, of two dimensions at least.
    dtype
        Of the result.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    """
    (a, left), (b, right) = _side(bb, a), _side(bb, b)
    if left is None or right is None:
        return None
    product = _plan(left, right, dtype, tuple(units))
    if product is None:
        return None
    lanes = units[0].lanes
    by_dots = fits(product, lanes)
    return bb.call_te(
        lambda x, y: (
            compute_dot(x, y, product, lanes) if by_dots else compute(x, y, product, constant=False)
        ),
        a,
        b,
        primfunc_name_hint="matmul",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: scale and mask join it
    )


def _side(bb: relax.BlockBuilder, arg: relax.Expr) -> tuple[relax.Expr, Side | None]:
    """What the kernel reads for an operand, and how it stands there."""
    shape = static_extents(arg.ty)
    if len(shape) < 2 or min(shape) < 1:
        return arg, None
    axes = list(range(len(shape)))
    while (found := _permutation(bb, arg)) is not None:
        arg, before = found
        axes = [before[axis] for axis in axes]
    return arg, Side(shape, tuple(axes))


def _permutation(bb: relax.BlockBuilder, arg: relax.Expr) -> tuple[relax.Expr, list[int]] | None:
    """What an operand is a permutation of, and where its dimensions stand there."""
    bound = bb.lookup_binding(arg) if isinstance(arg, relax.Var) else None
    if not isinstance(bound, relax.Call) or getattr(bound.op, "name", "") != "relax.permute_dims":
        return None
    axes, rank = bound.attrs.axes, len(arg.ty.shape)
    listed = range(rank)[::-1] if axes is None else (int(axis) % rank for axis in axes)
    return bound.args[0], list(listed)


def _plan(left: Side, right: Side, dtype: str, units: tuple[VectorUnit, ...]) -> Product | None:
    joined = math.prod(right.shape[:-2]) == 1
    rows = math.prod(left.shape[:-1]) if joined else left.shape[-2]
    extents = Extents(rows, right.shape[-1], left.shape[-1])
    straight = right.axes[-1] == len(right.axes) - 1
    if straight:
        layout = _whole_blocks(extents, units)
        if layout is not None and _one_tile_of_rows(layout, extents, units):
            return Product(
                left, right, dtype, layout.block, layout.points, layout.tall, packed=False
            )
    layout = choose_product_layout(extents, units)
    if layout is None:
        return None
    # Where the left side stands the other way around, each step of a tile reads another line of
    # the cache, and of a thousand of them all may fall into one set.
    tall = layout.tall or (left.axes[-1] != len(left.axes) - 1 and rows > _ROWS_WORTH_PACKING)
    return Product(left, right, dtype, layout.block, layout.points, tall)


def _whole_blocks(extents: Extents, units: tuple[VectorUnit, ...]) -> ProductLayout | None:
    """The layout with the widest blocks that need no padding of columns.

    One row is read in wide pieces, since the next row of the right side is far away.
    """
    lanes = units[0].lanes
    widths = [lanes * v for v in _WIDTHS[extents.rows == 1] if extents.columns % (lanes * v) == 0]
    layouts = (choose_product_layout(extents, units, block) for block in widths)
    return next((layout for layout in layouts if layout is not None), None)


def _one_tile_of_rows(
    layout: ProductLayout, extents: Extents, units: tuple[VectorUnit, ...]
) -> bool:
    tiles = [product_tile(layout.block, layout.points, extents, unit) for unit in units]
    return all(tile is not None and tile.rows == layout.points for tile in tiles[:1])
