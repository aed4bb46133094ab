"""Which tasks multiply bytes, noted in what a module promises of its accuracy."""

from __future__ import annotations

from dataclasses import replace

import tvm
import tvm_ffi
from tvm import s_tir

from tvm_hetero.kernels.tir.block_roles import BYTES_ATTR, BYTES_DOT
from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.precision_promise import promise_of, with_promise


def note_byte_tasks(mod: tvm.IRModule, tasks: ExtractedTasks) -> tvm.IRModule:
    """The lowered module, whose promise names the tasks that multiply bytes; as it is without one.

    Parameters
    ----------
    mod : with a promise of precision ``int8``.
    tasks : of it.
    """
    promise = promise_of(mod)
    if promise is None:
        return mod
    found = {kernel.name for kernel in tasks.kernels if multiplies_bytes(kernel.func)}
    names = [task for task, kernel in tasks.kernel_of.items() if kernel in found]
    return with_promise(mod, replace(promise, tasks=dict.fromkeys(names)))


def multiplies_bytes(func: tvm.tirx.PrimFunc) -> bool:
    """Whether a kernel, not scheduled yet, sums up products of bytes."""
    found: list[s_tir.SBlock] = []

    def visit(node: s_tir.SBlock) -> None:
        if BYTES_ATTR in node.annotations or BYTES_DOT in node.annotations:
            found.append(node)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, visit))
    return bool(found)
