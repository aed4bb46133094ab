"""How the loops of a kernel are shared among cores.

A fork and join of TVM's thread pool costs microseconds, as much as a kernel of tens of thousands of
values that are only multiplied, so a kernel of fewer than `_SMALLEST` values stays on one core.

A few grains for each core, so that none waits long for the last one, but not one for each row:
TVM allocates what a row needs in each iteration of a parallel loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV

GRAINS = 4
_SMALLEST = 1 << 16


def share(sch: Schedule, loops: Sequence[LoopRV], cores: int) -> LoopRV | None:
    """Share the outermost loops, which must follow one another directly, among the cores.

    Parameters
    ----------
    sch
        The schedule.
    loops
        Loops without a dependence between their iterations, outermost first.
    cores
        How many cores there are. With one, nothing happens.

    Returns
    -------
    LoopRV or None
        The innermost of the loops as they are now; None where nothing is shared.

    Notes
    -----
    Before `decompose_reduction`: the halves of a reduction are no complete blocks for TVM, and
    it makes no loop around them parallel.
    """
    if cores < 2 or not loops or _work(sch) < _SMALLEST:
        return None
    taken, grains = 0, 1
    while taken < len(loops) and grains < GRAINS * cores:
        grains *= int(sch.get(loops[taken]).extent)
        taken += 1
    if grains < 2:
        return None
    loop = loops[0] if taken == 1 else sch.fuse(*loops[:taken])
    parts = next(d for d in range(min(grains, GRAINS * cores), grains + 1) if grains % d == 0)
    inner = loop
    if parts < grains:
        loop, inner = sch.split(loop, [parts, None])
    sch.parallel(loop)
    return inner if taken == len(loops) else loops[-1]


def _work(sch: Schedule) -> int:
    """Values of the largest buffer that the kernel reads or writes."""
    function = sch.mod["main"]
    return max(
        (math.prod(int(e) for e in p.shape) for p in function.params if hasattr(p, "shape")),
        default=0,
    )


def share_longest(sch: Schedule, loops: Sequence[LoopRV], cores: int) -> None:
    """Share the outermost loop that has grains enough among the cores, else the longest.

    For nests whose loops stay as they are (`packed` overlaps their tiles afterwards), and whose
    work is always worth a fork.
    """
    if cores < 2:
        return
    enough = [loop for loop in loops if int(sch.get(loop).extent) >= GRAINS * cores]
    chosen = enough[0] if enough else max(loops, key=lambda loop: int(sch.get(loop).extent))
    if int(sch.get(chosen).extent) > 1:
        sch.parallel(chosen)
