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

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad, TensorRegion

from tvm_hetero.kernels.tir.batched import statements_of, with_root
from tvm_hetero.kernels.tir.block_roles import ACCUMULATE, LEFT, MATRICES, PRODUCT
from tvm_hetero.kernels.tir.nests import (
    INDEX,
    Nest,
    around,
    loop_over,
    nest_of,
    range_of,
    tensor_like,
)
from tvm_hetero.kernels.tir.stacked_rows import ROW, with_left

if TYPE_CHECKING:
    Expr = Any


@dataclass(frozen=True)
class _StackedTensor:
    """A stacked tensor; ``instead``: the elements' axis takes the place of one of extent 1."""

    buffer: tirx.Var
    axis: int
    instead: bool

    def at(self, element: Any, indices: Sequence[Any]) -> list[Any]:
        """The place of an element's value."""
        return [*indices[: self.axis], element, *indices[self.axis + int(self.instead) :]]


@dataclass
class _KernelStack:
    """The tensors that differ between ``count`` elements, as they are stacked so far."""

    count: int
    rows: bool
    tensors: dict[tirx.Var, _StackedTensor] = field(default_factory=dict)

    def add(self, buffer: tirx.Var, axis: int = 0) -> None:
        """Give a tensor the elements' dimension, unless it has it."""
        if buffer in self.tensors:
            return
        shape = [int(e) for e in buffer.ty.shape]
        instead = len(shape) > axis and shape[axis] == 1
        extents = [*shape[:axis], self.count, *shape[axis + int(instead) :]]
        self.tensors[buffer] = _StackedTensor(
            tensor_like(extents, buffer, buffer.name), axis, instead
        )

    def of(self, buffer: tirx.Var) -> tirx.Var:
        """The tensor as it is now."""
        return self.tensors[buffer].buffer if buffer in self.tensors else buffer


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
    nests = [nest_of(statement) for statement in statements_of(root.body)]
    rows = _one_row(nests)
    buffers = list(root.alloc_buffers)
    if rows:
        nests, left = with_left(nests, {p for i, p in enumerate(func.params) if i in shared})
        buffers.append(left)
    stack = _KernelStack(count, rows)
    for i, param in enumerate(func.params):
        if i not in shared:
            stack.add(param)
    statements = [_stack_nest(nest, stack) for nest in nests]
    body = with_root(func.body, tirx.SeqStmt(statements), [stack.of(b) for b in buffers])
    params = [stack.of(param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs, func.span)


def _one_row(nests: Sequence[Nest]) -> bool:
    """True for a product of one row whose left side is read as it stands.

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
    return main[0].role == PRODUCT and shape[ROW] == 1 and not tall


def _stack_nest(nest: Nest, stack: _KernelStack) -> tirx.Stmt:
    """The nest for all elements."""
    regions = [*nest.block.reads, *nest.block.writes]
    if not any(region.source in stack.tensors for region in regions):
        return around(nest.loops, nest.values, nest.block)
    by_rows = stack.rows and nest.role in (LEFT, PRODUCT)
    for region in nest.block.writes:
        stack.add(region.source, ROW if by_rows else 0)
    old = _replaced(nest, stack)
    element = tirx.Var("element", INDEX)
    block = _stack_block(nest.block, stack, element, old)
    if old is None:
        loop = tirx.Var("element", INDEX)
        first = loop_over(loop, stack.count)
        return around([first, *nest.loops], [loop, *nest.values], block)
    at = next(i for i, v in enumerate(nest.block.iter_vars) if v.var.same_as(old))
    return around(nest.loops, nest.values, block, nest.values[at], stack.count)


def _replaced(nest: Nest, stack: _KernelStack) -> tirx.Var | None:
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
    block: s_tir.SBlock, stack: _KernelStack, element: tirx.Var, old: tirx.Var | None
) -> s_tir.SBlock:
    """The block for that element, whose variable replaces ``old``, if any."""
    mine = tirx.IterVar(range_of(0, stack.count), element, tirx.IterVar.DataPar)
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
    tensors: dict[tirx.Var, _StackedTensor], element: tirx.Var, old: tirx.Var | None
) -> Callable[[Any], Any]:
    """What makes of a block's parts those of one element."""

    def variable(var: tirx.Var) -> Expr:
        return tirx.const(0, str(var.ty.dtype)) if var.same_as(old) else var

    def load(node: TensorLoad) -> Expr:
        tensor = tensors.get(node.source)
        if tensor is None:
            return node
        return tirx.BufferLoad(tensor.buffer, tensor.at(element, list(node.indices)))

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        tensor = tensors.get(node.buffer)
        if tensor is None:
            return node
        place = tensor.at(element, list(node.indices))
        return tirx.BufferStore(tensor.buffer, node.value, place)

    def region(node: TensorRegion) -> Expr:
        tensor = tensors.get(node.source)
        if tensor is None:
            return node
        return tirx.BufferRegion(tensor.buffer, tensor.at(range_of(element, 1), list(node.region)))

    rules = [
        (tirx.Var, variable),
        (TensorLoad, load),
        (tirx.BufferStore, store),
        (TensorRegion, region),
    ]
    return lambda node: tvm_ffi.structural_map(node, rules)
