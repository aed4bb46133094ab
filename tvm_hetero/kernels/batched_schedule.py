"""How a kernel that computes several elements at once is scheduled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .batched import batch_of_kernel, repeated, shared_of, single

if TYPE_CHECKING:
    from tvm import tirx
    from tvm.target import Target

    Schedule = Callable[[tirx.PrimFunc, Target], tirx.PrimFunc]


def schedule_batched(func: tirx.PrimFunc, target: Target, schedule: Schedule) -> tirx.PrimFunc:
    """A batched kernel, scheduled for a target: what `select.schedule_kernel` makes of it.

    Parameters
    ----------
    func
        The kernel, not scheduled.
    target
        For which target.
    schedule
        How a kernel of one element is scheduled.
    """
    return repeated(schedule(single(func), target), batch_of_kernel(func), shared_of(func))
