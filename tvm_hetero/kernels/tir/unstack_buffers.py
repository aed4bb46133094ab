"""Stacked tensors of a scheduled kernel become one tensor for each element again.

The elements of a batch lie apart in memory, and copying them together costs what a batched kernel
is to save. A schedule of `stacked` tensors is rewritten instead: where a block reads or writes
``X[e, i, j]``, it does so at ``[i, j]`` of a view whose address is looked up in a table,

    table = addresses of X_0, X_1, X_2
    for e in range(3):
        view at table[e]
        ... view[i, j] ...

as soon as ``e`` is known, outside of all loops that do not decide it. Where it is a constant the
element's tensor itself is taken. (TVM 0.27 has no choice between two addresses as an expression:
its passes take what is chosen for a number. So the table is one of tensor handles on the stack,
such as TVM makes to call packed functions.)

TVM tells LLVM that tensors of different names lie apart. So what is written must have one name:
a kernel that writes one tensor in several nests of loops is refused (`_check_written`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad, TensorRegion
from tvm.sym import Analyzer

from tvm_hetero.kernels.tir.batched import statements_of, with_root
from tvm_hetero.kernels.tir.blocks import uses
from tvm_hetero.kernels.tir.nests import has_blocks

if TYPE_CHECKING:
    Expr = Any


# The field of a tensor handle with its address (TVM's `builtin::TVMStructFieldKind::kArrData`).
_DATA = 1


@dataclass(frozen=True)
class _View:
    """The tensor of the element ``index``, of those that ``stacked`` stands for."""

    stacked: tirx.Var
    index: Any
    data: tirx.Var
    buffer: tirx.Var


@dataclass
class _BufferScope:
    """The body of one loop and the views that are chosen in it."""

    loop: tirx.Var
    views: list[_View] = field(default_factory=list)


def unstack_elements(
    func: tirx.PrimFunc, elements: Mapping[tirx.Var, Sequence[tirx.Var]], params: Sequence[tirx.Var]
) -> tirx.PrimFunc:
    """The kernel on the tensors of each element.

    Parameters
    ----------
    func
        A scheduled kernel, some of whose parameters have a dimension for the elements in front.
    elements
        For each of these the parameters of its elements, without that dimension or with one of
        extent 1 in its place.
    params
        All parameters of the result.

    Raises
    ------
    ValueError
        If the schedule leaves it open which element a block computes.
    """
    rewrite = _BufferRewrite(elements)
    body = rewrite.statement(func.body)
    _check_gone(body, elements)
    _check_written(body, rewrite.views)
    if rewrite.views:
        statements = [*rewrite.table.filled(), *statements_of(body.block.body)]
        body = with_root(body, tirx.SeqStmt(statements), list(body.block.alloc_buffers))
    return tirx.PrimFunc(list(params), body, func.ret_type, func.attrs, func.span)


class _PointerTable:
    """The addresses of all elements' tensors."""

    def __init__(self, elements: Mapping[tirx.Var, Sequence[tirx.Var]]) -> None:
        self._tensors: list[tirx.Var] = []
        self._first: dict[tirx.Var, int] = {}
        for stacked, own in elements.items():
            self._first[stacked] = len(self._tensors)
            self._tensors += own
        self._memory = tirx.tvm_stack_alloca("array", len(self._tensors))
        self._var = tirx.Var("table", self._memory.ty)

    def filled(self) -> list[tirx.Stmt]:
        """What makes the table."""
        sets = [
            tirx.Evaluate(tirx.op.tvm_struct_set(self._var, i, _DATA, tensor.data))
            for i, tensor in enumerate(self._tensors)
        ]
        return [tirx.Bind(self._var, self._memory), *sets]

    def bound(self, view: _View) -> list[tirx.Stmt]:
        """What looks the address of a view up."""
        at = tirx.Cast("int32", view.index) + self._first[view.stacked]
        address = tirx.call_intrin(view.data.ty, "tirx.tvm_struct_get", self._var, at, _DATA)
        return [tirx.Bind(view.data, address), tirx.DeclBuffer(view.buffer, data=view.data)]


