"""A kernel of one element as a kernel of several, stacked along one more dimension.

What `batched` calls ``count`` elements becomes one nest of loops with a loop over the elements,
so that the rules see what they know: a convolution of several images, a product of several rows.

    images      the accumulators of a convolution have an image in front, of which there is one:
                the elements take its place
    rows        a product with one row: the elements are its rows. They are copied first, the
                values of each step side by side (the stage ``left`` of `product`)
    matrices    a product with several rows: the elements take the place of its matrix, of which
                there is one where the right side is constant

Every tensor gets the elements' dimension, in front, or in place of a first one of extent 1. Where
an extent is 1 every index is 0, whatever it looks like: the element may be written there, and a
variable that ran over that dimension is 0 wherever else it stands (in the index of a bias, say).

What depends on shared parameters alone stays as it is: it is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad, TensorRegion

from .batched import statements_of, with_root
from .product import MATRICES
from .roles import ACCUMULATE, LEFT, PRODUCT, ROLE, role

if TYPE_CHECKING:
    Expr = Any

_INDEX = "int64"
# Where the rows are: of accumulators [matrix, block of columns, row, column], and of the stage
# `left`, [matrix, step, row].
_ROW = 2


@dataclass(frozen=True)
class _Tensor:
    """A stacked tensor; ``instead``: the elements' axis takes the place of one of extent 1."""

    buffer: tirx.Var
    axis: int
    instead: bool

    def at(self, element: Any, indices: Sequence[Any]) -> list[Any]:
        """The place of an element's value."""
        return [*indices[: self.axis], element, *indices[self.axis + int(self.instead) :]]


@dataclass
class _Stack:
    """The tensors that differ between ``count`` elements, as they are stacked so far."""

    count: int
    rows: bool
    tensors: dict[tirx.Var, _Tensor] = field(default_factory=dict)

    def add(self, buffer: tirx.Var, axis: int = 0) -> None:
        """Give a tensor the elements' dimension, unless it has it."""
        if buffer in self.tensors:
            return
        shape = [int(e) for e in buffer.ty.shape]
        instead = len(shape) > axis and shape[axis] == 1
        extents = [*shape[:axis], self.count, *shape[axis + int(instead) :]]
        self.tensors[buffer] = _Tensor(_tensor(extents, buffer, buffer.name), axis, instead)

    def of(self, buffer: tirx.Var) -> tirx.Var:
        """The tensor as it is now."""
        return self.tensors[buffer].buffer if buffer in self.tensors else buffer


@dataclass(frozen=True)
class _Nest:
    """One statement of a kernel that is not scheduled: loops, and the block inside of them."""

    loops: list[tirx.For]
    values: list[Any]
    block: s_tir.SBlock

    @property
    def role(self) -> str | None:
        """What the block is for (`roles`)."""
        value = self.block.annotations.get(ROLE)
        return None if value is None else str(value)


