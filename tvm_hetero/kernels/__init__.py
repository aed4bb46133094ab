"""Kernels: operators that are computed in ways of our own, and the schedules of all kernels.

Own ways have products and convolutions (weights packed, of 8 or 4 bits too), attention over a
cache, recurrences, poolings, sums and softmax, gathers and scatters; all else is as TVM legalises
it.

``LowerToTasks`` (tvm_hetero.passes.lower_to_tasks) asks `legalize` which operators are built here
and how; `schedule_kernel` (`select`) schedules each kernel for the target on which it runs. Each
folder stands on those before it:

    tir           tools for functions of TIR, of no operator in particular
    indexing      what keeps indices that stand in data within bounds
    cpu           what a target's CPU is, and instructions that TVM has no name for
    gather_scatter    whose indices may be counted from the end
    rowwise       poolings, softmax, sums, transpositions, concatenations
    matmul        matrix products, packed
    quantized     products with weights of 8 or 4 bits
    attention     over a cache that the kernel writes
    recurrent     LSTM, GRU and RNN, all steps of a direction in one kernel
    convolution   packed and depthwise; winograd: 3x3 windows with a quarter of the products
    rules         which schedules there are for CPUs, and those of everything else and for GPUs
    tuning        spaces of schedules, and what a search found as text
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm import tirx
    from tvm.target import Target

__all__ = ["schedule_kernel"]


def schedule_kernel(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The kernel, scheduled for ``target``; see `select.schedule_kernel`. One that was scheduled
    lately is not scheduled again.
    """
    return _schedule()(func, target)


@cache
def _schedule() -> Callable[[tirx.PrimFunc, Target], tirx.PrimFunc]:
    from tvm_hetero.kernels.select import schedule_kernel as schedule
    from tvm_hetero.kernels.tir.memo import scheduled_once

    return scheduled_once(schedule)
