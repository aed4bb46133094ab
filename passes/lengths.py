"""Results of a model that are as long as another result says: what is found in data is counted.

A kernel that looks for something (boxes that overlap no better one, numbers other than zero) makes
room for all that it could find, and a number beside it: how much it found.  Where that is handed
out, the executor hands out so much of it.  On ``main`` stands, for each such result, the axis that
is counted, and which result is the number; numbers are results of ``main`` for that alone, and no
outputs of the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tvm_hetero.passes.attributes import LENGTHS

if TYPE_CHECKING:
    from tvm import relax


class CountedResult(NamedTuple):
    """The result `position`, along whose `axis` only as much counts as result `number` says."""

    position: int
    axis: int
    number: int


def lengths_attribute(counted: Iterable[CountedResult]) -> dict[str, list[int]]:
    """The attribute of ``main`` that says so; none where nothing is counted."""
    numbers = [n for each in counted for n in each]
    return {LENGTHS: numbers} if numbers else {}


def counted_results(function: relax.Function) -> dict[int, CountedResult]:
    """The counted results of a function, by their position."""
    given = function.attrs.get(LENGTHS) if function.attrs is not None else None
    numbers = [int(n) for n in given or []]
    rows = (CountedResult(*numbers[i : i + 3]) for i in range(0, len(numbers), 3))
    return {row.position: row for row in rows}
