"""Sums of products of codes, exact in float32: in parts, each of which stays below 2^24.

Where the weights are known, so is how large a sum can become: the greatest code of the other side
times the sum of the weights' magnitudes.  Most layers need no parts.  Parts are added in
float64: on the way from one to the next there is no cast that must mind what is out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.quantized.arithmetic import as_float, code_range, known_codes

EXACT = 2**24
"""All whole numbers of at most this magnitude are numbers of float32."""


def greatest_magnitude(r: Rewriting, codes: str, zero: str) -> int:
    """Return how far codes can be from their zero point.

    Parameters
    ----------
    r : Rewriting
        The node.
    codes, zero : str
        Operands; there may be no zero point.
    """
    low, high = code_range(r, r.element_type(codes))
    known = known_codes(r, zero) if zero else np.zeros(1, np.int32)
    if known is None:
        return high - low
    return int(max(high - known.astype(int).min(), known.astype(int).max() - low))


def magnitudes(r: Rewriting, codes: str, zero: str, axis: int) -> np.ndarray:
    """Return how much each step along an axis can add to a sum, for the worst of the others.

    Parameters
    ----------
    r : Rewriting
        The node.
    codes, zero : str
        One side of the product: constant codes are looked at.
    axis : int
        Along which products are added.

    Returns
    -------
    ndarray
        (steps, other): magnitudes of known codes, or the greatest of all.
    """
    known, offset = known_codes(r, codes), known_codes(r, zero) if zero else np.zeros(1, np.int32)
    steps = r.dims(codes)[axis]
    if known is None or offset is None or offset.size != 1:
        return np.full((steps, 1), greatest_magnitude(r, codes, zero), np.int64)
    moved = np.moveaxis(known.astype(np.int64) - int(offset.ravel()[0]), axis, 0)
    return np.abs(moved).reshape(steps, -1)


def cut(r: Rewriting, steps: np.ndarray, factor: int, room: int = EXACT) -> list[tuple[int, int]]:
    """Return ranges of steps of which the sums stay exact.

    Parameters
    ----------
    r : Rewriting
        The node, which is refused if a single step does not.
    steps : ndarray
        (steps, other): what each adds at most to each of the sums.
    factor : int
        By which each is multiplied at most.
    room : int
        How large a sum may become.
    """
    found, start = [], 0
    total = np.zeros(steps.shape[1], np.int64)
    for i, step in enumerate(steps):
        if int((total + step).max(initial=0)) * factor > room:
            if i == start:
                r.refuse("adds so many products at once that float32 cannot hold their sum")
            found.append((start, i))
            start, total = i, np.zeros_like(total)
        total = total + step
    return [*found, (start, len(steps))]


@dataclass(frozen=True)
class ExactSum:
    """A value of whole numbers, and its element type: float32 where that holds them, or float64."""

    name: str
    element_type: int

    def as_int32(self, r: Rewriting, outputs: list[str]) -> None:
        """Make a result of the node in int32."""
        r.add("Cast", [self.name], outputs, to=TensorProto.INT32)

    def as_float(self, r: Rewriting) -> str:
        """Add a cast to float32, which rounds as one of int32 would; returns the result's name."""
        return as_float(r, self.name, self.element_type)

    def plus(self, r: Rewriting, other: str, element_type: int = TensorProto.INT32) -> ExactSum:
        """Add another value, an operand of int32 for example."""
        wide = [
            r.add("Cast", [name], to=TensorProto.DOUBLE) if kind != TensorProto.DOUBLE else name
            for name, kind in ((self.name, self.element_type), (other, element_type))
        ]
        return ExactSum(r.add("Add", wide), TensorProto.DOUBLE)


def add_parts(
    r: Rewriting, ranges: Sequence[tuple[int, int]], product: Callable[[int, int], str]
) -> ExactSum:
    """Add the product of each range of steps, and their sum.

    Parameters
    ----------
    r : Rewriting
        The node.
    ranges : sequence of pair of int
        From :func:`cut`.
    product : callable
        Adds the product of one range, in float32; returns its name.
    """
    parts = [ExactSum(product(start, end), TensorProto.FLOAT) for start, end in ranges]
    total, *rest = parts
    for part in rest:
        total = total.plus(r, part.name, part.element_type)
    return total


def sliced(r: Rewriting, name: str, start: int, end: int, axis: int) -> str:
    """Return part of a value along an axis."""
    limits = [r.constant([limit], np.int64) for limit in (start, end, axis)]
    return r.add("Slice", [name, *limits])
