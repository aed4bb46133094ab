"""A problem in arrays, as the bounds need it: what cannot be undercut, however a batch is divided.

For a batch of B elements, any division of it into executions, and c(v, d, n) seconds of n
elements of task v on device d:

    rate[v, d]    B min over n of c(v, d, n) / n: all elements of v on d take at least this
    least[v, d]   min over n of c(v, d, n): the execution that holds an element, likewise
    choices(v, d) points (load, path, size): see below

Costs are linear between the points of their table, so both minima lie at a point, 1 or B. For
B = 1 both are the cost.

An execution of n elements is cheap for its device (large n shares what is paid once an
execution) or quick for its elements (small n), never both. Per unit of the batch it costs

    load(n) = B c(n) / n   of the device,        path(n) = c(n)   of the mean element's way,

and each copy of what it makes carries all n elements. So a share y of the batch, however divided,
costs (load, path, size) that is y times a mean of the points (load(n), path(n), n) over
n = 1 .. B. `choices` are some of these points, all of them up to `NODES`, lowered until every
point is above a mean of two neighbours of the same size                   -> `corners`

Copies: n elements take `latency[j, k] + n * bytes * inverse[j, k]` at least. Between devices
without a link, both are the least over all paths, each for itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.model import Problem
from tvm_hetero.views.array_types import FloatArray, IntArray
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.one_stop_paths import one_stop
from tvm_hetero.views.symmetry import link_codes

Choice = tuple[float, float, float]
# Sizes of executions up to which every one is looked at; how many of them become choices.
_ALL_SIZES = 1024
NODES = 16


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
    rate: FloatArray
    least: FloatArray
    src: IntArray
    dst: IntArray
    tensor: IntArray
    nbytes: FloatArray
    latency: FloatArray
    inverse: FloatArray

    def __len__(self) -> int:
        return len(self.tasks)

    def copies(self, edges: IntArray) -> FloatArray:
        """(edges, devices, devices): time of one element's copy from maker to reader, s."""
        sizes = self.nbytes[self.tensor[edges]]
        times: FloatArray = self.latency + sizes[:, None, None] * self.inverse
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
        """(load, path, size) of task `i` on device `d`: s per whole batch, s, elements."""
        if self.batch == 1 or self.rate[i, d] == 0:
            return ((float(self.rate[i, d]), float(self.least[i, d]), 1.0),)
        task = self.instance.tasks[self.tasks[i]]
        cost = self.instance.problem.costs[task][self.instance.names[d]]
        if cost not in self._known:
            self._known[cost] = corners(cost, self.batch)
        return self._known[cost]

    @cached_property
    def _known(self) -> dict[Cost, tuple[Choice, ...]]:
        return {}


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


def _tables(instance: Instance, batch: int) -> tuple[FloatArray, FloatArray]:
    """rate and least, in topological order."""
    if batch == 1:
        seconds = np.array([instance.seconds[v] for v in instance.order], dtype=float)
        return seconds, seconds
    shape = (len(instance), len(instance.names))
    rate, least = np.full(shape, math.inf), np.full(shape, math.inf)
    # By object, which may be the row, or the cost, of many.
    rows: dict[int, FloatArray] = {}
    known: dict[int, tuple[float, float]] = {}
    for i, v in enumerate(instance.order):
        row = instance.problem.costs[instance.tasks[v]]
        if id(row) not in rows:
            rows[id(row)] = _row(instance, row, known)
        able = list(instance.devices[v])
        # A part that was made free (see `modularity.Piece`) has no time at all.
        free = np.array(instance.seconds[v])[able] == 0
        rate[i, able], least[i, able] = np.where(free, 0.0, rows[id(row)][:, able])
    return rate, least


def _row(
    instance: Instance, row: Mapping[str, Cost], known: dict[int, tuple[float, float]]
) -> FloatArray:
    """(2, devices): rate and least of a row of costs; inf where it has none."""
    found = np.full((2, len(instance.names)), math.inf)
    for d, name in enumerate(instance.names):
        cost = row.get(name)
        if cost is None:
            continue
        if id(cost) not in known:
            known[id(cost)] = _best(instance.problem, cost)
        found[:, d] = known[id(cost)]
    return found


def _best(problem: Problem, cost: Cost) -> tuple[float, float]:
    batch = problem.batch
    sizes = sorted({1, batch, *(n for n, _ in cost.points if n < batch)})
    rate = batch * min(cost.seconds(n) / n for n in sizes)
    return rate, min(cost.seconds(n) for n in sizes)


