"""Each number of a tensor once, with where it first stands and how often.

The numbers are sorted by a heap (`largest`), equal ones by their places: the first of each run is
where it first stands.  In the order of their first places they come where that is asked for:

    rank[g] = how many runs first stand before run g        counted while going over the tensor
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.ordered.accumulate import OPAQUE
from tvm_hetero.kernels.ordered.found import Found
from tvm_hetero.kernels.ordered.largest import Heap, as_large, comes_smaller
from tvm_hetero.kernels.tir.statements import (
    function,
    load,
    loop,
    store,
    tensor,
    when,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Expr = Any


def unique(size: int, dtype: str, *, in_order: bool) -> tirx.PrimFunc:
    """The kernel of the different numbers of a vector.

    Parameters
    ----------
    size, dtype
        Of the vector.
    in_order
        Whether they come by size; else by where they first stand.

    Returns
    -------
    PrimFunc
        Of the vector, its different numbers, where each first stands, for each of the vector which
        of them it is, how often each stands there (int64 all), and how many there are.
    """
    data, values = tensor("data", [size], dtype), tensor("values", [size], dtype)
    names = ("first", "which", "times")
    first, which, times = (tensor(name, [size], "int64") for name in names)
    count = tensor("count", [1], "int64")
    column = (1, size, 1)
    sorted_values, places = tensor("sorted", column, dtype), tensor("places", column, "int64")
    spots = tensor("spots", [4], "int64", "local")
    rank = tensor("rank", [size], "int64")
    heap = Heap(sorted_values, places, spots, size, comes_smaller, whole(0), whole(0))
    found = Found(count, size)

    def inside(place: Expr) -> Expr:
        return tirx.max(tirx.min(place, whole(size - 1)), whole(0))

    def run(t: Expr) -> tirx.Stmt:
        """One number of the sorted ones: of a new run, or of the last one."""
        place = inside(heap.index(t))
        last = inside(load(count, 0) - 1)
        begin = [
            store(values, [found.next], heap.value(t)),
            store(first, [found.next], place),
            store(times, [found.next], whole(1)),
            store(which, [place], found.next),
            found.step(),
        ]
        goes_on = [
            store(times, [last], load(times, last) + 1),
            store(which, [place], last),
        ]
        before = inside(t - 1)
        equal = tirx.all(t > whole(0), as_large(heap.value(t), heap.value(before)))
        return tirx.IfThenElse(equal, tirx.SeqStmt(goes_on), tirx.SeqStmt(begin))

    body = [
        loop("t", size, lambda t: heap.put(t, load(data, t), t)),
        loop("t", size // 2, lambda t: heap.sink(whole(size // 2 - 1) - t, whole(size))),
        loop("t", size - 1, lambda t: heap.swap_root(whole(size - 1) - t)),
        found.start(),
        loop("t", size, run),
    ]
    made = [values, first, which, times]
    if not in_order:
        body += _by_first_place(data, made, rank, found, inside)
    body += _filled(found, [values, first, times])
    params = [data, *made, count]
    buffers = [sorted_values, places, spots, rank]
    return function(params, body, "unique", [*made, count], buffers, attrs=OPAQUE)


def _by_first_place(
    data: tirx.Var,
    made: Sequence[tirx.Var],
    rank: tirx.Var,
    found: Found,
    inside: Callable[[Expr], Expr],
) -> list[tirx.Stmt]:
    """Number the runs anew as they are met, and write down what belongs to each."""
    values, first, which, times = made
    size = found.room

    def meet(i: Expr) -> tirx.Stmt:
        own = inside(load(which, i))
        return when(load(first, own) == i, [store(rank, [own], found.next), found.step()])

    def note(i: Expr) -> list[tirx.Stmt]:
        return [store(which, [i], inside(load(rank, inside(load(which, i)))))]

    def again(i: Expr) -> list[tirx.Stmt]:
        own = inside(load(which, i))
        begin = [
            store(values, [own], load(data, i)),
            store(first, [own], i),
            store(times, [own], whole(0)),
            found.step(),
        ]
        new = own == load(found.count, 0)
        return [when(new, begin), store(times, [own], load(times, own) + 1)]

    return [
        found.start(),
        loop("i", size, meet),
        loop("i", size, note),
        found.start(),
        loop("i", size, again),
    ]


def _filled(found: Found, rows: Sequence[tirx.Var]) -> list[tirx.Stmt]:
    def write(row: Expr, of: Callable[[Any], Any]) -> tirx.Stmt:
        return tirx.SeqStmt([store(each, [row], of(load(each, 0))) for each in rows])

    return found.fill(write)
