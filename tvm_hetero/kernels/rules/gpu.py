"""Schedules for GPUs: TVM's dlight rules for products and reductions.

The rule for products of matrices takes packed convolutions too, as products of the points with the
output channels (an implicit GEMM in shared memory), with what follows in the epilogue. What no rule
takes, or takes wrongly, and short sums are for `gpu_spatial`.

A reduction of several values at once (the greatest value and its index) has no cross-thread form
that TVM can lower, though dlight makes one. Other schedules that are wrong: `gpu_soundness`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tvm
from tvm import s_tir, tirx

from tvm_hetero.kernels.rules.gpu_one_thread import is_bound
from tvm_hetero.kernels.rules.gpu_soundness import is_sound, reduces
from tvm_hetero.kernels.tir.block_roles import blocks_of

if TYPE_CHECKING:
    from tvm.target import Target

# From so many terms on, threads share a sum: a warp's. Nine terms of a depthwise convolution had a
# block of 256 threads for each value.
_LONG = 32
# An architecture without tensor cores. Rules for these are left out: one does not compile
# (bytes), and what they make has blocks that `gpu_soundness` cannot look into. To be asked at all
# (and to decline, by an attribute) they load TVM's intrinsics, which takes 5 to 40 s a process.
_NO_TENSOR_CORES = "sm_61"


def schedule_gpu(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The function with its loops bound to blocks and threads.

    Parameters
    ----------
    func
        A fused PrimFunc.
    target
        A GPU target.

    Raises
    ------
    ValueError
        If no rule takes it, or one takes it wrongly.
    """
    from tvm.s_tir import dlight

    sch = s_tir.Schedule(func)
    sums = [block for block in map(sch.get, blocks_of(sch)) if reduces(block)]
    if any(len(block.writes) > 1 for block in sums):
        raise ValueError("it reduces to several values at once")
    gpu = dlight.gpu
    rules = [gpu.Matmul()]
    if max((_terms(block) for block in sums), default=0) >= _LONG:
        rules += [gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction()]
    with _without_tensor_cores(target):
        done = dlight.ApplyDefaultSchedule(*rules)(tvm.IRModule({"main": func}))["main"]
    if not is_bound(done):
        raise ValueError("no rule binds it to threads")
    if not is_sound(done):
        raise ValueError("a rule took it, wrongly")
    return done


def _without_tensor_cores(target: Target) -> Target:
    """The target as rules are to see it; what they make is compiled for `target` itself."""
    if target.kind.name != "cuda":
        return target
    return tvm.target.Target({**target.export(), "arch": _NO_TENSOR_CORES})


def _terms(block: s_tir.SBlock) -> int:
    """How many terms each sum of a block has."""
    axes = (each for each in block.iter_vars if each.iter_type == tirx.IterVar.CommReduce)
    return math.prod(int(each.dom.extent) for each in axes)
