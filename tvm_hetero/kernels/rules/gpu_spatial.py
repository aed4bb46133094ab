"""Schedules for GPUs where no rule of dlight is right: a thread for each value of a result.

dlight's own last rule computes what follows a reduction inside of it, and TVM 0.27 then adds a bias
once with each term of the sum, and cuts each partial sum off at zero. Here what follows a reduction
stays a part of its own, and the sum is in a register of its thread until it is whole.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tvm import tirx
from tvm.s_tir import ScheduleError

from tvm_hetero.kernels.tir.block_roles import blocks_of
from tvm_hetero.kernels.tir.unchecked_schedule import quick_schedule

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV

# Of a block of threads: small ones leave no one idle where a kernel has few values.
_THREADS = 128


def schedule_spatial(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with the loops over results bound to threads.

    Raises
    ------
    ValueError
        If a block's loops are not those over its values, as where it is written out.
    """
    from tvm.s_tir.dlight.analysis import normalize_prim_func

    sch = quick_schedule(func)
    for block in blocks_of(sch)[:-1]:
        with suppress(ScheduleError):  # of an output or a reduction
            sch.compute_inline(block)
    found = normalize_prim_func(sch)
    if found is None:
        raise ValueError("its blocks are not computed value by value")
    for info in found:
        _bind(sch, info.block_rv, info.dom_kind())
    return sch.mod["main"]


def _bind(sch: Schedule, block: SBlockRV, kinds: str) -> None:
    """Bind the loops of one block; of a reduction the sum is kept in a register."""
    loops = dict(zip(sch.get_loops(block), kinds, strict=True))
    if set(kinds) - {"S", "R"}:
        raise ValueError("a block is neither spatial nor a reduction")
    over_values = [loop for loop, kind in loops.items() if kind == "S"]
    over_terms = [loop for loop, kind in loops.items() if kind == "R"]
    if not over_values:
        over_values = [sch.add_unit_loop(over_terms[0] if over_terms else block)]
    sch.reorder(*over_values, *over_terms)
    values = sch.fuse(*over_values)
    if over_terms:
        _keep_sum(sch, block, values)
    first, thread = sch.split(values, factors=[None, _THREADS])
    sch.bind(first, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if over_terms:
        sch.decompose_reduction(block, over_terms[0])


def _keep_sum(sch: Schedule, block: SBlockRV, values: LoopRV) -> None:
    """A reduction in a register; that of several values at once, which TVM cannot cache, is not.

    Before the loop over values is split: a block that is moved below a loop that reaches beyond the
    values is given no condition.
    """
    if len(sch.get(block).writes) == 1:
        copy = sch.cache_write(block, 0, "local")
        sch.reverse_compute_at(copy, values)