def _links(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Least latency and least seconds a byte between every two devices."""
    k = len(instance.names)
    platform = instance.problem.platform
    latency, inverse = np.full((k, k), math.inf), np.full((k, k), math.inf)
    np.fill_diagonal(latency, 0.0)
    np.fill_diagonal(inverse, 0.0)
    direct = np.eye(k, dtype=bool)
    codes = link_codes(platform)
    for code in np.unique(codes[codes >= 0]):
        where = codes == code
        j, d = (int(x[0]) for x in np.nonzero(where))
        link = platform.link(instance.names[j], instance.names[d])
        assert link is not None, "a code stands for links"
        latency[where], inverse[where] = link.latency, 1.0 / link.bandwidth
        direct |= where
    pairs = np.argwhere(~direct)
    for table in (latency, inverse):
        _fill_in(table, pairs)
    inverse[np.isinf(inverse)] = 0.0
    return latency, inverse


def _fill_in(table: FloatArray, pairs: IntArray) -> None:
    """Let each of these pairs, which no link joins, have the least sum along any path.

    Where one stop is proven to be the best for all of them (of hundreds of devices it mostly is),
    nothing else is looked at.
    """
    away = np.where(np.eye(len(table), dtype=bool), math.inf, table)
    direct = one_stop(away, pairs)
    sums = direct.seconds
    if not direct.known.all():
        least = table.copy()
        for via in range(len(table)):
            np.minimum(least, least[:, via, None] + least[None, via, :], out=least)
        sums = least[pairs[:, 0], pairs[:, 1]]
    table[pairs[:, 0], pairs[:, 1]] = sums


def _nearest(table: FloatArray, kind: IntArray) -> FloatArray:
    """The least entry between two kinds of devices; 0 within a kind, where nothing need move."""
    count = int(kind.max()) + 1
    rows = np.full((count, table.shape[1]), math.inf)
    np.minimum.at(rows, kind, table)
    found = np.full((count, count), math.inf)
    np.minimum.at(found.T, kind, rows.T)
    np.fill_diagonal(found, 0.0)
    return found


def corners(cost: Cost, batch: int) -> tuple[Choice, ...]:
    """Points (load, path, size): a mean of them is below each of 1 .. `batch` (see above)."""
    if batch > _ALL_SIZES:
        sizes = sorted({1, batch, *(n for n, _ in cost.points if n < batch)})
        load = batch * min(cost.seconds(n) / n for n in sizes)
        return ((load, min(cost.seconds(n) for n in sizes), 1.0),)
    sizes_ = np.arange(1, batch + 1)
    path = np.array([cost.seconds(n) for n in range(1, batch + 1)])
    curves = np.stack([batch * path / sizes_, path])
    nodes = _nodes(curves)
    lowered = curves[:, nodes]
    for a, (first, last) in enumerate(pairwise(nodes)):
        over = _above(curves, first, last).max(axis=1)
        # Each end carries the worst of both its sides.
        for end in (a, a + 1):
            lowered[:, end] = np.minimum(lowered[:, end], curves[:, nodes[end]] - over)
    # A little down where anything was moved, so that rounding cuts nothing off.
    lowered = np.maximum(0.0, np.where(lowered < curves[:, nodes], lowered * (1 - 1e-12), lowered))
    return tuple(
        (float(load), float(way), float(n + 1))
        for n, load, way in zip(nodes, *lowered.tolist(), strict=True)
    )


def _nodes(curves: FloatArray) -> list[int]:
    """Where straight lines between neighbours are not far above the curves (relatively)."""
    last = curves.shape[1] - 1
    nodes = sorted({0, last})
    scale = np.maximum(curves, curves.max(axis=1, keepdims=True) * 1e-12) + 1e-300
    while len(nodes) < NODES:
        over = np.zeros(last + 1)
        for a, b in pairwise(nodes):
            over[a : b + 1] = (_above(curves, a, b) / scale[:, a : b + 1]).max(axis=0)
        if over.max() <= 1e-12:
            break
        nodes = sorted({*nodes, int(over.argmax())})
    return nodes


def _above(curves: FloatArray, first: int, last: int) -> FloatArray:
    """How far the lines between two points are above the curves, at and between them."""
    at = (np.arange(first, last + 1) - first) / max(1, last - first)
    ends = curves[:, [first]] * (1 - at) + curves[:, [last]] * at
    found: FloatArray = np.maximum(0.0, ends - curves[:, first : last + 1])
    return found
