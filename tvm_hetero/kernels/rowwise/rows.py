"""Kernels that work row by row: softmax, layer and RMS norm, sums and maxima of trailing axes.

A kernel is of this family when everything that it reduces are the last axes of what it reads, so
that a row is one contiguous range, and when every row is independent of the others:

    for row in rows (parallel):           all blocks of the kernel inside, so that a row is read
        partial[0..P) = 0                 from memory once and its parts stay in the first cache
        for k in N / P:                   `_partial_sums`: P sums side by side, in registers
            partial[0..P) += x[k P ..]
        total = sum of partial            `_halve`: by steps, as vectors while there are enough
        y[0..N) = f(x[0..N), total)       plain loops, which LLVM vectorises

A sum into one variable takes one step in four cycles; P sums in registers take as many as loads
come. P is a divisor of N of at most `_MOST_PARTIAL`, whole registers if there is one such: loops
with a rest would put a condition on each value (and `compute_at` forgets that condition, TVM
0.27: wrong results). P does not depend on the target, so neither does the order in which the
values are added: the bits of a sum are the same with AVX2 and AVX-512. Where N has no such
divisor, as a prime, the kernel is left to `generic`.

Measured beside TVM's default and ONNX Runtime: `python -m benchmarks.kernels --family
softmax,layernorm,reduction` (benchmarks/results/kernels.json).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import tirx

from tvm_hetero.kernels.tir.block_roles import blocks_of, role_of
from tvm_hetero.kernels.tir.blocks import accesses, bindings, extent_of, is_copy, is_reduction, uses
from tvm_hetero.kernels.tir.multicore import share

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# The role of a sum over what is left of a row behind whole registers: a plain loop.
REST = "rows.rest"

_SHORTEST = 32
_MOST_PARTIAL = 64
_REGISTER = 16
_FEW = 8
_GOOD_FILL = 2.5


@dataclass(frozen=True)
class _Loops:
    """Loops of a block: over what it computes, and over what it reduces."""

    spatial: list[LoopRV]
    reduced: list[LoopRV]


def schedule_rows(sch: Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it is no kernel of rows."""
    reductions = [block for block in blocks_of(sch) if is_reduction(sch, block)]
    long = [block for block in reductions if role_of(sch, block) != REST]
    if not long or not all(_reduces_rows(sch, block) for block in long):
        return False
    _inline(sch)
    reductions = [block for block in blocks_of(sch) if is_reduction(sch, block)]
    rank, count = _rows_of(sch, reductions)
    long = [block for block in reductions if role_of(sch, block) != REST]
    partial = [part for block in long for part in _partial_sums(sch, block)]
    *before, last = blocks_of(sch)
    row = _row_loop(sch, last, rank)
    if extent_of(sch, row) != count:
        raise ValueError("what is computed from the sums has other rows")
    inside = len(sch.get_loops(last)) - 1
    outer = 1
    if (inner := share(sch, [row], cores)) is not None:
        row, outer = inner, len(sch.get_loops(last)) - inside
    for block in reversed(before):
        sch.compute_at(block, row, preserve_unit_loops=True)
    for block in before:
        _keep_scalar(sch, block, outer)
    for block in partial:
        _keep_in_registers(sch, block, outer, unit)
    return True


def _loops(sch: Schedule, block: SBlockRV) -> _Loops:
    """The block's loops by the kind of the dimension that each runs over."""
    pairs = list(zip(sch.get(block).iter_vars, bindings(sch, block), strict=True))
    spatial: list[LoopRV] = []
    reduced: list[LoopRV] = []
    for loop in sch.get_loops(block):
        var = sch.get(loop).loop_var
        kinds = {int(v.iter_type) for v, value in pairs if uses(value, var)}
        (reduced if tirx.IterVar.CommReduce in kinds else spatial).append(loop)
    return _Loops(spatial, reduced)


def _rows_of(sch: Schedule, reductions: Sequence[SBlockRV]) -> tuple[int, int]:
    """How many leading dimensions the rows have, and how many rows there are."""
    spatial = [_loops(sch, block).spatial for block in reductions]
    extents = [[extent_of(sch, loop) for loop in loops] for loops in spatial]
    if len({math.prod(of) for of in extents}) != 1:
        raise ValueError("reductions over different rows")
    rows = extents[0]
    while rows and rows[-1] == 1:
        rows.pop()
    return len(rows), math.prod(rows)


def _length(sch: Schedule, block: SBlockRV) -> int:
    kinds = sch.get(block).iter_vars
    return math.prod(int(v.dom.extent) for v in kinds if v.iter_type == tirx.IterVar.CommReduce)


