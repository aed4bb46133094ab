"""Random nodes on tensors and sequences of known shapes, some of which hold nothing.

Each *maker* adds a node or two to a block and returns the `Tensor` that is made, or None where none
of the values at hand fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from onnx import TensorProto

from tests.fuzz.loop_blocks import Block

Dims: TypeAlias = tuple[int, ...]
MOST_ELEMENTS, _MOST_RANK = 400, 4
AXES_ARE_OPERAND = 18
"""The opset from which axes of reductions are an operand."""


@dataclass(frozen=True)
class Tensor:
    """A value of float32: its name, its shape, and whether nothing may be made of it."""

    name: str
    dims: Dims
    is_last: bool = False


Maker: TypeAlias = Callable[[Block, Sequence[Tensor]], Tensor | None]


def plain(block: Block, scope: Sequence[Tensor]) -> Tensor:
    """A tensor of the shape of another one."""
    a, rng = block.rng.choice(scope), block.rng
    alike = rng.choice([b for b in scope if b.dims == a.dims])
    number = block.constant(np.array(rng.choice((0.5, -1, 2)), np.float32))
    operator, others = rng.choice(
        [("Neg", []), ("Relu", []), ("Add", [alike.name]), ("Sub", [alike.name]),
         ("Add", [number]), ("Mul", [block.constant(np.array(0.5, np.float32))])]
    )  # fmt: skip
    return Tensor(block.add(operator, [a.name, *others]), a.dims)


def _an_axis(block: Block, scope: Sequence[Tensor]) -> tuple[Tensor, int] | None:
    ranked = [t for t in scope if t.dims]
    if not ranked:
        return None
    a = block.rng.choice(ranked)
    return a, block.rng.randrange(len(a.dims))


def joined(block: Block, scope: Sequence[Tensor]) -> Tensor | None:
    """Two or three tensors one after the other."""
    along = _an_axis(block, scope)
    if along is None:
        return None
    (a, axis), rng = along, block.rng
    fits = [t for t in scope if t.dims and without(t.dims, axis) == without(a.dims, axis)]
    taken = [a, *(rng.choice(fits) for _ in range(rng.randint(0, 2)))]
    dims = list(a.dims)
    dims[axis] = sum(t.dims[axis] for t in taken)
    axis -= rng.choice((0, len(dims)))
    return Tensor(block.add("Concat", [t.name for t in taken], axis=axis), tuple(dims))


def cut(block: Block, scope: Sequence[Tensor]) -> Tensor | None:
    """A part of a tensor, maybe nothing of it."""
    along = _an_axis(block, scope)
    if along is None:
        return None
    (a, axis), rng = along, block.rng
    length = a.dims[axis]
    start, end = sorted(rng.randint(0, length) for _ in range(2))
    bounds = [block.constant(np.array([n])) for n in (start, end, axis)]
    dims = (*a.dims[:axis], end - start, *a.dims[axis + 1 :])
    return Tensor(block.add("Slice", [a.name, *bounds]), dims)


def measured(block: Block, scope: Sequence[Tensor]) -> Tensor:
    """The shape of a tensor as numbers, or how many elements it has."""
    a = block.rng.choice(scope)
    operator = block.rng.choice(("Shape", "Size"))
    found = block.add(operator, [a.name])
    dims = (len(a.dims),) if operator == "Shape" else ()
    return Tensor(block.add("Cast", [found], to=TensorProto.FLOAT), dims)


def summed(block: Block, scope: Sequence[Tensor]) -> Tensor:
    """The sum along an axis, or of everything."""
    a, rng = block.rng.choice(scope), block.rng
    keep = rng.randint(0, 1)
    if not a.dims or rng.random() < 0.3:
        return Tensor(block.add("ReduceSum", [a.name], keepdims=0), ())
    axis = rng.randrange(len(a.dims))
    dims = (*a.dims[:axis], *[1] * keep, *a.dims[axis + 1 :])
    axes = block.constant(np.array([axis]))
    return Tensor(block.add("ReduceSum", [a.name, axes], keepdims=keep), dims)


def reduced(block: Block, scope: Sequence[Tensor]) -> Tensor | None:
    """The largest number or the mean along an axis, which of nothing are -inf and 0."""
    full = [t for t in scope if t.dims]
    if not full:
        return None
    a, rng = block.rng.choice(full), block.rng
    operator = rng.choice(("ReduceMax", "ReduceMean"))
    axis = rng.randrange(len(a.dims))
    dims = (*a.dims[:axis], 1, *a.dims[axis + 1 :])
    if block.writer.opset < AXES_ARE_OPERAND:
        found = block.add(operator, [a.name], axes=[axis])
    else:
        found = block.add(operator, [a.name, block.constant(np.array([axis]))])
    # What is infinite would make other numbers none.
    bounds = [block.constant(np.array(bound, np.float32)) for bound in (-50, 50)]
    return Tensor(block.add("Clip", [found, *bounds]), dims)


def multiplied(block: Block, scope: Sequence[Tensor]) -> Tensor | None:
    """The product of a matrix and its transpose, either of which may come first."""
    matrices = [t for t in scope if len(t.dims) == 2]
    if not matrices:
        return None
    a, rng = block.rng.choice(matrices), block.rng
    sides = [a.name, block.add("Transpose", [a.name])]
    size = a.dims[0]
    if rng.random() < 0.5:
        sides, size = sides[::-1], a.dims[1]
    operator, given = rng.choice([("MatMul", {}), ("Gemm", {}), ("Einsum", {"equation": "ij,jk"})])
    found = block.add(operator, sides, **given)
    return Tensor(
        block.add("Mul", [found, block.constant(np.array(0.125, np.float32))]), (size,) * 2
    )


def taken(block: Block, scope: Sequence[Tensor]) -> Tensor | None:
    """Elements at some places along an axis, maybe at none."""
    fits = [t for t in scope if t.dims and max(t.dims)]
    if not fits:
        return None
    a, rng = block.rng.choice(fits), block.rng
    axis = rng.choice([i for i, length in enumerate(a.dims) if length])
    count = rng.choice((None, 0, 1, 2))
    places = np.array([rng.randrange(a.dims[axis]) for _ in range(count or 0)], np.int64)
    places = np.array(rng.randrange(a.dims[axis])) if count is None else places
    dims = (*a.dims[:axis], *places.shape, *a.dims[axis + 1 :])
    return Tensor(block.add("Gather", [a.name, block.constant(places)], axis=axis), dims)


def moved(block: Block, scope: Sequence[Tensor]) -> Tensor:
    """A tensor whose axes are turned, or which has one more, or one alone."""
    a, rng = block.rng.choice(scope), block.rng
    form = rng.choice(("Transpose", "Unsqueeze", "Reshape"))
    if form == "Transpose":
        return Tensor(block.add("Transpose", [a.name]), a.dims[::-1])
    if form == "Reshape" and 0 not in a.dims:
        flat = block.constant(np.array([-1]))
        return Tensor(block.add("Reshape", [a.name, flat]), (int(np.prod(a.dims)),))
    axis = rng.randint(0, len(a.dims))
    axes = block.constant(np.array([axis]))
    return Tensor(block.add("Unsqueeze", [a.name, axes]), (*a.dims[:axis], 1, *a.dims[axis:]))


def listed(block: Block, scope: Sequence[Tensor]) -> Tensor | None:
    """Tensors that go through a sequence, and are joined or one of them taken."""
    ranked = [t for t in scope if t.dims]
    if not ranked:
        return None
    a, rng = block.rng.choice(ranked), block.rng
    elements = [t for t in (rng.choice(ranked) for _ in range(4)) if t.dims[1:] == a.dims[1:]]
    elements.append(a)
    sequence = block.add("SequenceConstruct", [t.name for t in elements])
    if rng.random() < 0.4:
        place = rng.randint(-len(elements), len(elements) - 1)
        position = block.constant(np.array(place))
        sequence = block.add("SequenceInsert", [sequence, a.name, position])
        elements.insert(place, a)
    if len(elements) > 1 and rng.random() < 0.4:
        place = rng.randint(-len(elements), len(elements) - 1)
        sequence = block.add("SequenceErase", [sequence, block.constant(np.array(place))])
        del elements[place]
    if rng.random() < 0.5:
        place = rng.randint(-len(elements), len(elements) - 1)
        position = block.constant(np.array(place))
        return Tensor(block.add("SequenceAt", [sequence, position]), elements[place].dims)
    dims = (sum(t.dims[0] for t in elements), *a.dims[1:])
    return Tensor(block.add("ConcatFromSequence", [sequence], axis=0), dims)


def split(block: Block, scope: Sequence[Tensor]) -> Tensor | None:
    """A tensor that is cut into a sequence, and one piece of it."""
    fits = [t for t in scope if t.dims and t.dims[0] > 1]
    if not fits:
        return None
    a, rng = block.rng.choice(fits), block.rng
    keep = rng.randint(0, 1)
    sequence = block.add("SplitToSequence", [a.name], axis=0, keepdims=keep)
    place = rng.randint(-a.dims[0], a.dims[0] - 1)
    dims = ((1,) if keep else ()) + a.dims[1:]
    return Tensor(block.add("SequenceAt", [sequence, block.constant(np.array(place))]), dims)


def without(dims: Dims, axis: int) -> Dims | None:
    """A shape without one of its axes; None if it has no such axis."""
    return (*dims[:axis], len(dims), *dims[axis + 1 :]) if axis < len(dims) else None


MAKERS: tuple[Maker, ...] = (
    plain, plain, joined, joined, cut, measured, summed, reduced, multiplied, taken, moved, listed,
    split,
)  # fmt: skip


def is_small(tensor: Tensor) -> bool:
    """Whether more may be made of a tensor."""
    size = int(np.prod(tensor.dims))
    return not tensor.is_last and len(tensor.dims) <= _MOST_RANK and size <= MOST_ELEMENTS
