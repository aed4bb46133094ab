"""Few rows times columns that stand along the reduction: dot products (the queries of one token).

    partial[z, m, n, l] = sum over k of left[z, m, k L + l] * right[z, n, k L + l]
    total[z, m, n]      = sum over l of partial

Every value of the right side is used by few rows, so packing it would cost more than the product.
It is read as it stands, a vector along the reduction at a time, and the lanes of a vector are
summed up in the end by halves: L / 2, L / 4, ... 1. Several columns go side by side, since one
accumulator takes a step only every four cycles. Wider vectors than a target has are several of
its own: L is that of the widest target, so sums do not depend on which of them runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, te

from tvm_hetero.kernels.matmul.gemm import WORTH_SHARING
from tvm_hetero.kernels.matmul.product import Product, accumulator, join, split, widen
from tvm_hetero.kernels.tir.block_roles import (
    DOT,
    HALVES,
    TOTAL,
    blocks_of,
    find_role,
    role,
    role_of,
)
from tvm_hetero.kernels.tir.blocks import extent_of, inline_epilogue
from tvm_hetero.kernels.tir.prefetch import prefetch

if TYPE_CHECKING:
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

MOST_ROWS = 4
_GRAINS = 4
# Cycles for a vector that comes from the caches.
_VECTOR = 2


def fits(product: Product, lanes: int) -> bool:
    """True where dot products of ``lanes`` lanes are the way to compute a product."""
    rows = math.prod(product.row_dims)
    along = all(side.axes[-1 - i] == len(side.axes) - 1 for side, i in _reductions(product))
    return rows <= MOST_ROWS and along and product.depth % lanes == 0


def _reductions(product: Product) -> list[tuple[Any, int]]:
    """Each side and which of its dimensions, from the end, is the reduction."""
    return [(product.left, 0), (product.right, 1)]


def compute_dot(left: te.Tensor, right: te.Tensor, product: Product, lanes: int) -> te.Tensor:
    """The product of two tensors by dot products of ``lanes`` lanes."""
    dtype = accumulator(product.dtype)
    matrices = max(1, math.prod(product.matrices))
    shape = (matrices, math.prod(product.row_dims), product.columns)
    k = te.reduce_axis((0, product.depth // lanes), "k")

    def both(z: Any, m: Any, n: Any, at: Any) -> Any:
        index = split(z, product.matrices)
        row = [*index, *split(m, product.row_dims), at]
        column = [*(index or [0] * (len(product.right.shape) - 2)), at, n]
        a = product.left.read(left, row[-len(product.left.shape) :])
        b = product.right.read(right, column[-len(product.right.shape) :])
        return widen(a, dtype) * widen(b, dtype)

    summed = te.compute(
        (*shape, lanes),
        lambda z, m, n, i: te.sum(both(z, m, n, k * lanes + i), axis=[k]),
        name="dot",
        attrs=role(DOT),
    )
    width = lanes
    while width > 2:
        width //= 2
        summed = _halved(summed, shape, width)
    total = te.compute(
        shape,
        lambda z, m, n: summed(z, m, n, 0) + summed(z, m, n, 1),
        name="total",
        attrs=role(TOTAL),
    )
    return _shaped(total, product)


def _halved(summed: te.Tensor, shape: tuple[int, ...], width: int) -> te.Tensor:
    return te.compute(
        (*shape, width),
        lambda z, m, n, i: summed(z, m, n, i) + summed(z, m, n, i + width),
        name="halves",
        attrs=role(HALVES),
    )


def _shaped(total: te.Tensor, product: Product) -> te.Tensor:
    matrices = product.matrices

    def value(*index: Any) -> Any:
        z = join(index[: len(matrices)], matrices)
        m = join(index[len(matrices) : -1], product.row_dims)
        return widen(total(z, m, index[-1]), product.dtype)

    return te.compute((*matrices, *product.row_dims, product.columns), value, name="shaped")


def schedule_dot(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it is no kernel of dot products.

    Raises
    ------
    RuntimeError, ValueError
        Where a step does not apply; the schedule is then half done and to be dropped.
    """
    dot = find_role(sch, DOT)
    if dot is None:
        return False
    total = _need(sch, TOTAL)
    last = _last(sch, total)
    lanes = extent_of(sch, sch.get_loops(dot)[3])
    *outer, n = sch.get_loops(last)
    columns = extent_of(sch, n)
    rows = math.prod(extent_of(sch, loop) for loop in outer)
    vectors = math.prod(extent_of(sch, loop) for loop in sch.get_loops(dot)) // lanes
    cores = cores if vectors * _VECTOR >= WORTH_SHARING else 1
    chunks = 1 if rows >= _GRAINS * cores or cores == 1 else _divisor(columns, _GRAINS * cores)
    chunk, _ = sch.split(n, [chunks, None])
    at = sch.fuse(*outer, chunk)
    if cores > 1:
        sch.parallel(at)
    sch.compute_at(total, at, preserve_unit_loops=True)
    together = max(1, unit.registers // 4 * unit.lanes // lanes)
    *_, column = sch.get_loops(total)
    outside, inside = sch.split(column, [None, _divisor(extent_of(sch, column), together)])
    sch.unroll(inside)
    halves = [b for b in blocks_of(sch) if role_of(sch, b) == HALVES]
    for block in reversed(halves):
        sch.compute_at(block, inside, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(block)[-1])
    n = _schedule_dot(sch, dot, outside, unit)
    _prefetch_right(sch, dot, outside, n, unit)
    return True


def _schedule_dot(sch: s_tir.Schedule, dot: SBlockRV, at: LoopRV, unit: VectorUnit) -> LoopRV:
    sch.compute_at(dot, at, preserve_unit_loops=True)
    *_, n, i, k = sch.get_loops(dot)
    vectors, lanes = sch.split(i, [None, min(unit.lanes, extent_of(sch, i))])
    sch.reorder(k, n, vectors, lanes)
    sch.unroll(n)
    sch.unroll(vectors)
    sch.vectorize(lanes)
    sch.decompose_reduction(dot, k)
    return n


def _prefetch_right(
    sch: s_tir.Schedule, dot: SBlockRV, at: LoopRV, n: LoopRV, unit: VectorUnit
) -> None:
    """Ask for the right side in time where the caches cannot hold it."""
    reads = sch.get(dot).reads
    sizes = [_size(r.source) if n else 0 for n, r in enumerate(reads)]  # 0: the accumulators
    index = sizes.index(max(sizes))
    if sizes[index] > unit.l2 // 2:
        source = reads[index].source
        run = int(source.shape[-1]) * tvm_ffi.dtype(str(source.dtype)).bits // 8
        prefetch(sch, at, dot, index, run, n)


def _size(buffer: Any) -> int:
    return math.prod(int(e) for e in buffer.shape) * tvm_ffi.dtype(str(buffer.dtype)).bits // 8


def _need(sch: s_tir.Schedule, name: str) -> SBlockRV:
    block = find_role(sch, name)
    if block is None:
        raise ValueError(f"no block has the role {name}")
    return block


def _last(sch: s_tir.Schedule, total: SBlockRV) -> SBlockRV:
    """Inline what follows the totals into one last block."""
    return inline_epilogue(sch, total)


def _divisor(n: int, most: int) -> int:
    return max(d for d in range(1, min(n, most) + 1) if n % d == 0)