def _reduces_rows(sch: Schedule, block: SBlockRV) -> bool:
    """Long rows, one result, and what is reduced stands last in every read, whole and in order."""
    node = sch.get(block)
    if len(node.writes) != 1 or (length := _length(sch, block)) < _SHORTEST:
        return False
    if not has_partials(length):
        return False
    reduced = [v for v in node.iter_vars if v.iter_type == tirx.IterVar.CommReduce]
    variables = [v.var for v in reduced]
    extents = [int(v.dom.extent) for v in reduced]
    for indices, shape in accesses(node):
        if not any(uses(index, v) for index in indices for v in variables):
            continue
        tail = indices[-len(variables) :]
        whole = shape[len(shape) - len(extents) + 1 :] == extents[1:]
        if not whole or not all(a.same_as(b) for a, b in zip(tail, variables, strict=True)):
            return False
    return True


def _partials(length: int) -> int:
    """How many sums side by side: a divisor that fills registers; the larger of two as good."""
    divisors = [d for d in range(1, _MOST_PARTIAL + 1) if length % d == 0 and 2 * d <= length]
    long_enough = [d for d in divisors if d >= _FEW]
    return max(long_enough, key=_fill, default=1)


def has_partials(length: int) -> bool:
    """True where a row of this length can be summed side by side at all."""
    return _partials(length) > 1


def fills_registers(length: int) -> bool:
    """True where a row of this length has a divisor that makes good use of the registers."""
    return has_partials(length) and _fill(_partials(length))[0] >= _GOOD_FILL


def _fill(partials: int) -> tuple[float, int]:
    registers = math.ceil(partials / _REGISTER)
    # Four accumulators hide the latency of the addition; more only make the end longer.
    return (min(registers, 4) * partials / (registers * _REGISTER), -partials)


def _inline(sch: Schedule) -> None:
    """Inline what one block alone reads, and what is as cheap to compute again as to load."""
    for block in blocks_of(sch):
        consumers = sch.get_consumers(block)
        if not consumers or is_reduction(sch, block):
            continue
        if len(consumers) == 1 or is_copy(sch, block):
            sch.compute_inline(block)


def _partial_sums(sch: Schedule, block: SBlockRV) -> list[SBlockRV]:
    """Split one sum into many; returns the blocks that hold partial ones, the widest first."""
    loops = _loops(sch, block)
    loop = loops.reduced[0] if len(loops.reduced) == 1 else sch.fuse(*loops.reduced)
    axis, width = len(loops.spatial), _partials(extent_of(sch, loop))
    _, inner = sch.split(loop, [None, width])
    chain = [sch.rfactor(inner, axis)]
    while (step := _halve(width)) > 1:
        width //= step
        _, inner = sch.split(sch.get_loops(block)[-1], [step, width])
        chain.append(sch.rfactor(inner, axis))
    return chain


def _halve(width: int) -> int:
    """By how much to divide a row of partial sums next: 1 where it is short enough."""
    if width <= 4:
        return 1
    return next((d for d in (4, 2, 3, 5, 7) if width % d == 0 and width > d), 1)


def _row_loop(sch: Schedule, last: SBlockRV, rank: int) -> LoopRV:
    """The loops of the last block that run over rows, as one."""
    rows = _loops(sch, last).spatial[:rank]
    if not rows:
        return sch.add_unit_loop((*sch.get_loops(last), last)[0])
    return rows[0] if len(rows) == 1 else sch.fuse(*rows)


def _keep_scalar(sch: Schedule, block: SBlockRV, outer: int) -> None:
    """A row's maximum, sum or mean as a variable of its own.

    In the body of a parallel loop LLVM no longer knows that buffers are apart: it would load the
    sum again for each value of the row.
    """
    if all(extent_of(sch, loop) == 1 for loop in _loops(sch, block).spatial[outer:]):
        sch.set_scope(block, 0, "local")


def _keep_in_registers(sch: Schedule, block: SBlockRV, outer: int, unit: VectorUnit) -> None:
    loops = _loops(sch, block)
    (steps,) = loops.reduced
    sums = max(loops.spatial[outer:], key=lambda loop: extent_of(sch, loop))
    sch.reorder(steps, sums)
    width = extent_of(sch, sums)
    if width > unit.lanes and width % unit.lanes == 0:
        vectors, sums = sch.split(sums, [None, unit.lanes])
        sch.unroll(vectors)
    sch.vectorize(sums)
    sch.decompose_reduction(block, steps)
    sch.set_scope(block, 0, "local")
