"""Shares of classes of tasks: how much of each make of work goes to each kind of device.

Copies left out, groups (tasks of one color; mostly one task) that take equally long on every device
are of one *class*, and devices of equal figures of one *kind*. Notation: class i has n(i) groups of
work w(i, k) seconds on kind k, kind k has m(k) devices, y(i, k) groups of class i run on kind k:

    minimise T  subject to                                                        -> `_solve`
      sum over k of y(i, k)          = n(i)       for every class
      sum over i of w(i, k) y(i, k) <= m(k) T     for every kind

A network of a hundred thousand tasks has some tens of classes, so this takes milliseconds. With the
price p(k) of a kind's load the dual says

    T >= sum over i of n(i) min over k of p(k) w(i, k)     if sum of m(k) p(k) = 1   -> `_proven`

Whole groups (batch 1) prove more. In a plan of value at most T no group runs where it alone takes
longer, so such y are 0 then (J. K. Lenstra, D. B. Shmoys, E. Tardos, Math. Programming 46, 1990,
doi:10.1007/BF01585745). If the program without them says v, then every plan's value is at least v
or exceeds T; and it says the same up to the next larger w. So the bound climbs to the smaller of v
and that w, again and again                                                          -> `shares_of`
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.views.instance import Instance

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# Steps of the climb; each solves the program once.
_STEPS = 40
_ROUNDING = 1 - 1e-12
# Classes x kinds up to which the program is solved; beyond, prices alone would take over.
_MOST_SHARES = 400_000


@dataclass(frozen=True)
class ClassShares:
    """What the program says.

    Attributes
    ----------
    value : proven lower bound of the busiest device, s; 0 if the program was too big.
    prices : of one device of each kind, at least 0.
    kinds : the devices of each kind.
    class_of : class of every group.
    work : (classes, kinds), s; inf where a group cannot run.
    shares : (classes, kinds), groups; empty if the program was too big.
    """

    value: float
    prices: Floats
    kinds: tuple[tuple[int, ...], ...]
    class_of: Integers
    work: Floats
    shares: Floats


def shares_of(instance: Instance, rates: Floats) -> ClassShares:
    """Solve the program at the head of this file.

    Parameters
    ----------
    rates : (parts, devices), least seconds of all elements of a part
        (`bounds.throughput.share_program.rates`).
    """
    rows = np.zeros((len(instance.groups), len(instance.names)))
    np.add.at(rows, [instance.group_of[v] for v in range(len(instance))], rates)
    kinds = _kinds(rows)
    rows = rows[:, [kind[0] for kind in kinds]]
    work, class_of, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    class_of = class_of.reshape(-1)
    devices = np.array([len(kind) for kind in kinds], dtype=np.float64)
    if work.size > _MOST_SHARES:
        empty = np.zeros((0, len(kinds)))
        return ClassShares(0.0, np.zeros(len(kinds)), kinds, class_of, work, empty)
    value, prices, shares = _solve(work, counts.astype(np.float64), devices)
    if instance.problem.batch == 1 and len(instance) == len(instance.parts_of):
        found = _climb(work, counts.astype(np.float64), devices, value)
        value, shares = found[0], shares if found[1] is None else found[1]
    return ClassShares(value * _ROUNDING, prices, kinds, class_of, work, shares)


def _kinds(rows: Floats) -> tuple[tuple[int, ...], ...]:
    """Devices on which all groups take equally long, in the order of the platform."""
    same: dict[bytes, list[int]] = {}
    for d, column in enumerate(np.ascontiguousarray(rows.T)):
        if np.isfinite(column).any():
            same.setdefault(column.tobytes(), []).append(d)
    return tuple(tuple(devices) for devices in same.values())


def _climb(
    work: Floats, counts: Floats, devices: Floats, value: float
) -> tuple[float, Floats | None]:
    """Raise the bound by what whole groups rule out; the shares of the last step."""
    bound = max(value, float(work.min(axis=1).max(initial=0.0)))
    shares = None
    for _ in range(_STEPS):
        longer = work[np.isfinite(work) & (work > bound)]
        if not longer.size:
            break
        step, _, shares = _solve(np.where(work > bound, np.inf, work), counts, devices)
        if step <= bound:
            break
        bound = min(step, float(longer.min()))
    return bound, shares


def _solve(work: Floats, counts: Floats, devices: Floats) -> tuple[float, Floats, Floats]:
    """Proven value, prices and shares; inf if some class has no kind left."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    allowed = np.isfinite(work)
    if not allowed.any(axis=1).all():
        return math.inf, np.zeros(len(devices)), np.zeros_like(work)
    scale = float(work[allowed].max(initial=0.0)) or 1.0
    i, k = np.nonzero(allowed)
    n = len(i)
    # T is counted in the mean load that it would have if all ran at their quickest.
    unit = float((counts * np.where(allowed, work, np.inf).min(axis=1)).sum() / devices.sum())
    unit = unit or scale
    # Column j is the part of class i(j) on kind k(j); the last one is T.
    loads = np.append(counts[i] * work[i, k] / unit, -devices)
    rows, columns = (
        np.append(k, np.arange(len(devices))),
        np.append(np.arange(n), np.full(len(devices), n)),
    )
    result = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=csr_array((loads, (rows, columns)), shape=(len(devices), n + 1)),
        b_ub=np.zeros(len(devices)),
        A_eq=csr_array((np.ones(n), (i, np.arange(n))), shape=(len(work), n + 1)),
        b_eq=np.ones(len(work)),
        bounds=(0, None),
        method="highs",
    )
    shares = np.zeros_like(work)
    if result.status != 0:
        return 0.0, np.zeros(len(devices)), shares
    shares[i, k] = result.x[:-1] * counts[i]
    prices = np.maximum(0.0, -result.ineqlin.marginals)
    total = float(prices @ devices)
    prices = prices / total if total > 0 else np.full(len(devices), 1.0 / devices.sum())
    return _proven(work, counts, prices), prices, shares


def _proven(work: Floats, counts: Floats, prices: Floats) -> float:
    """What prices prove, whatever they are."""
    finite = np.isfinite(work)
    least = np.where(finite, prices * np.where(finite, work, 0.0), np.inf).min(axis=1)
    return math.fsum(counts * least)
