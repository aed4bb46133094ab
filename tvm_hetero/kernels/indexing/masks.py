"""Kernels for GPUs that read and write nothing out of bounds, whatever their indices are.

Indices in a GPU's memory its host cannot look at before the kernel begins (`checks`), and a
thread cannot raise an error. So what would be read from out of bounds is NaN instead, which
`check_numerics` finds, or the least of integers; what would be written there is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.indexing.exact_casts import exact_cast, with_exact_casts
from tvm_hetero.kernels.indexing.indirect_accesses import (
    has_indirect_accesses,
    indirect_accesses,
    loads_in,
)
from tvm_hetero.kernels.tir.nests import INDEX
from tvm_hetero.kernels.tir.statements import whole

if TYPE_CHECKING:
    Expr = Any


def add_masks(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that is not scheduled, with conditions around what data tell it to access."""
    if not has_indirect_accesses(func):
        return func
    func = with_exact_casts(func)
    accesses = indirect_accesses(func)
    if not accesses:
        return func

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        tensors = {a.tensor for a in accesses if a.statement.same_as(node)}
        if not tensors:
            return node

        def load(read: TensorLoad) -> Expr:
            inside = _inside(read.source, read.indices) if read.source in tensors else None
            kind = str(read.ty.dtype)
            return read if inside is None else tirx.if_then_else(inside, read, _poison(kind))

        value = tvm_ffi.structural_map(node.value, (TensorLoad, load))
        indices = [tvm_ffi.structural_map(index, (TensorLoad, load)) for index in node.indices]
        made = tirx.BufferStore(node.buffer, value, indices)
        inside = _inside(node.buffer, indices) if node.buffer in tensors else None
        return made if inside is None else tirx.IfThenElse(inside, made, None)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, store)))


def _inside(tensor: tirx.Var, indices: Sequence[Expr]) -> Expr | None:
    """The condition that all indices that data tell are within bounds; None without any."""
    conditions = []
    for index, extent in zip(indices, tensor.ty.shape, strict=True):
        if loads_in(index):
            place = exact_cast(INDEX, index)
            conditions += [place >= whole(0), place < whole(int(extent))]
    return tirx.all(*conditions) if conditions else None


def _poison(kind: str) -> Expr:
    if "float" in kind:
        return tirx.const(float("nan"), kind)
    return tirx.const(False, kind) if kind == "bool" else tirx.min_value(kind)
