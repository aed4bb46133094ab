"""What the blocks of a kernel compute: reductions, and which elements they read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlockRealize

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import SBlockRV


def is_reduction(sch: Schedule, block: SBlockRV) -> bool:
    """True where the block sums, or takes a maximum, over an axis."""
    return any(v.iter_type == tirx.IterVar.CommReduce for v in sch.get(block).iter_vars)


def bindings(sch: Schedule, block: SBlockRV) -> list[tirx.PrimExpr]:
    """What each dimension of the block is computed from: expressions of its loops' variables."""
    node, found = sch.get(block), []

    def visit(realize: SBlockRealize) -> None:
        if realize.block.same_as(node):
            found.append(list(realize.iter_values))

    tvm_ffi.structural_walk(sch.mod["main"].body, (SBlockRealize, visit))
    return found[0]


def accesses(block: tirx.SBlock) -> list[tuple[list[tirx.PrimExpr], list[int]]]:
    """Indices and the buffer's shape of each load and store in the body of a block."""
    found: list[tuple[list[tirx.PrimExpr], list[int]]] = []

    def load(node: TensorLoad) -> None:
        found.append((list(node.indices), [int(e) for e in node.source.shape]))

    def store(node: tirx.BufferStore) -> None:
        found.append((list(node.indices), [int(e) for e in node.buffer.shape]))

    tvm_ffi.structural_walk(block.body, [(TensorLoad, load), (tirx.BufferStore, store)])
    return found


def uses(expr: tirx.PrimExpr, var: tirx.Var) -> bool:
    """True where the expression mentions the variable."""
    hit = False

    def visit(node: tirx.Var) -> None:
        nonlocal hit
        hit = hit or node.same_as(var)

    tvm_ffi.structural_walk(expr, (tirx.Var, visit))
    return hit
