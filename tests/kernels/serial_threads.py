"""What a schedule for a GPU computes, found without one: its threads one after the other.

In a schedule, before TVM lowers it, threads are loops and shared memory is memory: loops in their
place compute the same, on a core. What nvcc and the lowering make of it is not seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tests.kernels.helpers import REFERENCE
from tvm_hetero.kernels.cpu.compilation import build

Arrays = list[np.ndarray[Any, Any]]


def serial(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled function with loops for its threads, and memory of the host for shared memory."""

    def loop(node: tirx.For) -> tirx.Stmt:
        if node.kind == tirx.ForKind.THREAD_BINDING:
            return tirx.For(node.loop_var, node.min, node.extent, tirx.ForKind.SERIAL, node.body)
        if node.kind == tirx.ForKind.VECTORIZED:
            return tirx.For(node.loop_var, node.min, node.extent, tirx.ForKind.SERIAL, node.body)
        return node

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, loop)))


def called(func: tirx.PrimFunc, arguments: Arrays) -> Arrays:
    """What a function of the host makes of its arguments."""
    library = build(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), REFERENCE)
    tensors = [tvm.runtime.tensor(each) for each in arguments]
    library["main"](*tensors)
    return [each.numpy() for each in tensors]


__all__ = ["called", "s_tir", "serial"]
