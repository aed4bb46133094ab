"""Bounds by integrality: where all times are multiples of a unit u, so is the least value.

In a best schedule every activity starts at 0 or when another one ends, whatever it waits for
(data, a resource, memory): else it could be moved to the left, which harms no objective. So its
makespan is a sum of durations, and so is the load of a device or a link. With W the
watts of a device and I those while it is idle,

    latency, throughput   sum of durations                                  a multiple of u
    cost                  sum of price over the devices in use * makespan   of gcd(price) u
    energy                sum of W busy + I (makespan - busy)               of gcd(W, I) u

A bound is rounded up to the next multiple. Numbers are taken for the decimals that they are
written as (0.1 for the float next to it), and all that a bound may be too high by, 1e-6 of itself
(the accuracy of linear programs), is taken off before; so nothing is gained where the value is
above 500,000 units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise, product

from tvm_hetero.platform.devices import Fabric, Link
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.model import Problem

# By how much a bound may be off before it is rounded up, and the result for rounding.
_ACCURACY, _ROUNDING = 2e-6, 1 - 1e-12
# Units in the longest duration above which there is nothing to gain.
_MOST_UNITS = 1_000_000
# Batches above which tables of costs are not gone through, and durations that are looked at.
_MOST_BATCH, _MOST_DURATIONS = 64, 100_000


def round_up(problem: Problem, bound: float) -> float:
    """The least value at or above a lower bound that there can be; else the bound itself."""
    unit = _unit(problem)
    if not unit or not 0 < bound < math.inf:
        return bound
    count = math.ceil(bound / unit * (1 - _ACCURACY))
    return max(bound, count * unit * _ROUNDING)


@cached_per_problem
def _unit(problem: Problem) -> float:
    """What every value is a multiple of, in the objective's unit; 0 if nothing is known."""
    seconds = _common(_durations(problem))
    kind, devices = problem.objective.kind, problem.platform.devices
    if kind == "cost":
        return float(seconds * _common(device.price or 0.0 for device in devices) / 3600)
    if kind == "energy":
        if problem.has_energies:
            return 0.0
        return float(seconds * _common(w for d in devices for w in (d.watts or 0.0, d.idle_watts)))
    return float(seconds)


def _common(numbers: Iterable[float | Fraction]) -> Fraction:
    """The largest number that all are multiples of; 0 if it is too small to be of use."""
    unit, most = Fraction(0), Fraction(0)
    for number in numbers:
        exact = _exact(number)
        most = max(most, abs(exact))
        unit = _gcd(unit, exact)
        if unit * _MOST_UNITS < most:
            return Fraction(0)
    return unit


def _exact(number: float | Fraction) -> Fraction:
    """The decimal that a number is written as."""
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    denominator = math.lcm(a.denominator, b.denominator)
    return Fraction(math.gcd(int(a * denominator), int(b * denominator)), denominator)


def _durations(problem: Problem) -> Iterator[float | Fraction]:
    """What all executions and hops are made of, each number once; a long one, if it is too much."""
    costs = {cost.points for row in problem.costs.values() for cost in row.values()}
    plain = {points[0][1] for points in costs if len(points) == 1 and points[0][0] == 1}
    tables = [points for points in costs if len(points) > 1 or points[0][0] > 1]
    sizes = {tensor.bytes for tensor in problem.graph.tensors.values()}
    links: list[Link | Fabric] = [*problem.platform.links, *problem.platform.fabrics]
    rates = {(link.latency, link.bandwidth) for link in links} if _moves(problem) else set()
    batch = problem.batch if tables else 1
    if batch > _MOST_BATCH or len(tables) * batch + len(sizes) * len(rates) > _MOST_DURATIONS:
        yield from (1.0, Fraction(1, 10 * _MOST_UNITS))
        return
    yield from plain
    for points, n in product(tables, range(1, batch + 1)):
        yield seconds_of(points, n)
    for latency, bandwidth in rates:
        yield latency
        if bandwidth < math.inf:
            yield from (size / _exact(bandwidth) for size in sizes)


def _moves(problem: Problem) -> bool:
    """Whether anything can be copied: two devices run something."""
    return len({device for row in problem.costs.values() for device in row}) > 1


def seconds_of(points: tuple[tuple[int, float], ...], elements: int) -> Fraction:
    """`Cost.seconds` in decimals."""
    knots = [(0, Fraction(0)), *((n, _exact(s)) for n, s in points)]
    (n0, s0), (n1, s1) = next(
        (pair for pair in pairwise(knots) if elements <= pair[1][0]), (knots[-2], knots[-1])
    )
    if elements > n1 and s1 < s0:
        n0, s0 = 0, Fraction(0)
    return s0 + (s1 - s0) * (elements - n0) / (n1 - n0)
