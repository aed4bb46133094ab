"""Sums of products of words, in scheduled kernels: each becomes one operation.

A word is several narrow numbers side by side in 32 bits. Before any schedule a kernel has the
arithmetic of its words itself, which every target can compute. Once it is scheduled for a CPU,
`replace_sums` puts one operation in its place, of which TVM's vectorizer makes one of whole vectors
(`byte_dot_ops`, `bfloat16_dot_ops`).
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, Op, register_op_attr
from tvm.ir.expr import TensorLoad

Expr = Any

_PURE = 1  # tirx::CallEffectKind


def replace_sums(func: tirx.PrimFunc, annotation: str, op: str, dtype: str) -> tirx.PrimFunc:
    """A scheduled kernel, with ``op(sum, word, word)`` for each sum of a marked block.

    Parameters
    ----------
    func
        The kernel.
    annotation
        What the blocks bear whose last two reads are the words.
    op, dtype
        The operation, and the type of the sums.
    """
    sums: dict[tirx.Var, tuple[tirx.Var, tirx.Var]] = {}

    def note(block: s_tir.SBlock) -> None:
        if annotation in block.annotations and len(block.reads) >= len(("words", "words")):
            data, weights = (region.source for region in block.reads[-2:])
            sums[block.writes[0].source] = data, weights

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, note))
    if not sums:
        return func

    def as_one(store: tirx.BufferStore) -> tirx.Stmt:
        if store.buffer not in sums or not isinstance(store.value, tirx.Add):
            return store
        total, *sides = (first_load(store.value, b) for b in (store.buffer, *sums[store.buffer]))
        value = Call(Op.get(op), [total, *sides], ret_ty=dtype)
        return tirx.BufferStore(store.buffer, value, list(store.indices))

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, as_one)))


def first_load(value: Expr, buffer: tirx.Var) -> TensorLoad:
    """The first load of a buffer in an expression."""
    found: list[TensorLoad] = []

    def note(load: TensorLoad) -> None:
        if load.source.same_as(buffer):
            found.append(load)

    tvm_ffi.structural_walk(value, (TensorLoad, note))
    return found[0]


def register_operation(name: str, lower: Any) -> None:
    """Make an operation known to TVM, which can be vectorised and which ``lower`` replaces."""
    register_op_attr(name, "TVectorizable", True)
    register_op_attr(name, "TCallEffectKind", _PURE)
    register_op_attr(name, "TScriptPrinterName", name)
    tirx.op.register_intrin_lowering(name, "default", f=lower)
