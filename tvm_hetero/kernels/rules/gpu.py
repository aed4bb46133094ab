"""Schedules for GPUs: TVM's dlight rules for products and reductions.

The rule for products of matrices takes packed convolutions too, as products of the points with the
output channels (an implicit GEMM in shared memory), with what follows in the epilogue. What no rule
takes, or takes wrongly, is for `gpu_spatial`.

A reduction of several values at once (the greatest value and its index) has no cross-thread form
that TVM can lower, though dlight makes one. And where dlight computes what follows a reduction
inside of it, TVM 0.27 adds a bias once with each term of the sum, and cuts each partial sum off at
zero: such a schedule is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.rules.gpu_one_thread import is_bound
from tvm_hetero.kernels.tir.block_roles import blocks_of

if TYPE_CHECKING:
    from tvm.target import Target


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

    if any(len(block.writes) > 1 for block in _reductions(func)):
        raise ValueError("it reduces to several values at once")
    gpu = dlight.gpu
    rules = [gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction()]
    with target:
        done = dlight.ApplyDefaultSchedule(*rules)(tvm.IRModule({"main": func}))["main"]
    if not is_bound(done):
        raise ValueError("no rule binds it to threads")
    if not sums_are_plain(done):
        raise ValueError("more than adding is done with each term of a sum")
    return done


def sums_are_plain(func: tirx.PrimFunc) -> bool:
    """Whether each reduction to one value only adds a term to it, or takes the greater of both.

    In ``y[i] = max(y[i] + a * b, 0)`` and ``y[i] = bias + (y[i] + a * b)`` more is done.
    """
    return all(_is_plain(block) for block in _reductions(func))


def _reductions(func: tirx.PrimFunc) -> list[s_tir.SBlock]:
    """The blocks that reduce."""
    sch = s_tir.Schedule(func)
    blocks = map(sch.get, blocks_of(sch))
    kind = tirx.IterVar.CommReduce
    return [b for b in blocks if any(each.iter_type == kind for each in b.iter_vars)]


def _is_plain(block: s_tir.SBlock) -> bool:
    """Whether an operand of what a reduction stores is what was there before."""
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return True
    operands = (getattr(store.value, "a", None), getattr(store.value, "b", None))
    before = [each for each in operands if isinstance(each, TensorLoad)]
    return any(each.source.same_as(store.buffer) for each in before)
