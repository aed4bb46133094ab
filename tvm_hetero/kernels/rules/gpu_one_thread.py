"""Kernels on a GPU that no rule binds to threads: one thread does everything.

What goes step by step (a running sum, a sort, what is scattered) is a block without loops that a
rule could bind. As TVM gets it such a function is one of the host, which would read and write a
GPU's memory by itself: the process dies. One thread is slow, and measured costs say how slow.
"""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from tvm_hetero.kernels.tir.statements import sequence, whole
from tvm_hetero.kernels.tir.threads import Threads

_THREAD = "threadIdx.x"


def is_bound(func: tirx.PrimFunc) -> bool:
    """Whether threads of a GPU do what the function does, or other functions that it calls."""
    text = str(func.script())
    return "thread=" in text or "launch_thread" in text or "call_packed" in text


def on_one_thread(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with each of its parts, one after the other, on one thread.

    What it allocates is memory of the device, around the parts: TVM would move the allocation into
    the one part that uses it, where a thread can have no such memory. So another part, before them
    all, writes a value of each.

    Raises
    ------
    ValueError
        If the function is no root block.
    """
    realize = func.body
    if not isinstance(realize, s_tir.SBlockRealize):
        raise ValueError("a function without a root block")
    root = realize.block
    parts = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    written = _written_in(root.body)
    stores = [_store_first(buffer) for buffer in root.alloc_buffers if _is_outside(buffer, written)]
    parts = [sequence(stores), *parts] if stores else parts
    bound = [_bound(part) for part in parts]
    body = bound[0] if len(bound) == 1 else tirx.SeqStmt(bound)
    block = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, body, root.init,
        root.alloc_buffers, root.match_buffers, root.annotations,
    )  # fmt: skip
    return func.with_body(s_tir.SBlockRealize(realize.iter_values, realize.predicate, block))


def _bound(part: tirx.Stmt) -> tirx.Stmt:
    return Threads().loop(_THREAD, 1, lambda _: part)


def _written_in(body: tirx.Stmt) -> list[tirx.Var]:
    """The buffers that are written somewhere."""
    found: list[tirx.Var] = []

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        found.append(node.buffer)
        return node

    tvm_ffi.structural_map(body, (tirx.BufferStore, store))
    return found


def _is_outside(buffer: tirx.Var, written: list[tirx.Var]) -> bool:
    """Whether a buffer is used, and no thread's own."""
    used = any(each.same_as(buffer) for each in written)
    return used and buffer.ty.storage_scope in ("", "global")


def _store_first(buffer: tirx.Var) -> tirx.Stmt:
    """Zero for the first value of a buffer."""
    return tirx.BufferStore(
        buffer, tirx.const(0, str(buffer.dtype)), [whole(0)] * len(buffer.ty.shape)
    )
