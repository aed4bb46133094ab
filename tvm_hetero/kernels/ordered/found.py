"""What is found in data: as many as there are, in room for all that there could be.

Each kernel writes what it finds one after the other, and how many that were.  Behind them it
repeats the first, so that whoever computes with all of the room meets no other values than those
that were found; where nothing was, zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.ordered.accumulate import OPAQUE
from tvm_hetero.kernels.tir.statements import (
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


class Found:
    """Rows that are written one after the other.

    Parameters
    ----------
    count
        A tensor of one int64: how many rows there are.
    room
        How many there may be.
    """

    def __init__(self, count: tirx.Var, room: int) -> None:
        self.count, self.room = count, room

    def start(self) -> tirx.Stmt:
        """Nothing is found yet."""
        return store(self.count, [0], whole(0))

    @property
    def next(self) -> Expr:
        """The row to write; inside of the room for whoever reads the kernel."""
        return tirx.max(tirx.min(load(self.count, 0), whole(self.room - 1)), whole(0))

    def step(self) -> tirx.Stmt:
        """One row is written."""
        return store(self.count, [0], load(self.count, 0) + 1)

    def fill(self, write: Callable[[Expr, Callable[[Any], Any]], tirx.Stmt]) -> list[tirx.Stmt]:
        """Repeat the first row behind the last, or write zeros where there is none.

        Parameters
        ----------
        write
            Makes a statement that writes a row: of its number, and of what makes the value to be
            written of the value in the first row.
        """
        none = load(self.count, 0) == whole(0)

        def zero(value: Any) -> Any:
            return tirx.const(0, str(value.ty.dtype))

        first = when(none, write(whole(0), zero))
        behind = loop(
            "row",
            self.room,
            lambda row: when(row >= tirx.max(load(self.count, 0), whole(1)), write(row, _same)),
        )
        return [first, behind]


def _same(value: Any) -> Any:
    return value


def nonzero(shape: Sequence[int], dtype: str) -> tirx.PrimFunc:
    """The kernel that finds what is not zero: its places, an axis a row, and how many.

    Parameters
    ----------
    shape, dtype
        Of the tensor, which has an axis at least.
    """
    room = 1
    for extent in shape:
        room *= extent
    data = tensor("data", shape, dtype)
    places, count = tensor("places", [len(shape), room], "int64"), tensor("count", [1], "int64")
    found = Found(count, room)

    def look(at: Sequence[Expr]) -> tirx.Stmt:
        if len(at) < len(shape):
            return loop(f"i{len(at)}", shape[len(at)], lambda i: look([*at, i]))
        written = [store(places, [d, found.next], i) for d, i in enumerate(at)]
        value = load(data, *at)
        is_there = value if dtype == "bool" else value != tirx.const(0, dtype)
        return when(is_there, [*written, found.step()])

    def write(row: Expr, of: Callable[[Any], Any]) -> tirx.Stmt:
        return loop("d", len(shape), lambda d: store(places, [d, row], of(load(places, d, 0))))

    body = [found.start(), look([]), *found.fill(write)]
    return function([data, places, count], body, "nonzero", [places, count], attrs=OPAQUE)


def compress(extents: tuple[int, int, int], conditions: int, dtype: str) -> tirx.PrimFunc:
    """The kernel that keeps, along the middle one of three axes, what conditions are true for.

    Parameters
    ----------
    extents, dtype
        Of the tensor.
    conditions
        How many there are; what is behind them is left out.
    """
    outer, length, inner = extents
    data, condition = tensor("data", extents, dtype), tensor("condition", [conditions], "bool")
    kept, count = tensor("kept", extents, dtype), tensor("count", [1], "int64")
    found = Found(count, length)

    def row(at: Expr, value: Callable[[Expr, Expr], Expr]) -> tirx.Stmt:
        return loop(
            "o", outer, lambda o: loop("i", inner, lambda i: store(kept, [o, at, i], value(o, i)))
        )

    def look(t: Expr) -> tirx.Stmt:
        keep = row(found.next, lambda o, i: load(data, o, t, i))
        return when(load(condition, t), [keep, found.step()])

    def write(at: Expr, of: Callable[[Any], Any]) -> tirx.Stmt:
        return row(at, lambda o, i: of(load(kept, o, 0, i)))

    body = [
        found.start(),
        loop("t", min(length, conditions), look),
        *found.fill(write),
    ]
    params = [data, condition, kept, count]
    return function(params, body, "compress", [kept, count], attrs=OPAQUE)


def pack(extents: tuple[int, int, int], dtype: str) -> tirx.PrimFunc:
    """The kernel that puts what counts along the middle one of three axes to the beginning.

    Parameters
    ----------
    extents, dtype
        Of the tensor.

    Returns
    -------
    PrimFunc
        Of the tensor, how much of the axis counts, and the result: in its first elements it has
        what counts, compactly; the rest is zero.
    """
    outer, length, inner = extents
    room = outer * length * inner
    data, count = tensor("data", extents, dtype), tensor("count", [1], "int64")
    packed = tensor("packed", [room], dtype)

    def put(o: Expr, t: Expr, i: Expr) -> tirx.Stmt:
        place = (o * load(count, 0) + t) * inner + i
        inside = tirx.max(tirx.min(place, whole(room - 1)), whole(0))
        return when(t < load(count, 0), store(packed, [inside], load(data, o, t, i)))

    def rows(o: Expr) -> tirx.Stmt:
        return loop("t", length, lambda t: loop("i", inner, lambda i: put(o, t, i)))

    body = sequence(
        [
            loop("n", room, lambda n: store(packed, [n], tirx.const(0, dtype))),
            loop("o", outer, rows),
        ]
    )
    return function([data, count, packed], body, "pack", [packed], attrs=OPAQUE)
