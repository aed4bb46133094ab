"""Recurrences (`recurrent.kernel`) on a GPU: right, and no more than that.

A block of threads for each sequence, a thread for each unit or several: all steps in one launch,
with the states in the block's shared memory and a barrier after each group of gates. Threads side
by side read weights side by side. No loop over units has a condition around what it shares, since
units are filled up to a multiple of the threads.

Lengths are not refused here, where no one could be told, but taken for the nearest that can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.recurrent.frame import RecurrentFrame, RecurrentTile
from tvm_hetero.kernels.recurrent.layout import layout_of
from tvm_hetero.kernels.recurrent.recurrence import Recurrence
from tvm_hetero.kernels.recurrent.steps import RecurrentLoops, RecurrentSteps
from tvm_hetero.kernels.recurrent.tensors import recurrent_scratch, recurrent_tensors
from tvm_hetero.kernels.tir.kernel_attr import RECURRENT
from tvm_hetero.kernels.tir.statements import function, loop, when
from tvm_hetero.kernels.tir.threads import Threads

if TYPE_CHECKING:
    from tvm_hetero.kernels.tir.statements import Body

    Expr = Any

_THREADS = 256


class RecurrentThreads(RecurrentLoops):
    """Loops whose steps are threads of a block."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    def parts(self, parts: int, body: Callable[[Expr], Body]) -> list[tirx.Stmt]:
        """Loop over units, and wait for all threads."""
        return [self._shared_out(parts, body), *self._threads.barrier()]

    def units(self, extent: int, padded: int, body: Callable[[Expr], Body]) -> list[tirx.Stmt]:
        """Loop over units, of which those beyond the extent do nothing."""

        def one(unit: Expr) -> Body:
            return body(unit) if extent == padded else when(unit < extent, body(unit))

        return [self._shared_out(padded, one), *self._threads.barrier()]

    def _shared_out(self, extent: int, body: Callable[[Expr], Body]) -> tirx.Stmt:
        threads = max(d for d in range(1, min(extent, _THREADS) + 1) if extent % d == 0)

        def thread(x: Expr) -> tirx.Stmt:
            return loop("turn", extent // threads, lambda turn: body(turn * threads + x))

        return self._threads.loop("threadIdx.x", threads, thread)


def recurrence_on_gpu(r: Recurrence, threads: Threads = Threads()) -> tirx.PrimFunc:
    """The kernel for a GPU."""
    layout, tile = layout_of(r), RecurrentTile()
    gates = max(len(group.gates) for group in layout.groups)
    scratch = recurrent_scratch(r, layout, 1, 1, gates, threads.scope)
    tensors = recurrent_tensors(r, layout)

    def block(b: Expr) -> list[tirx.Stmt]:
        frame = RecurrentFrame(r, layout, tensors, scratch, tile, 1, b)
        return RecurrentSteps(frame, RecurrentThreads(threads)).body()

    body = threads.loop("blockIdx.x", r.batch, block)
    return function(tensors.params, body, RECURRENT, tensors.written, scratch.buffers)
