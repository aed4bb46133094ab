"""The threads of a GPU, for kernels that are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.nests import INDEX, range_of
from tvm_hetero.kernels.tir.statements import sequence, whole

if TYPE_CHECKING:
    from tvm_hetero.kernels.tir.statements import Body

    Expr = Any


class Threads:
    """Loops whose steps are the threads of a GPU; what they share is in its shared memory.

    In its place the tests have plain loops, since they run where there is no GPU.
    """

    scope = "shared"

    def loop(self, tag: str, extent: int, body: Callable[[Expr], Body]) -> tirx.Stmt:
        """A loop over the threads, or blocks of threads, that ``tag`` names."""
        var = tirx.Var(tag.replace(".", "_"), INDEX)
        kind = tirx.IterVar.ThreadIndex
        thread = tirx.IterVar(range_of(0, extent), tirx.Var(tag, INDEX), kind, tag)
        steps = whole(0), whole(extent), tirx.ForKind.THREAD_BINDING
        return tirx.For(var, *steps, sequence(body(var)), thread)

    def barrier(self) -> list[tirx.Stmt]:
        """Until all threads of a block are there: for what they wrote into other memory."""
        sync = tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared")
        return [tirx.Evaluate(sync)]
