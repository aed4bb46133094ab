"""Schedules for GPUs: TVM's dlight rules.

The specialised rules come first, and Fallback, which binds any spatial loops to threads, last. The
rule for products of matrices takes packed convolutions too, as products of the points with the
output channels (an implicit GEMM in shared memory), with what follows in the epilogue. Where a rule
fails on its kernel, Fallback alone makes it correct, but slow.

A reduction of several values at once (the greatest value and its index) has no cross-thread form
that TVM can lower, though dlight makes one: only Fallback is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm
from tvm import s_tir, tirx

from tvm_hetero.kernels.tir.block_roles import blocks_of

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
    if _reduces_several(func):
        specialised = False
    with target:
        chosen = [*(rules if specialised else []), gpu.Fallback()]
        return dlight.ApplyDefaultSchedule(*chosen)(mod)["main"]


def _reduces_several(func: tirx.PrimFunc) -> bool:
    """Whether a block of the function reduces to more than one buffer."""
    sch = s_tir.Schedule(func)
    blocks = map(sch.get, blocks_of(sch))
    return any(block.init is not None and len(block.writes) > 1 for block in blocks)
