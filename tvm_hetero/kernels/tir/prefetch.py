"""Asking for weights before they are needed.

A core's own prefetcher follows a stream of weights at the pace at which they are used; a product of
16 rows uses them slowly and then waits at every new page. One prefetch instruction for each step of
the reduction, `DISTANCE` bytes ahead, hides the memory: on Zen 5 three pages ahead are as good as
constants that the caches hold, one page is not. On Sapphire Rapids, whose prefetches should stay
within a page of 4 KiB, less than a page is best, so a target may have its own distance. (What
kernels then reach: `python -m benchmarks.decode_kernels`; what asking gains convolutions:
`benchmarks.asking`.)

TVM has no schedule primitive for it: the loop is replaced in the schedule's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV

DISTANCE = 8192
LINE = 64
# Lines that a core takes for one piece of memory.
_PAIR = 2
# Into which caches: all of them; all but those that are near, for what is not used soon.
ALL, OUTER = 3, 1


def prefetch(
    sch: Schedule,
    loop: LoopRV,
    block: SBlockRV,
    read: int,
    run: int,
    runs: LoopRV | None = None,
    caches: int = ALL,
    ahead: int = DISTANCE,
) -> None:
    """Begin each step of ``loop`` by asking for what a block below it reads some steps later.

    The last thing that a schedule does: the loops below are those it ends with.

    Parameters
    ----------
    sch
        The schedule.
    loop
        The loop whose steps read the buffer one after the other.
    block
        A block below the loop.
    read
        Which of the block's reads.
    run
        Bytes side by side that one step reads.
    runs
        The loop below that goes over several such runs, where there are several.
    caches
        Into which.
    ahead
        How many bytes before they are read (`kernels.cpu.vector_unit.VectorUnit.ahead`).
    """
    region = sch.get(block).reads[read]
    bits = tvm_ffi.dtype(str(region.source.dtype)).bits
    count = 1 if runs is None else int(sch.get(runs).extent)
    steps = max(1, ahead // (run * count))
    lines = [
        prefetch_line(region.source, [*first[:-1], first[-1] + 8 * line // bits], caches)
        for first in _first_indices(sch, loop, block, [r.min for r in region.region], runs, steps)
        for line in _order(run)
    ]
    begin_with(sch, loop, lines)


def _order(run: int) -> Sequence[int]:
    """The lines of a run in the order in which they are asked for.

    Of two that stand side by side the second one first: an Intel core that is asked for both in
    their order, and that is what each step of 128 bytes does, brings the second one late.
    """
    lines = range(0, run, LINE)
    return lines[::-1] if len(lines) == _PAIR else lines


def begin_with(sch: Schedule, loop: LoopRV, statements: Sequence[tirx.Stmt]) -> None:
    """Put statements in front of what each step of a loop does."""
    node = sch.get(loop)
    body = tirx.SeqStmt([*statements, node.body])
    sch.state.replace(
        sch.get_sref(loop),
        tirx.For(node.loop_var, node.min, node.extent, node.kind, body, None, node.annotations),
    )


def _first_indices(
    sch: Schedule,
    loop: LoopRV,
    block: SBlockRV,
    indices: list[Any],
    runs: LoopRV | None,
    steps: int,
) -> list[list[Any]]:
    """Where each run of a block begins ``steps`` steps later, in variables of the outer loops."""
    realize = _realize_of(sch, loop, block)
    loops = [sch.get(lp).loop_var for lp in sch.get_loops(block)]
    here = sch.get(loop).loop_var
    at = next(i for i, var in enumerate(loops) if var.same_as(here))
    several = None if runs is None else sch.get(runs).loop_var
    iterators = tirx.IndexMap(loops, list(realize.iter_values), None)
    accesses = tirx.IndexMap([v.var for v in realize.block.iter_vars], indices, None)
    found = []
    for run in range(1 if runs is None else int(sch.get(runs).extent)):
        inner = [
            tirx.const(run if several is not None and var.same_as(several) else 0, "int64")
            for var in loops[at + 1 :]
        ]
        start = iterators.map_indices([*loops[:at], here + steps, *inner])
        found.append(list(accesses.map_indices(list(start))))
    return found


def _realize_of(sch: Schedule, loop: LoopRV, block: SBlockRV) -> s_tir.SBlockRealize:
    wanted, found = sch.get(block), []

    def visit(node: s_tir.SBlockRealize) -> None:
        if node.block.same_as(wanted):
            found.append(node)

    tvm_ffi.structural_walk(sch.get(loop), (s_tir.SBlockRealize, visit))
    return found[0]


def prefetch_line(buffer: tirx.Buffer, indices: list[Any], caches: int = ALL) -> tirx.Stmt:
    """Ask for the line of the cache that a value stands in."""
    address = tirx.address_of(tirx.BufferLoad(buffer, indices))
    # For reading, into these caches, data rather than instructions.
    flags = [tirx.const(flag, "int32") for flag in (0, caches, 1)]
    return tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *flags))
