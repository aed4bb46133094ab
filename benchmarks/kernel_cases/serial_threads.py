"""What a schedule for a GPU computes, found without one: its threads one after the other.

In a schedule, before TVM lowers it, threads are loops and shared memory is memory: loops in their
place compute the same, on a core. What nvcc and the lowering make of it is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from tvm_hetero.kernels.cpu.compilation import build

Arrays = list[np.ndarray[Any, Any]]
_HOST = Target({"kind": "llvm", "opt-level": 0})


def serial(func: tirx.PrimFunc, backwards: bool = False) -> tirx.PrimFunc:
    """A scheduled function with loops for its threads; `backwards`, the last block comes first.

    What two blocks of threads write to the same place is not the same then.
    """
    serial_kind = tirx.ForKind.SERIAL

    def loop(node: tirx.For) -> tirx.Stmt:
        var, body = node.loop_var, node.body
        tag = "" if node.thread_binding is None else str(node.thread_binding.thread_tag)
        if backwards and tag.startswith("blockIdx"):
            turned = node.extent - 1 - var
            body = tvm_ffi.structural_map(body, (tirx.Var, _instead(var, turned)))
        elif node.kind not in (tirx.ForKind.THREAD_BINDING, tirx.ForKind.VECTORIZED):
            return node
        return tirx.For(var, node.min, node.extent, serial_kind, body)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, loop)))


def _instead(var: tirx.Var, other: Any) -> Callable[[tirx.Var], Any]:
    return lambda each: other if each.same_as(var) else each


def called(func: tirx.PrimFunc, arguments: Sequence[np.ndarray[Any, Any]]) -> Arrays:
    """What a function of the host makes of its arguments."""
    library = build(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), _HOST)
    tensors = [tvm.runtime.tensor(each) for each in arguments]
    library["main"](*tensors)
    return [each.numpy() for each in tensors]