def stacked(func: tirx.PrimFunc, count: int, shared: Sequence[int]) -> tirx.PrimFunc:
    """The kernel for ``count`` elements; what is not shared has a dimension for them, the first.

    Parameters
    ----------
    func
        A kernel of one element, not scheduled.
    count
        How many elements.
    shared
        Positions of the parameters that stay as they are.

    Raises
    ------
    ValueError
        If it is neither one convolution nor one product with packed constants, or one that the
        rules would not know when it is stacked.
    """
    root = func.body.block
    nests = [_nest(statement) for statement in statements_of(root.body)]
    (rows,) = _layouts(nests)
    buffers = list(root.alloc_buffers)
    if rows:
        nests, left = _with_left(nests, {p for i, p in enumerate(func.params) if i in shared})
        buffers.append(left)
    stack = _Stack(count, rows)
    for i, param in enumerate(func.params):
        if i not in shared:
            stack.add(param)
    statements = [_stack_nest(nest, stack) for nest in nests]
    body = with_root(func.body, tirx.SeqStmt(statements), [stack.of(b) for b in buffers])
    params = [stack.of(param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs, func.span)


def _nest(statement: tirx.Stmt) -> _Nest:
    loops: list[tirx.For] = []
    while isinstance(statement, tirx.For):
        loops.append(statement)
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or _is_nested(statement.block):
        raise ValueError("the kernel is no sequence of blocks, each in loops of its own")
    if not (isinstance(statement.predicate, tirx.IntImm) and int(statement.predicate)):
        raise ValueError(f"the block {statement.block.name_hint} has a condition")
    return _Nest(loops, list(statement.iter_values), statement.block)


def _is_nested(block: s_tir.SBlock) -> bool:
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(block.body, (s_tir.SBlock, found.append))
    return bool(found or list(block.match_buffers) or list(block.alloc_buffers))


def _layouts(nests: Sequence[_Nest]) -> list[bool]:
    """For each convolution or product, of which there must be one: whether it has one row.

    Raises
    ------
    ValueError
        If the rules would not know the kernel when it is stacked.
    """
    main = [nest for nest in nests if nest.role in (ACCUMULATE, PRODUCT)]
    if len(main) != 1:
        raise ValueError(f"{len(main)} convolutions and products: elements stack in one")
    block = main[0].block
    shape = [int(e) for e in block.writes[0].source.ty.shape]
    if shape[0] != 1 or int(block.annotations.get(MATRICES, 0)):
        raise ValueError(f"accumulators {shape}: expected one image, or one matrix")
    tall = any(nest.role == LEFT for nest in nests)
    return [main[0].role == PRODUCT and shape[_ROW] == 1 and not tall]


def _with_left(nests: Sequence[_Nest], constants: set[tirx.Var]) -> tuple[list[_Nest], tirx.Var]:
    """A product of one row with the stage that copies its left side, and that stage's tensor."""
    at = next(i for i, nest in enumerate(nests) if nest.role == PRODUCT)
    block = nests[at].block
    reads = [r for r in block.reads if r.source not in constants]
    own = block.writes[0]
    (read,) = (r for r in reads if not r.source.same_as(own.source))
    (k,) = (v for v in block.iter_vars if v.iter_type == tirx.IterVar.CommReduce)
    left = _tensor([1, int(k.dom.extent), 1], read.source, "left")
    place = [tirx.const(0, _INDEX), k.var, own.region[_ROW].min]

    def load(node: TensorLoad) -> Expr:
        return tirx.BufferLoad(left, place) if node.source.same_as(read.source) else node

    product = s_tir.SBlock(
        block.iter_vars,
        [_point(left, place) if r.same_as(read) else r for r in block.reads],
        block.writes,
        block.name_hint,
        tvm_ffi.structural_map(block.body, (TensorLoad, load)),
        block.init,
        annotations=block.annotations,
    )
    changed = _Nest(nests[at].loops, nests[at].values, product)
    copy = _copy_of(read, left, k)
    return [*nests[:at], copy, changed, *nests[at + 1 :]], left


def _copy_of(read: TensorRegion, left: tirx.Var, k: tirx.IterVar) -> _Nest:
    """The stage ``left`` of a product of one row: a copy of what the product reads."""
    extents = [int(e) for e in left.ty.shape]
    loops = [tirx.Var(name, _INDEX) for name in "zkm"]
    iters = [tirx.Var(f"v_{name}", _INDEX) for name in "zkm"]
    source = tirx.IndexMap([k.var], [r.min for r in read.region], None).map_indices([iters[1]])
    block = s_tir.SBlock(
        [
            tirx.IterVar(_range(0, extent), v, tirx.IterVar.DataPar)
            for v, extent in zip(iters, extents, strict=True)
        ],
        [_point(read.source, list(source))],
        [_point(left, iters)],
        "left",
        tirx.BufferStore(left, tirx.BufferLoad(read.source, list(source)), iters),
        annotations=role(LEFT),
    )
    fors = [
        tirx.For(v, tirx.const(0, _INDEX), tirx.const(e, _INDEX), tirx.ForKind.SERIAL, _NOTHING)
        for v, e in zip(loops, extents, strict=True)
    ]
    return _Nest(fors, loops, block)


def _stack_nest(nest: _Nest, stack: _Stack) -> tirx.Stmt:
    """The nest for all elements."""
    regions = [*nest.block.reads, *nest.block.writes]
    if not any(region.source in stack.tensors for region in regions):
        return _around(nest.loops, nest.values, nest.block)
    by_rows = stack.rows and nest.role in (LEFT, PRODUCT)
    for region in nest.block.writes:
        stack.add(region.source, _ROW if by_rows else 0)
    old = _replaced(nest, stack)
    element = tirx.Var("element", _INDEX)
    block = _stack_block(nest.block, stack, element, old)
    if old is None:
        loop = tirx.Var("element", _INDEX)
        first = tirx.For(loop, _zero(), _zero(), tirx.ForKind.SERIAL, _NOTHING)
        return _around([first, *nest.loops], [loop, *nest.values], block, loop, stack.count)
    at = next(i for i, v in enumerate(nest.block.iter_vars) if v.var.same_as(old))
    return _around(nest.loops, nest.values, block, nest.values[at], stack.count)


def _around(
    loops: Sequence[tirx.For],
    values: Sequence[Any],
    block: s_tir.SBlock,
    changed: tirx.Var | None = None,
    count: int = 1,
) -> tirx.Stmt:
    """The block in its loops, of which one may have another extent."""
    body: tirx.Stmt = s_tir.SBlockRealize(list(values), tirx.const(True, "bool"), block)
    for loop in reversed(loops):
        extent = loop.extent if not loop.loop_var.same_as(changed) else tirx.const(count, _INDEX)
        body = tirx.For(loop.loop_var, loop.min, extent, loop.kind, body)
    return body


def _replaced(nest: _Nest, stack: _Stack) -> tirx.Var | None:
    """The block's variable, of one value only, that the elements replace; None without one."""
    region = nest.block.writes[0]
    tensor = stack.tensors[region.source]
    index = region.region[tensor.axis].min if tensor.instead else None
    for v, value in zip(nest.block.iter_vars, nest.values, strict=True):
        own = any(loop.loop_var.same_as(value) for loop in nest.loops)
        free = v.iter_type == tirx.IterVar.DataPar and int(v.dom.extent) == 1
        if own and free and v.var.same_as(index):
            return v.var
    return None


def _stack_block(
    block: s_tir.SBlock, stack: _Stack, element: tirx.Var, old: tirx.Var | None
) -> s_tir.SBlock:
    """The block for that element, whose variable replaces ``old``, if any."""
    mine = tirx.IterVar(_range(0, stack.count), element, tirx.IterVar.DataPar)
    iters = [mine if v.var.same_as(old) else v for v in block.iter_vars]
    change = _changes(stack.tensors, element, old)
    annotations = dict(block.annotations)
    if MATRICES in annotations and not stack.rows:
        annotations[MATRICES] = tirx.const(1, "int32")
    return s_tir.SBlock(
        iters if old is not None else [mine, *iters],
        [change(region) for region in block.reads],
        [change(region) for region in block.writes],
        block.name_hint,
        change(block.body),
        None if block.init is None else change(block.init),
        annotations=annotations,
    )


def _changes(
    tensors: dict[tirx.Var, _Tensor], element: tirx.Var, old: tirx.Var | None
) -> Callable[[Any], Any]:
    """What makes of a block's parts those of one element."""

    def variable(var: tirx.Var) -> Expr:
        return tirx.const(0, str(var.ty.dtype)) if var.same_as(old) else var

    def load(node: TensorLoad) -> Expr:
        tensor = tensors.get(node.source)
        indices = list(node.indices)
        return tirx.BufferLoad(tensor.buffer, tensor.at(element, indices)) if tensor else node

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        tensor, value = tensors.get(node.buffer), node.value
        indices = list(node.indices)
        return (
            tirx.BufferStore(tensor.buffer, value, tensor.at(element, indices)) if tensor else node
        )

    def region(node: TensorRegion) -> Expr:
        tensor = tensors.get(node.source)
        if tensor is None:
            return node
        return tirx.BufferRegion(tensor.buffer, tensor.at(_range(element, 1), list(node.region)))

    rules = [
        (tirx.Var, variable),
        (TensorLoad, load),
        (tirx.BufferStore, store),
        (TensorRegion, region),
    ]
    return lambda node: tvm_ffi.structural_map(node, rules)


def _tensor(extents: Sequence[int], like: tirx.Var, name: str) -> tirx.Var:
    shape = [tirx.const(extent, _INDEX) for extent in extents]
    return tirx.decl_buffer(shape, str(like.dtype), name, scope=like.ty.storage_scope)


def _range(first: Any, extent: int) -> tvm.ir.Range:
    low = tirx.const(first, _INDEX) if isinstance(first, int) else first
    return tvm.ir.Range.from_min_extent(low, tirx.const(extent, _INDEX))


def _point(buffer: tirx.Var, indices: Sequence[Any]) -> TensorRegion:
    return tirx.BufferRegion(buffer, [_range(i, 1) for i in indices])


def _zero() -> Expr:
    return tirx.const(0, _INDEX)


_NOTHING = tirx.Evaluate(0)
