"""What a schedule for a GPU computes, found without one: its threads one after the other.

In a schedule, before TVM lowers it, threads are loops and shared memory is memory: loops in their
place compute the same, on a core. What nvcc and the lowering make of it is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from tvm_hetero.kernels.cpu.compilation import build

Arrays = list[np.ndarray[Any, Any]]
_HOST = Target({"kind": "llvm", "opt-level": 0})


def serial(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled function with loops for its threads, which run one after the other.

    What two threads write to the same place, as chance has it, is not seen, nor that a thread reads
    what another one has: these are for `tvm_hetero.kernels.rules.gpu_soundness`.
    """
    threads = (tirx.ForKind.THREAD_BINDING, tirx.ForKind.VECTORIZED)

    def loop(node: tirx.For) -> tirx.Stmt:
        if node.kind not in threads:
            return node
        return tirx.For(node.loop_var, node.min, node.extent, tirx.ForKind.SERIAL, node.body)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, loop)))


def called(func: tirx.PrimFunc, arguments: Sequence[np.ndarray[Any, Any]]) -> Arrays:
    """What a function of the host makes of its arguments."""
    library = build(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), _HOST)
    tensors = [tvm.runtime.tensor(each) for each in arguments]
    library["main"](*tensors)
    return [each.numpy() for each in tensors]
