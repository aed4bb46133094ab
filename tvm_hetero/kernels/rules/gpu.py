"""Schedules for GPUs: TVM's dlight rules.

The specialised rules come first, and Fallback, which binds any spatial loops to threads, last.
The packed kernels have no rule of their own here yet: where dlight takes one for a product of
matrices and then fails on its epilogue, Fallback alone makes it correct, but slow. A place for
CUDA is the work of a later issue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm
from tvm import tirx

if TYPE_CHECKING:
    from tvm.target import Target


def schedule_gpu(func: tirx.PrimFunc, target: Target, *, specialised: bool) -> tirx.PrimFunc:
    """The function with its loops bound to blocks and threads.

    Parameters
    ----------
    func
        A fused PrimFunc.
    target
        A GPU target.
    specialised
        Try the rules for products and reductions before Fallback.
    """
    from tvm.s_tir import dlight

    gpu = dlight.gpu
    rules = [gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction()]
    mod = tvm.IRModule({"main": func})
    with target:
        chosen = [*(rules if specialised else []), gpu.Fallback()]
        return dlight.ApplyDefaultSchedule(*chosen)(mod)["main"]
