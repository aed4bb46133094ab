"""How the loops of a kernel are shared among cores.

A fork and join of TVM's thread pool costs 2 to 5 microseconds here, so a kernel that is done in
less than about four times that stays on one core: `_SMALLEST` values of work (a value read or
written is 4 bytes; 64 KiB at the 5 to 15 bytes a cycle of our kernels are 2 to 4 microseconds).
More grains than cores, so that no core waits long for the last one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV

GRAINS = 4
_SMALLEST = 1 << 14


def share(sch: Schedule, loops: Sequence[LoopRV], cores: int) -> None:
    """Share the outermost loops, which must follow one another directly, among the cores.

    Parameters
    ----------
    sch
        The schedule.
    loops
        Loops without a dependence between their iterations, outermost first.
    cores
        How many cores there are. With one, nothing happens.
    """
    if cores < 2 or not loops or _work(sch) < _SMALLEST:
        return
    taken, grains = 0, 1
    while taken < len(loops) and grains < GRAINS * cores:
        grains *= int(sch.get(loops[taken]).extent)
        taken += 1
    if grains > 1:
        sch.parallel(loops[0] if taken == 1 else sch.fuse(*loops[:taken]))


def _work(sch: Schedule) -> int:
    """Values of the largest buffer that the kernel reads or writes."""
    function = sch.mod["main"]
    return max(
        (math.prod(int(e) for e in p.shape) for p in function.params if hasattr(p, "shape")),
        default=0,
    )
