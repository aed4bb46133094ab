"""The schedule of every kernel that no special rule fits: element-wise, pooling, reductions.

Nothing here changes what is computed or in which order a sum is added, so results do not depend
on the schedule. The loops are only put into the shape that LLVM's own vectoriser wants:

    producers of one consumer       inlined (`_inline_injective`), never into a reduction that
                                    would compute them again for every output
    padding                         a fill and a copy instead of a condition for each value
                                    (`_decompose_padding`)
    small windows                   (pooling, depthwise convolution) unrolled, so that the row
                                    of outputs is the innermost loop (`_unroll_window`)
    long reductions                 eight outputs at a time, since one sum can only take one
                                    step in four cycles (`_interleave`)
    trailing dimensions             joined where all accesses allow it (`_join_trailing`)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from .roles import blocks_of

if TYPE_CHECKING:
    from tvm.s_tir.schedule import LoopRV, SBlockRV

_LARGEST_WINDOW = 50
_INTERLEAVED = 8


def schedule_generic(sch: s_tir.Schedule, cores: int) -> None:
    """Schedule every block of ``main`` in place; steps that do not apply are left out."""
    for block in blocks_of(sch):
        _attempt(_inline_injective, sch, block)
    for block in blocks_of(sch):
        _attempt(_decompose_padding, sch, block)
    for block in blocks_of(sch):
        step = _schedule_reduction if _is_reduction(sch, block) else _join_trailing
        _attempt(step, sch, block)
    if cores > 1:
        for block in blocks_of(sch):
            _attempt(_parallel, sch, block, cores)


def _attempt(step: Callable[..., None], *args: Any) -> None:
    """Take a step of which only TVM knows whether it applies; a refusal changes nothing."""
    with contextlib.suppress(RuntimeError, ValueError):
        step(*args)


def _is_reduction(sch: s_tir.Schedule, block: SBlockRV) -> bool:
    return any(v.iter_type == tirx.IterVar.CommReduce for v in sch.get(block).iter_vars)


def _is_padding(sch: s_tir.Schedule, block: SBlockRV) -> bool:
    return "pad" in str(sch.get(block).name_hint)


def _inline_injective(sch: s_tir.Schedule, block: SBlockRV) -> None:
    consumers = sch.get_consumers(block)
    if not consumers or _is_reduction(sch, block) or _is_padding(sch, block):
        return
    if len(consumers) == 1 and not _is_reduction(sch, consumers[0]):
        sch.compute_inline(block)


def _decompose_padding(sch: s_tir.Schedule, block: SBlockRV) -> None:
    loops = sch.get_loops(block)
    if _is_padding(sch, block) and len(loops) > 2:
        sch.decompose_padding(block, loops[2])


def _schedule_reduction(sch: s_tir.Schedule, block: SBlockRV) -> None:
    loops = sch.get_loops(block)
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    spatial = [lp for lp, kind in zip(loops, kinds, strict=True) if kind == tirx.IterVar.DataPar]
    reduced = [lp for lp, kind in zip(loops, kinds, strict=True) if kind != tirx.IterVar.DataPar]
    window = math.prod(int(sch.get(loop).extent) for loop in reduced)
    row = int(sch.get(spatial[-1]).extent) if spatial else 1
    if window <= _LARGEST_WINDOW and row > 1:
        for loop in reduced:
            sch.unroll(loop)
    else:
        _interleave(sch, block, spatial, reduced)


def _interleave(
    sch: s_tir.Schedule, block: SBlockRV, spatial: list[LoopRV], reduced: list[LoopRV]
) -> None:
    long = [loop for loop in spatial if int(sch.get(loop).extent) > 1]
    if not long:
        return
    extent = int(sch.get(long[-1]).extent)
    together = max(d for d in range(1, _INTERLEAVED + 1) if extent % d == 0)
    if together == 1:
        return
    outer, inner = sch.split(long[-1], [None, together])
    sch.reorder(outer, *reduced, inner)
    sch.unroll(inner)
    sch.decompose_reduction(block, reduced[0])


def _join_trailing(sch: s_tir.Schedule, block: SBlockRV) -> None:
    """Join the innermost loops that every access sees as one contiguous range."""
    loops = sch.get_loops(block)
    joined = _joinable(sch.get(block), [int(sch.get(loop).extent) for loop in loops])
    if joined > 1:
        sch.fuse(*loops[-joined:])


def _joinable(block: tirx.SBlock, extents: list[int]) -> int:
    """How many trailing loops each buffer access either ignores or covers, whole and in order."""
    variables = [v.var for v in block.iter_vars]
    if len(variables) != len(extents):
        return 1
    accesses = _accesses(block)
    count = 1
    for first in range(len(variables) - 1, -1, -1):
        tail = variables[first:]
        if not all(_covers(indices, shape, tail, extents[first:]) for indices, shape in accesses):
            break
        count = len(tail)
    return count


def _accesses(block: tirx.SBlock) -> list[tuple[list[tirx.PrimExpr], list[int]]]:
    found: list[tuple[list[tirx.PrimExpr], list[int]]] = []

    def load(node: TensorLoad) -> None:
        found.append((list(node.indices), [int(e) for e in node.source.shape]))

    def store(node: tirx.BufferStore) -> None:
        found.append((list(node.indices), [int(e) for e in node.buffer.shape]))

    tvm_ffi.structural_walk(block.body, [(TensorLoad, load), (tirx.BufferStore, store)])
    return found


def _covers(
    indices: list[tirx.PrimExpr], shape: list[int], tail: list[tirx.Var], extents: list[int]
) -> bool:
    used = [i for i in indices if any(_uses(i, v) for v in tail)]
    if not used:
        return True
    last = indices[-len(tail) :]
    return (
        len(used) == len(tail)
        and all(index.same_as(v) for index, v in zip(last, tail, strict=True))
        and shape[len(shape) - len(tail) + 1 :] == extents[1:]
    )


def _uses(expr: tirx.PrimExpr, var: tirx.Var) -> bool:
    hit = False

    def visit(node: tirx.Var) -> None:
        nonlocal hit
        hit = hit or node.same_as(var)

    tvm_ffi.structural_walk(expr, (tirx.Var, visit))
    return hit


def _parallel(sch: s_tir.Schedule, block: SBlockRV, cores: int) -> None:
    loops = [loop for loop in sch.get_loops(block) if int(sch.get(loop).extent) >= cores]
    if loops:
        sch.parallel(loops[0])
