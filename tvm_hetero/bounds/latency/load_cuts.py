"""Load cuts: what starts late or must be followed by something leaves a device less than T.

If anything runs on d that cannot start before h and is followed by at least q, all such work
fits into T - h - q. With F a bound that T is known to keep and v any of that work

    sum load x + max(0, h + q - F) y(v, d)  <=  T - min(h + q, F)

which also holds if nothing of it runs on d. The most violated pairs (h, q) at a point are found by
sums over all pairs at once                                                      -> `find_violated`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.views.array_types import FloatArray

_MOST = 3
_THRESHOLDS = 150
# In units of the program, whose times are about 1.
_CLOSE = 1e-7

Row = list[tuple[int, float]]


@dataclass(frozen=True)
class LoadActivity:
    """What may keep a device busy: shares and their seconds, and what lies before and after."""

    terms: Row
    before: float
    after: float


def find_violated(
    work: Sequence[LoadActivity], point: FloatArray, makespan: float, floor: float
) -> list[tuple[Row, float]]:
    """Rows with `sum of row + ends <= makespan` that the point violates, the worst first.

    Parameters
    ----------
    work : what one device may do.
    point : values of all variables; `makespan` is T there.
    floor : F, a proven bound of T.
    """
    load = np.array([sum(point[x] * s for x, s in what.terms) for what in work])
    before = np.array([what.before for what in work])
    after = np.array([what.after for what in work])
    hs, qs = _thresholds(before), _thresholds(after)
    table = np.zeros((len(hs), len(qs)))
    rows = np.searchsorted(hs, before, "right") - 1
    columns = np.searchsorted(qs, after, "right") - 1
    np.add.at(table, (rows, columns), load)
    total = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    over = total + np.minimum(hs[:, None] + qs[None, :], floor) - makespan
    over[total <= 1e-9] = -math.inf
    worst = np.argsort(-over, axis=None, kind="stable")[:_MOST]
    pairs = [divmod(int(at), len(qs)) for at in worst]
    cuts = [_cut(work, float(hs[h]), float(qs[q]), point, floor) for h, q in pairs]
    return [
        (row, ends)
        for row, ends in cuts
        if row and sum(a * point[x] for x, a in row) + ends > makespan + _CLOSE
    ]


def _cut(
    work: Sequence[LoadActivity], h: float, q: float, point: FloatArray, floor: float
) -> tuple[Row, float]:
    """The row of a pair (h, q); empty if nothing is so late."""
    inside = [what for what in work if what.before >= h and what.after >= q]
    if not inside:
        return [], 0.0
    ends = min(what.before for what in inside) + min(what.after for what in inside)
    row = [term for what in inside for term in what.terms]
    more = max(0.0, ends - floor)
    most = max(inside, key=lambda what: sum(point[x] for x, _ in what.terms))
    return merge_terms([*row, *((x, more) for x, _ in most.terms)]), min(ends, floor)


def _thresholds(values: FloatArray) -> FloatArray:
    """Some of the values, the least among them."""
    found = np.unique(values)
    step = max(1, math.ceil(len(found) / _THRESHOLDS))
    return found[::step]


def merge_terms(terms: Sequence[tuple[int, float]]) -> Row:
    """Each variable once."""
    total: dict[int, float] = {}
    for x, a in terms:
        total[x] = total.get(x, 0.0) + a
    return list(total.items())
