"""The statements of a kernel that is not scheduled, one block each, taken apart.

LowerToTasks makes kernels that are a sequence of such statements: loops, and in the innermost one
block. `stack_elements` gives them another dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorRegion

from tvm_hetero.kernels.tir.block_roles import ROLE

INDEX = "int64"


@dataclass(frozen=True)
class Nest:
    """One statement of a kernel that is not scheduled: loops, and the block inside of them."""

    loops: list[tirx.For]
    values: list[Any]
    block: s_tir.SBlock

    @property
    def role(self) -> str | None:
        """What the block is for (`tir.block_roles`)."""
        value = self.block.annotations.get(ROLE)
        return None if value is None else str(value)


def nest_of(statement: tirx.Stmt) -> Nest:
    """A statement of a kernel, taken apart.

    Raises
    ------
    ValueError
        If it is anything but loops around one block.
    """
    loops: list[tirx.For] = []
    while isinstance(statement, tirx.For):
        loops.append(statement)
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or _is_nested(statement.block):
        raise ValueError("the kernel is no sequence of blocks, each in loops of its own")
    if not (isinstance(statement.predicate, tirx.IntImm) and int(statement.predicate)):
        raise ValueError(f"the block {statement.block.name_hint} has a condition")
    return Nest(loops, list(statement.iter_values), statement.block)


def _is_nested(block: s_tir.SBlock) -> bool:
    return has_blocks(block.body) or bool(list(block.match_buffers) or list(block.alloc_buffers))


def has_blocks(body: tirx.Stmt) -> bool:
    """Whether there is a block in a statement."""
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(body, (s_tir.SBlock, found.append))
    return bool(found)


def wrap_in_loops(
    loops: Sequence[tirx.For],
    values: Sequence[Any],
    block: s_tir.SBlock,
    changed: tirx.Var | None = None,
    count: int = 1,
) -> tirx.Stmt:
    """The block in its loops, of which one may have another extent."""
    body: tirx.Stmt = s_tir.SBlockRealize(list(values), tirx.const(True, "bool"), block)
    for loop in reversed(loops):
        extent = loop.extent if not loop.loop_var.same_as(changed) else tirx.const(count, INDEX)
        body = tirx.For(loop.loop_var, loop.min, extent, loop.kind, body)
    return body


def loop_over(var: tirx.Var, extent: int) -> tirx.For:
    """A loop around nothing yet."""
    first, last, nothing = tirx.const(0, INDEX), tirx.const(extent, INDEX), tirx.Evaluate(0)
    return tirx.For(var, first, last, tirx.ForKind.SERIAL, nothing)


def nest_over(
    names: Sequence[str], extents: Sequence[int], block: Callable[[list[tirx.Var]], s_tir.SBlock]
) -> tirx.Stmt:
    """Loops around what ``block`` makes of its variables."""
    loops = [loop_over(tirx.Var(n, INDEX), e) for n, e in zip(names, extents, strict=True)]
    variables = [tirx.Var(f"v_{name}", INDEX) for name in names]
    return wrap_in_loops(loops, [each.loop_var for each in loops], block(variables))


def iterators(variables: Sequence[tirx.Var], extents: Sequence[int]) -> list[tirx.IterVar]:
    """The variables of a block, each of which may be computed for itself."""
    pairs = zip(variables, extents, strict=True)
    return [tirx.IterVar(range_of(0, e), var, tirx.IterVar.DataPar) for var, e in pairs]


def tensor_like(extents: Sequence[int], like: tirx.Var, name: str) -> tirx.Var:
    """A tensor of the same type."""
    shape = [tirx.const(extent, INDEX) for extent in extents]
    return tirx.decl_buffer(shape, str(like.dtype), name, scope=like.ty.storage_scope)


def range_of(first: Any, extent: int) -> tvm.ir.Range:
    """Indices from the first one on."""
    low = tirx.const(first, INDEX) if isinstance(first, int) else first
    return tvm.ir.Range.from_min_extent(low, tirx.const(extent, INDEX))


def point(buffer: tirx.Var, indices: Sequence[Any]) -> TensorRegion:
    """The region of one value."""
    return tirx.BufferRegion(buffer, [range_of(i, 1) for i in indices])
