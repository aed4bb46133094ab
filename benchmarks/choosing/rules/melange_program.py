"""Mélange's integer program: slices of the load's sizes onto kinds of GPUs, paying for whole ones.

    minimise    sum over j of  c(j) B(j)
    subject to  sum over j of  A(i, j) = 1                    every slice i has a kind
                sum over i of  A(i, j) L(i, j) <= B(j)        its load there fits
                A in {0, 1},  B whole

T. Griggs et al., arXiv 2404.14527, section 5.4. A bucket of the load's sizes is cut into `slices`
equal parts (8 there); a slice of rate r loads a GPU of kind j by r / (what j carries of its size
within the SLO). Slices of one bucket are alike, so their number on a kind stands for A here. It is
the program of their release (`melange/solver.py`), solved by HiGHS instead of CBC.

`divide_buckets` lets A be anything between 0 and 1: no allocation with these loads costs less than
its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from tvm_hetero.errors import InfeasibleError

SLICES = 8
# HiGHS's own tolerance, taken off the bound.
_SLACK = 1e-6


@dataclass(frozen=True)
class KindCounts:
    """How many machines of each kind, what they cost, and what none of the program costs less."""

    counts: tuple[int, ...]
    price: float
    bound: float


def pack_slices(
    asked: Sequence[float], carried: Sequence[Sequence[float]], prices: Sequence[float]
) -> KindCounts:
    """Mélange's allocation.

    Parameters
    ----------
    asked : requests a second of each bucket; carried : of each kind, of each bucket (0: none);
        prices : of one of each kind.

    Raises
    ------
    InfeasibleError
        If a bucket is carried by no kind.
    """
    return _solve(asked, carried, prices, whole=True)


def divide_buckets(
    asked: Sequence[float], carried: Sequence[Sequence[float]], prices: Sequence[float]
) -> KindCounts:
    """The same with buckets divided at will: no allocation with these loads is cheaper."""
    return _solve(asked, carried, prices, whole=False)


def _solve(
    asked: Sequence[float],
    carried: Sequence[Sequence[float]],
    prices: Sequence[float],
    *,
    whole: bool,
) -> KindCounts:
    kinds, buckets = len(prices), len(asked)
    # n[j, b]: slices of bucket b on kind j, then B[j].
    cost = np.concatenate([np.zeros(kinds * buckets), prices])
    every = np.zeros((buckets, kinds * buckets + kinds))
    load = np.zeros((kinds, kinds * buckets + kinds))
    most = np.full(kinds * buckets + kinds, np.inf)
    for j, row in enumerate(carried):
        load[j, kinds * buckets + j] = -1.0
        for b, rate in enumerate(row):
            every[b, j * buckets + b] = 1.0
            most[j * buckets + b] = SLICES if rate > 0 else 0
            load[j, j * buckets + b] = asked[b] / SLICES / rate if rate > 0 else 0.0
    whether = np.concatenate([np.full(kinds * buckets, int(whole)), np.ones(kinds)])
    found = milp(
        cost,
        constraints=[
            LinearConstraint(every, SLICES, SLICES),
            LinearConstraint(load, -np.inf, 0.0),
        ],
        integrality=whether,
        bounds=Bounds(np.zeros(len(cost)), most),
    )
    if not found.success:
        raise InfeasibleError("a size of requests is carried by no kind of machine within the SLO")
    counts = tuple(round(float(n)) for n in found.x[kinds * buckets :])
    price = sum(count * each for count, each in zip(counts, prices, strict=True))
    return KindCounts(counts, price, min(price, float(found.mip_dual_bound) * (1 - _SLACK)))
