"""The k first elements along an axis, by size, in their order.

One *comes before* another if it is larger (or smaller), or as large and stands before it; NaN is
larger than any number. So the order is total, and the answer is one.

    J. W. J. Williams, Algorithm 232: Heapsort, CACM 7 (6), 1964.

The outputs are the heap: at its root stands the last of those kept so far.  Each further element
that comes before the root takes its place and sinks.  In the end the root is swapped with the
heap's end again and again, and what is left sinks: they stand in order.  O(n log k), whatever
the data are, no memory besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.ordered.accumulate import OPAQUE
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    function,
    load,
    loop,
    sequence,
    store,
    tensor,
    when,
    whole,
)

if TYPE_CHECKING:
    Expr = Any


def largest(
    extents: tuple[int, int, int], kept: int, dtype: str, *, smallest: bool = False
) -> tirx.PrimFunc:
    """The kernel of the `kept` largest or smallest along the middle one of three axes.

    Parameters
    ----------
    extents
        Of the tensor; the middle one is at least `kept`.
    kept
        At least 1.
    dtype
        Of the elements.
    smallest
        Whether the smallest come first.

    Returns
    -------
    PrimFunc
        Of the tensor, the values (in its type) and their places (int64).
    """
    outer, length, inner = extents
    made = (outer, kept, inner)
    data = tensor("data", extents, dtype)
    values, places = tensor("values", made, dtype), tensor("places", made, "int64")
    spots = tensor("spots", [4], "int64", "local")
    better = comes_smaller if smallest else comes_larger

    def column(o: Expr, i: Expr) -> list[tirx.Stmt]:
        heap = Heap(values, places, spots, kept, better, o, i)
        return [
            loop("t", kept, lambda t: heap.put(t, load(data, o, t, i), t)),
            loop("t", kept // 2, lambda t: heap.sink(whole(kept // 2 - 1) - t, whole(kept))),
            loop("t", length - kept, lambda t: heap.offer(load(data, o, t + kept, i), t + kept)),
            loop("t", kept - 1, lambda t: heap.swap_root(whole(kept - 1) - t)),
        ]

    body = loop("o", outer, lambda o: loop("i", inner, lambda i: column(o, i)))
    params = [data, values, places]
    return function(params, body, "largest", [values, places], [spots], attrs=OPAQUE)


def comes_larger(one: Expr, other: Expr) -> Expr:
    """Whether one is larger than another; NaN is larger than any number."""
    return _beyond(one > other, one, other)


def comes_smaller(one: Expr, other: Expr) -> Expr:
    """Whether one is smaller than another; NaN is larger than any number."""
    return _beyond(one < other, other, one)


def _beyond(beyond: Expr, one: Expr, other: Expr) -> Expr:
    """Whether the first is beyond, or a NaN where the other is none."""
    if "float" not in str(one.ty.dtype):
        return beyond
    return tirx.any(beyond, tirx.all(_is_nan(one), tirx.Not(_is_nan(other))))


def as_large(one: Expr, other: Expr) -> Expr:
    """Whether one is as large as another; so is NaN as NaN."""
    # Not the negation of both being larger: TVM makes `a <= b` of `not a > b`, NaN or not.
    if "float" not in str(one.ty.dtype):
        return one == other
    return tirx.any(one == other, tirx.all(_is_nan(one), _is_nan(other)))


def _is_nan(value: Expr) -> Expr:
    narrow = str(value.ty.dtype) in ("float16", "bfloat16")
    return tirx.isnan(tirx.Cast("float32", value) if narrow else value)


@dataclass(frozen=True)
class Heap:
    """A column of the outputs as a heap, whose root comes last."""

    values: tirx.Var
    places: tirx.Var
    spots: tirx.Var
    kept: int
    better: Any
    o: Expr
    i: Expr

    def value(self, at: Expr) -> Expr:
        return load(self.values, self.o, at, self.i)

    def index(self, at: Expr) -> Expr:
        return load(self.places, self.o, at, self.i)

    def put(self, at: Expr, value: Expr, place: Expr) -> list[tirx.Stmt]:
        to = [self.o, at, self.i]
        return [store(self.values, to, value), store(self.places, to, place)]

    def before(self, one: Expr, other: Expr) -> Expr:
        """Whether what stands at one position comes before what stands at another one."""
        a, b = self.value(one), self.value(other)
        first = self.index(one) < self.index(other)
        return tirx.any(self.better(a, b), tirx.all(as_large(a, b), first))

    def exchange(self, one: Expr, other: Expr) -> list[tirx.Stmt]:
        value, keep_value = bind_value("value", self.value(one))
        place, keep_place = bind_value("place", self.index(one))
        moved = self.put(one, self.value(other), self.index(other))
        return [keep_value, keep_place, *moved, *self.put(other, value, place)]

    def sink(self, start: Expr, size: Expr) -> list[tirx.Stmt]:
        """Let what stands at `start` sink to where all below it come before it."""
        here, left, right, later = range(4)
        nowhere = whole(self.kept)

        def child(to: int, at: Expr, otherwise: Expr) -> tirx.Stmt:
            return store(self.spots, [to], tirx.Select(at < size, at, otherwise))

        first = self.at(here) * 2 + 1
        chosen = tirx.Select(
            self.before(self.at(left), self.at(right)), self.at(right), self.at(left)
        )
        down = [*self.exchange(self.at(here), self.at(later)), self.note(here, self.at(later))]
        sinks = self.before(self.at(here), self.at(later))
        step = [
            child(left, first, self.at(here)),
            child(right, first + 1, self.at(left)),
            self.note(later, chosen),
            tirx.IfThenElse(sinks, sequence(down), self.note(here, nowhere)),
        ]
        below = when(load(self.spots, here) < size, step)
        return [self.note(here, start), loop("level", self.kept.bit_length(), lambda _: below)]

    def note(self, spot: int, at: Expr) -> tirx.Stmt:
        return store(self.spots, [spot], at)

    def at(self, spot: int) -> Expr:
        """A position, inside of the heap for whoever reads the kernel."""
        return tirx.max(tirx.min(load(self.spots, spot), whole(self.kept - 1)), whole(0))

    def offer(self, value: Expr, place: Expr) -> tirx.Stmt:
        """Keep an element that comes before the root, in its stead."""
        root = whole(0)
        kept = [*self.put(root, value, place), *self.sink(root, whole(self.kept))]
        return when(self.better(value, self.value(root)), kept)

    def swap_root(self, end: Expr) -> list[tirx.Stmt]:
        """Put the root behind the rest of the heap, which ends at `end`."""
        return [*self.exchange(whole(0), end), *self.sink(whole(0), end)]