class _BufferRewrite:
    """Rewrites the statements of a kernel from the outside."""

    def __init__(self, elements: Mapping[tirx.Var, Sequence[tirx.Var]]) -> None:
        self.elements = elements
        self.table = _PointerTable(elements)
        self.views: list[_View] = []
        self.scopes: list[_BufferScope] = []
        self.analyzer = Analyzer()

    def statement(self, node: tirx.Stmt) -> tirx.Stmt:
        """A statement with all below it."""
        if isinstance(node, tirx.SeqStmt):
            return tirx.SeqStmt([self.statement(child) for child in node.seq])
        if isinstance(node, tirx.For):
            return self._loop(node)
        if isinstance(node, s_tir.SBlockRealize):
            return self._realize(node)
        if isinstance(node, tirx.IfThenElse) and node.else_case is None:
            return tirx.IfThenElse(node.condition, self.statement(node.then_case), None)
        if isinstance(node, tirx.AttrStmt):
            body = self.statement(node.body)
            return tirx.AttrStmt(node.node, node.attr_key, node.value, body)
        return node

    def _loop(self, node: tirx.For) -> tirx.Stmt:
        self.analyzer.bind(node.loop_var, _range_of(node))
        self.scopes.append(_BufferScope(node.loop_var))
        body = self.statement(node.body)
        views = self.scopes.pop().views
        if views:
            body = tirx.SeqStmt([*(s for v in views for s in self.table.bound(v)), body])
        return tirx.For(
            node.loop_var, node.min, node.extent, node.kind, body, node.thread_binding,
            node.annotations, node.step, node.span,
        )  # fmt: skip

    def _realize(self, node: s_tir.SBlockRealize) -> tirx.Stmt:
        block = node.block
        here = [v.var for v in block.iter_vars], list(node.iter_values)
        nested = has_blocks(block.body)
        body = self.statement(block.body) if nested else self._leaf(block.body, here)
        init = None if block.init is None else self._leaf(block.init, here)
        changed = s_tir.SBlock(
            block.iter_vars,
            [self._leaf(region, here) for region in block.reads],
            [self._leaf(region, here) for region in block.writes],
            block.name_hint,
            body,
            init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
            block.span,
        )
        return s_tir.SBlockRealize(node.iter_values, node.predicate, changed, node.span)

    def _leaf(self, node: Any, here: tuple[list[tirx.Var], list[Any]]) -> Any:
        """Part of a block, whose variables are bound to these values."""

        def load(n: TensorLoad) -> Expr:
            if n.source not in self.elements:
                return n
            return tirx.BufferLoad(*self._place(n.source, list(n.indices), n.indices[0], here))

        def store(n: tirx.BufferStore) -> tirx.Stmt:
            if n.buffer not in self.elements:
                return n
            buffer, indices = self._place(n.buffer, list(n.indices), n.indices[0], here)
            return tirx.BufferStore(buffer, n.value, indices)

        def region(n: TensorRegion) -> Expr:
            if n.source not in self.elements:
                return n
            return tirx.BufferRegion(*self._place(n.source, list(n.region), n.region[0].min, here))

        rules = [(TensorLoad, load), (tirx.BufferStore, store), (TensorRegion, region)]
        return tvm_ffi.structural_map(node, rules)

    def _place(
        self, stacked: tirx.Var, indices: list[Any], element: Expr, here: Any
    ) -> tuple[tirx.Var, list[Any]]:
        """The tensor of the element, and the indices in it."""
        variables, values = here
        (index,) = tirx.IndexMap(variables, [element], None).map_indices(values)
        index = self.analyzer.simplify(index)
        own = self.elements[stacked]
        rest = indices[1:]
        if len(own[0].ty.shape) == len(stacked.ty.shape):  # a dimension of extent 1 in its place
            zero = tirx.const(0, str(element.ty.dtype))
            rest = [_one(zero) if isinstance(indices[0], tvm.ir.Range) else zero, *rest]
        if isinstance(index, tirx.IntImm):
            return own[int(index)], rest
        return self._view(stacked, index), rest

    def _view(self, stacked: tirx.Var, index: Expr) -> tirx.Var:
        """The view of the element ``index``, chosen in the innermost loop that decides it."""
        scope = next((s for s in reversed(self.scopes) if uses(index, s.loop)), None)
        if scope is None:
            raise ValueError(f"element {index} of {stacked.name}: expected one that a loop decides")
        for view in scope.views:
            if view.stacked.same_as(stacked) and tvm_ffi.structural_equal(view.index, index):
                return view.buffer
        like = self.elements[stacked][0]
        data = tirx.Var(f"{stacked.name}_data", like.data.ty)
        buffer = tirx.decl_buffer(
            like.ty.shape, str(like.dtype), f"{stacked.name}_element", scope=like.ty.storage_scope
        )
        scope.views.append(_View(stacked, index, data, buffer))
        self.views.append(scope.views[-1])
        return buffer


def _range_of(loop: tirx.For) -> tvm.ir.Range:
    return tvm.ir.Range.from_min_extent(loop.min, loop.extent)


def _one(index: Expr) -> tvm.ir.Range:
    return tvm.ir.Range.from_min_extent(index, tirx.const(1, str(index.ty.dtype)))


def _check_gone(body: tirx.Stmt, elements: Mapping[tirx.Var, Sequence[tirx.Var]]) -> None:
    """Raise where something still speaks of a stacked tensor."""
    left: set[str] = set()

    def visit(var: tirx.Var) -> None:
        if var in elements:
            left.add(var.name)

    tvm_ffi.structural_walk(body, (tirx.Var, visit))
    if left:
        raise ValueError(f"{sorted(left)} are used outside of blocks: no element is known there")


def _check_written(body: tirx.Stmt, views: Sequence[_View]) -> None:
    """Raise where a tensor is written that several views are of."""
    written: set[tirx.Var] = set()
    tvm_ffi.structural_walk(body, (tirx.BufferStore, lambda node: written.add(node.buffer)))
    for view in views:
        if view.buffer in written and sum(v.stacked.same_as(view.stacked) for v in views) > 1:
            raise ValueError(f"{view.stacked.name} is written in one of several nests of loops")
