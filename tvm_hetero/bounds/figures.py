"""A problem in arrays, as the bounds need it: what cannot be undercut, however a batch is divided.

For a batch of B elements, any division of it into executions, and c(v, d, n) seconds of n
elements of task v on device d:

    rate[v, d]    B min over n of c(v, d, n) / n: all elements of v on d take at least this
    least[v, d]   min over n of c(v, d, n): the execution that holds an element, likewise
    choices(v, d) points (load, path): see below

Costs are linear between the points of their table, so both minima lie at a point, 1 or B. For
B = 1 both are the cost.

An execution of n elements is cheap for its device (large n shares what is paid once an
execution) or quick for its elements (small n), never both. Per unit of the batch it costs

    load(n) = B c(n) / n   of the device,        path(n) = c(n)   of the mean element's way,

so a share y of the batch, however divided, costs (load, path) that is y times a mean of these
points over n = 1 .. B. `choices` are the corners of a polygon that lies below and to the left of
all points: their lower hull where it is short, else the meeting points of some of its sides
(each side's line has all points on one side, so nothing is cut off).

Copies: an element's copy takes `latency[j, k] + bytes * inverse[j, k]` at least. Between devices
without a link, both are the least over all paths, each for itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tvm_hetero.instance import Instance
from tvm_hetero.problem import Cost, Problem

Array = np.ndarray[Any, np.dtype[Any]]
Choice = tuple[float, float]
# Sizes of executions up to which every one is looked at; corners that a polygon may have.
_ALL_SIZES = 1024
_CORNERS = 9


@dataclass(frozen=True)
class Figures:
    """See the head of this file. Tasks are in topological order: task i is `tasks[i]`.

    Attributes
    ----------
    batch : elements that may be divided; 1 if the instance has its division already.
    tasks : positions in the instance.
    rate, least : (tasks, devices), s; inf where a device cannot run a task.
    src, dst, tensor : of every edge (one tensor, one reader), sorted by `dst`.
    nbytes : of every tensor, for one element.
    latency, inverse : (devices, devices), s and s per byte; inf where no path leads.
    """

    instance: Instance
    batch: int
    tasks: tuple[int, ...]
    rate: Array
    least: Array
    src: Array
    dst: Array
    tensor: Array
    nbytes: Array
    latency: Array
    inverse: Array

    def __len__(self) -> int:
        return len(self.tasks)

    def copies(self, edges: Array) -> Array:
        """(edges, devices, devices): time of one element's copy from maker to reader, s."""
        sizes = self.nbytes[self.tensor[edges]]
        times: Array = self.latency + sizes[:, None, None] * self.inverse
        return times

    def without(self, devices: Sequence[int]) -> Figures:
        """The same with some devices that run nothing; some task may be left without any."""
        rate, least = self.rate.copy(), self.least.copy()
        rate[:, devices], least[:, devices] = math.inf, math.inf
        return replace(self, rate=rate, least=least)

    @cached_property
    def merged(self) -> Figures:
        """Equal devices as one, with copies from and to the nearest of them.

        Its loads are means over the devices that were merged, so every bound by paths or by
        loads is one of these figures. For nothing else: devices do not match the instance's.
        """
        both = np.concatenate([self.rate, self.least]).T
        _, first, kind = np.unique(both, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(kind):
            return self
        kind = kind.reshape(-1)
        latency, inverse = _nearest(self.latency, kind), _nearest(self.inverse, kind)
        rate = self.rate[:, first] / np.bincount(kind)
        least = self.least[:, first]
        return replace(self, rate=rate, least=least, latency=latency, inverse=inverse)

    @cached_property
    def feasible(self) -> bool:
        """Whether every task has a device."""
        return bool(np.isfinite(self.least).any(axis=1).all())

    def choices(self, i: int, d: int) -> tuple[Choice, ...]:
        """Corners (load, path) of task `i` on device `d`, s per whole batch and per element."""
        if self.batch == 1 or self.rate[i, d] == 0:
            return ((float(self.rate[i, d]), float(self.least[i, d])),)
        task = self.instance.tasks[self.tasks[i]]
        cost = self.instance.problem.costs[task][self.instance.names[d]]
        return self._corners(cost)

    @cached_property
    def _known(self) -> dict[Cost, tuple[Choice, ...]]:
        return {}

    def _corners(self, cost: Cost) -> tuple[Choice, ...]:
        if cost not in self._known:
            self._known[cost] = corners(cost, self.batch)
        return self._known[cost]


def figures_of(instance: Instance) -> Figures:
    """The arrays of an instance; those of a divided one are for its own division alone."""
    order = instance.order
    place = {v: i for i, v in enumerate(order)}
    edges = [
        (place[w], place[flow.maker], t)
        for t, flow in enumerate(instance.tensors)
        for w in flow.readers
    ]
    table = np.array(sorted(edges), dtype=np.int64).reshape(-1, 3)
    whole = all(len(own) == instance.problem.batch for own in instance.elements)
    batch = instance.problem.batch if whole else 1
    latency, inverse = _links(instance)
    rate, least = _tables(instance, batch)
    return Figures(
        instance=instance,
        batch=batch,
        tasks=order,
        rate=rate,
        least=least,
        src=table[:, 1],
        dst=table[:, 0],
        tensor=table[:, 2],
        nbytes=np.array([flow.nbytes // batch for flow in instance.tensors], dtype=float),
        latency=latency,
        inverse=inverse,
    )


def _tables(instance: Instance, batch: int) -> tuple[Array, Array]:
    """rate and least, in topological order."""
    if batch == 1:
        seconds = np.array([instance.seconds[v] for v in instance.order], dtype=float)
        return seconds, seconds
    shape = (len(instance), len(instance.names))
    rate, least = np.full(shape, math.inf), np.full(shape, math.inf)
    known: dict[Cost, tuple[float, float]] = {}
    for i, v in enumerate(instance.order):
        for d in instance.devices[v]:
            cost = instance.problem.costs[instance.tasks[v]][instance.names[d]]
            if cost not in known:
                known[cost] = _best(instance.problem, cost)
            # A part that was made free (see `modules.Piece`) has no time at all.
            free = instance.seconds[v][d] == 0
            rate[i, d], least[i, d] = (0.0, 0.0) if free else known[cost]
    return rate, least


def _best(problem: Problem, cost: Cost) -> tuple[float, float]:
    batch = problem.batch
    sizes = sorted({1, batch, *(n for n, _ in cost.points if n < batch)})
    rate = batch * min(cost.seconds(n) / n for n in sizes)
    return rate, min(cost.seconds(n) for n in sizes)


def _links(instance: Instance) -> tuple[Array, Array]:
    """Least latency and least seconds a byte between every two devices."""
    k = len(instance.names)
    platform = instance.problem.platform
    latency, inverse = np.full((k, k), math.inf), np.full((k, k), math.inf)
    np.fill_diagonal(latency, 0.0)
    np.fill_diagonal(inverse, 0.0)
    direct = np.eye(k, dtype=bool)
    for j, src in enumerate(instance.names):
        for d, dst in enumerate(instance.names):
            link = platform.link(src, dst) if j != d else None
            if link is not None:
                latency[j, d], inverse[j, d] = link.latency, 1.0 / link.bandwidth
                direct[j, d] = True
    for table in (latency, inverse):
        least = table.copy()
        for via in range(k):
            np.minimum(least, least[:, via, None] + least[None, via, :], out=least)
        table[~direct] = least[~direct]
    inverse[np.isinf(inverse)] = 0.0
    return latency, inverse


def _nearest(table: Array, kind: Array) -> Array:
    """The least entry between two kinds of devices; 0 within a kind, where nothing need move."""
    count = int(kind.max()) + 1
    rows = np.full((count, table.shape[1]), math.inf)
    np.minimum.at(rows, kind, table)
    found = np.full((count, count), math.inf)
    np.minimum.at(found.T, kind, rows.T)
    np.fill_diagonal(found, 0.0)
    return found


def corners(cost: Cost, batch: int) -> tuple[Choice, ...]:
    """Corners of a polygon below all (load, path) of 1 .. `batch` elements (see above)."""
    if batch > _ALL_SIZES:
        sizes = sorted({1, batch, *(n for n, _ in cost.points if n < batch)})
        load = batch * min(cost.seconds(n) / n for n in sizes)
        return ((load, min(cost.seconds(n) for n in sizes)),)
    points = sorted((batch * s / n, s) for n in range(1, batch + 1) for s in [cost.seconds(n)])
    hull = _lower_hull(points)
    return tuple(hull if len(hull) <= _CORNERS else _outer(hull))


def _lower_hull(points: Sequence[Choice]) -> list[Choice]:
    """The corners of the hull that are best for some weights >= 0, by rising load."""
    hull: list[Choice] = []
    for x, y in points:
        if hull and y >= hull[-1][1]:
            continue
        while len(hull) > 1 and _turn(hull[-2], hull[-1], (x, y)) <= 0:
            hull.pop()
        hull.append((x, y))
    return hull


def _turn(a: Choice, b: Choice, c: Choice) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _outer(hull: Sequence[Choice]) -> list[Choice]:
    """Fewer corners, outside: where sides of the hull meet. Where they are furthest from the
    hull (in parts of its path), a side between them is added, until there are `_CORNERS`.
    """
    chosen = [0, len(hull) - 2]
    while True:
        pairs = list(pairwise(chosen))
        met = [_meet(hull[i], hull[i + 1], hull[k], hull[k + 1]) for i, k in pairs]
        open_pairs = [p for p, (i, k) in enumerate(pairs) if k > i + 1]
        if len(met) + 2 >= _CORNERS or not open_pairs:
            return [hull[0], *met, hull[-1]]
        worst = max(open_pairs, key=lambda p: _missing(hull, pairs[p], met[p]))
        i, k = pairs[worst]
        # The side above the corner is the one nearest to it.
        between = bisect_left(hull, met[worst], i + 1, k) - 1
        chosen = sorted({*chosen, min(max(between, i + 1), k - 1)})


def _missing(hull: Sequence[Choice], pair: tuple[int, int], corner: Choice) -> float:
    """How far a corner is below the hull, in parts of the hull's path there."""
    i, k = pair
    at = min(max(bisect_left(hull, corner, i + 1, k) - 1, i), k)
    (x, y), (z, w) = hull[at], hull[at + 1]
    path = y + (w - y) * (corner[0] - x) / (z - x)
    return (path - corner[1]) / path if path > 0 else 0.0


def _meet(a: Choice, b: Choice, c: Choice, e: Choice) -> Choice:
    """Where the line through a and b meets that through c and e, from a hull in this order."""
    if b == c:
        return b
    slope, other = (b[1] - a[1]) / (b[0] - a[0]), (e[1] - c[1]) / (e[0] - c[0])
    if other - slope <= 0:
        return (b[0], c[1])
    x = (b[1] - c[1] + other * c[0] - slope * b[0]) / (other - slope)
    x = min(max(x, b[0]), c[0])
    # A little down and left, so that rounding cuts nothing off.
    return x * (1 - 1e-12), min(b[1] + slope * (x - b[0]), b[1]) * (1 - 1e-12)
