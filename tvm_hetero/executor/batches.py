"""Batches: B elements stacked in one array for the user, a tensor each for the plan.

A plan for a batch of B has every input and output of the model B times; those of element e are
called ``NAME#e``. The user has one array for each name of the model, in one of two shapes over the
same bytes, for a model's tensor of shape (d0, d1, ...):

    stacked  (B, d0, d1, ...)
    merged   (B * d0, d1, ...)      where d0 is the model's own batch axis, mostly 1

so that element e is a contiguous part of it: a view, not a copy. Outputs come in the form of the
inputs: merged where all inputs were merged, else stacked. A tensor without axes is stacked always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.errors import ArtifactError
from tvm_hetero.executor.native_calls import blocks_shutdown
from tvm_hetero.executor.tensors import as_array, stack_arrays

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Stack:
    """A tensor of the model: its name, and where its B elements stand among those of the plan."""

    name: str
    rows: tuple[int, ...]


def split_element(name: str, batch: int) -> tuple[str, int]:
    """A name of the plan as a name of the model, and the element: ``x#3`` is (x, 3).

    Raises
    ------
    ArtifactError
        If the plan is for a batch, and the name is none of a batch of that size.
    """
    if batch == 1:
        return name, 0
    base, mark, number = name.rpartition("#")
    if not mark or not number.isdecimal() or int(number) >= batch:
        raise ArtifactError(f"the plan is for a batch of {batch}, but {name!r} names no element")
    return base, int(number)


def make_stacks(names: Sequence[str], batch: int) -> list[Stack]:
    """The model's tensors from the names of a plan's, in the plan's order of element 0.

    Raises
    ------
    ArtifactError
        If a tensor lacks an element.
    """
    found: dict[str, dict[int, int]] = {}
    for row, full in enumerate(names):
        name, element = split_element(full, batch)
        found.setdefault(name, {})[element] = row
    for name, rows in found.items():
        missing = sorted(set(range(batch)) - set(rows))
        if missing:
            raise ArtifactError(f"the plan lacks element {missing[0]} of {name!r}")
    return [
        Stack(name, tuple(rows[e] for e in range(batch)))
        for name, rows in sorted(found.items(), key=lambda item: item[1][0])
    ]


def stacked_shape(shape: Shape, batch: int) -> Shape:
    """The shape of B elements, the first axis counting them; that of one is its own."""
    return shape if batch == 1 else (batch, *shape)


def merged_shape(shape: Shape, batch: int) -> Shape:
    """The shape of B elements in which they follow each other along the model's first axis."""
    return (batch * shape[0], *shape[1:]) if shape else stacked_shape(shape, batch)


def split_batch(array: np.ndarray[Any, Any], shape: Shape, batch: int) -> list[Any]:
    """The elements of an array of either form, each of `shape`: views."""
    if batch == 1:
        return [array]
    # Dividing the first axis needs no copy, whatever the strides.
    stacked = array.reshape((batch, *shape))
    return [stacked[e, ...] for e in range(batch)]  # "..." lets a number be a view, too


def join_outputs(stacks: Sequence[Stack], merged: bool, outputs: Sequence[Any]) -> list[Any]:
    """The model's outputs from those of the plan: as they are, or joined for a batch."""
    if all(len(stack.rows) == 1 for stack in stacks):
        return list(outputs)
    return [join_batch([outputs[row] for row in stack.rows], merged) for stack in stacks]


@blocks_shutdown
def join_batch(parts: Sequence[Any], merged: bool) -> Any:
    """One new tensor in main memory from the elements of an output.

    Parameters
    ----------
    parts
        A tensor or array for each element, all of one shape and type.
    """
    arrays = [as_array(part) for part in parts]
    shape, batch = arrays[0].shape, len(arrays)
    form = merged_shape(shape, batch) if merged else stacked_shape(shape, batch)
    return stack_arrays(arrays, form)
