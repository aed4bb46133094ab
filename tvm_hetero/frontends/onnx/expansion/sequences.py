"""Sequences and optionals of tensors, whose elements are known by name: none is left at run time.

A sequence is a list of values that the walk keeps (`KnownValues.sequences`), so each operator on it
is a question of names; an optional is the value in it, or nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NoReturn

import numpy as np

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.axes import checked_axis


@rewrites("Identity")
def rewrite_identity(r: Rewriting) -> bool:
    """Hand a sequence on; a tensor's Identity stays."""
    elements = r.sequence(r.inputs[0])
    if elements is None:
        return False
    r.set_sequence(r.outputs[0], elements)
    return True


@rewrites("SequenceConstruct", "SequenceEmpty")
def rewrite_construct(r: Rewriting) -> bool:
    """Make a sequence of the operands."""
    r.set_sequence(r.outputs[0], r.inputs)
    return True


@rewrites("SequenceInsert")
def rewrite_insert(r: Rewriting) -> bool:
    """Put a tensor before a position, or at the end."""
    elements = _elements(r)
    position = _position(r, 2, len(elements), last=len(elements))
    r.set_sequence(r.outputs[0], [*elements[:position], r.inputs[1], *elements[position:]])
    return True


@rewrites("SequenceErase")
def rewrite_erase(r: Rewriting) -> bool:
    """Leave out the element at a position, or the last one."""
    elements = _elements(r)
    position = _position(r, 1, len(elements) - 1, last=len(elements) - 1)
    r.set_sequence(r.outputs[0], [*elements[:position], *elements[position + 1 :]])
    return True


@rewrites("SequenceAt")
def rewrite_at(r: Rewriting) -> bool:
    """Take the element at a position."""
    elements = _elements(r)
    r.alias(elements[_position(r, 1, len(elements) - 1, last=-1)], r.outputs[0])
    return True


@rewrites("SequenceLength")
def rewrite_length(r: Rewriting) -> bool:
    """Count the elements."""
    r.alias(r.constant(len(_elements(r)), np.int64), r.outputs[0])
    return True


@rewrites("ConcatFromSequence")
def rewrite_concat(r: Rewriting) -> bool:
    """Join the elements along an axis of theirs, or along a new one."""
    elements, axis = _elements(r), int(r.attribute("axis"))
    if not elements:
        r.refuse("joins a sequence of no elements")
    if r.attribute("new_axis", 0):
        axes = r.constant([axis], np.int64)
        elements = [r.add("Unsqueeze", [element, axes]) for element in elements]
    r.add("Concat", elements, r.outputs, axis=axis)
    return True


@rewrites("SplitToSequence")
def rewrite_split(r: Rewriting) -> bool:
    """Cut a tensor along an axis."""
    dims = r.dims(r.inputs[0])
    axis = checked_axis(r.refuse, int(r.attribute("axis", 0)), len(dims))
    single = not r.operand(1)
    if single:
        r.afford_nodes(dims[axis], "cuts a tensor; its pieces")
    sizes = [1] * dims[axis] if single else _sizes(r, dims[axis])
    ends = np.cumsum([0, *sizes])
    pieces = [_slice(r, axis, int(start), int(end)) for start, end in pairwise(ends)]
    if single and not r.attribute("keepdims", 1):
        axes = r.constant([axis], np.int64)
        pieces = [r.add("Squeeze", [piece, axes]) for piece in pieces]
    r.set_sequence(r.outputs[0], pieces)
    return True


@rewrites("SequenceMap")
def rewrite_map(r: Rewriting) -> bool:
    """Apply a graph to the elements of sequences, one step after another."""
    body, length = r.attribute("body"), len(_elements(r))
    r.afford_nodes(length * len(body.node), "applies a graph; its steps")
    made: list[list[str]] = [[] for _ in r.outputs]
    for step in range(length):
        operands = [_mapped(r, name, step, length) for name in r.inputs]
        results = [r.fresh(f"{name}_{step}") for name in r.outputs]
        r.splice(body, operands, results)
        for column, result in zip(made, results, strict=True):
            column.append(result)
    for name, elements in zip(r.outputs, made, strict=True):
        r.set_sequence(name, elements)
    return True


@rewrites("Optional")
def rewrite_optional(r: Rewriting) -> bool:
    """Hand on what is in the optional; nothing is a value that no one makes."""
    if r.operand(0):
        r.alias(r.inputs[0], r.outputs[0])
    else:
        r.set_nothing(r.outputs[0])
    return True


@rewrites("OptionalHasElement")
def rewrite_has_element(r: Rewriting) -> bool:
    """Say whether something is in it, which is known."""
    name = r.operand(0)
    r.alias(r.constant(bool(name) and not r.is_nothing(name)), r.outputs[0])
    return True


@rewrites("OptionalGetElement")
def rewrite_get_element(r: Rewriting) -> bool:
    """Hand on what is in it."""
    if r.is_nothing(r.inputs[0]):
        r.refuse("takes the value out of an optional that holds none")
    r.alias(r.inputs[0], r.outputs[0])
    return True


def _elements(r: Rewriting) -> list[str]:
    found = r.sequence(r.inputs[0])
    return _foreign(r) if found is None else found


def _foreign(r: Rewriting) -> NoReturn:
    r.refuse(
        "reads a sequence whose elements are not known before the model runs. Export the model "
        "with tensors in its place"
    )


def _mapped(r: Rewriting, name: str, step: int, length: int) -> str:
    """Return the operand of one step: of a sequence its element, of a tensor itself."""
    elements = r.sequence(name)
    if elements is None:
        return name
    if len(elements) != length:
        r.refuse(f"maps over sequences of {length} and {len(elements)} elements")
    return elements[step]


def _position(r: Rewriting, place: int, largest: int, last: int) -> int:
    """Return the position that an operand gives, counted from the start."""
    if not r.operand(place):
        return last
    found = r.whole_number(place, "position")
    count = len(_elements(r))
    position = found + count if found < 0 else found
    if not 0 <= position <= largest:
        r.refuse(f"takes position {found} of a sequence of {count} elements")
    return position


def _sizes(r: Rewriting, length: int) -> list[int]:
    split = r.constant_of(1, "sizes")
    if split.ndim:
        sizes = [int(size) for size in split]
        if sum(sizes) != length or min(sizes, default=0) < 0:
            r.refuse(f"cuts {length} elements into {sizes}")
        return sizes
    size = int(split)
    if size < 1:
        r.refuse(f"cuts into pieces of {size} elements")
    r.afford_nodes(length // size, "cuts a tensor; its pieces")
    return [min(size, length - start) for start in range(0, length, size)]


def _slice(r: Rewriting, axis: int, start: int, end: int) -> str:
    bounds = [r.constant([value], np.int64) for value in (start, end, axis)]
    return r.add("Slice", [r.inputs[0], *bounds])
