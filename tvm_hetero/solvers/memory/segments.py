"""Segments of a line of tasks on one device each, as much as its memory holds; then annealed, cold.

Where memory binds, good plans of deep graphs are few long runs: a device does all that fits, hands
over, and the next one goes on. A search that moves task by task comes there late, if at all; a
dynamic program comes there at once. Tasks in a topological order v_1 .. v_n, devices that can be
exchanged as one kind d, W(i, j) the weights of tasks i < v <= j:

    value(j, d) = min over i < j, d' of  value(i, d') + cut(i, d', d) + sum_{i < v <= j} p_vd,
                  W(i, j) <= C_d

cut is what all tensors take that cross it, one after another                    -> `divide`

as if nothing ran beside anything else. Of several orders (by rank, depth first, as given) each
division is decoded by the search library, which times it with all rules and overlaps what can be;
annealing goes on from each of them, barely warm, and from the best with what is left  -> `solve`.

No cut goes through a group of tasks that share a device, if the group is short in the order; a long
one goes where its first task is, and annealing repairs what that breaks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from tvm_hetero.errors import SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.depth_order import depth_order
from tvm_hetero.solvers.lists.ranks import rank_order
from tvm_hetero.solvers.native.library import NativeAnswer, NativeSearch
from tvm_hetero.solvers.search.annealing import STEPS_PER_SECOND, schedule_of
from tvm_hetero.views.alike_devices import AlikeDevices
from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray
from tvm_hetero.views.instance import Instance, instance_of

NAME = "segments"
# Places in the order that a group may span so that no cut goes through it.
_SPAN = 16
# Heats of the runs from a division: where it begins is good, most of it is to be kept.
_HEATS = (2e-3, 8e-3)
# Short runs for each order and heat; parts of the work of all short runs, and of a longer one from
# the best of each order.
_RUNS, _SHORT, _LONG = 2, 0.3, 0.45
# Of the steps that a second is worth, what is made where memory is looked at.
_BUSY = 0.5
# Tasks times kinds of devices squared times the length of a segment that are gone through.
_MOST_CELLS = 50_000_000


# A placement, and an order in which it is decoded.
Start = tuple[Sequence[int], Sequence[int]]


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by segments along an order; for the latency of one element.

    Raises
    ------
    SolverError
        If the objective is another one, a batch is to be divided, or no division fits.
    """
    if problem.objective.kind != "latency" or problem.batch > 1:
        raise SolverError(f"{NAME} minimises the latency of one element")
    instance = instance_of(problem)
    until = options.until(options.clock())
    starts = list(divisions(instance))
    if not starts:
        raise SolverError(f"{NAME}: no division of the tasks into segments fits the memories")
    runs = _SegmentRuns(NativeSearch(instance), options, until)
    # From every order some short runs, then a long one from the best of them; orders that begin
    # worse may end better. Last, a long one from the best of all.
    tried = runs.side_by_side(
        [(start, heat) for start in starts for heat in _HEATS for _ in range(_RUNS)], _SHORT
    )
    each = len(_HEATS) * _RUNS
    # The short ones, a long one for each order, and the last.
    planned = len(tried) + len(starts) + 1
    ran = [_known(tried[i : i + each]) for i in range(0, len(tried), each)]
    found = _known(tried)
    if found and not runs.is_late():
        best = [min(own, key=_rank) for own in ran if own]
        found += _known(runs.side_by_side([(_start_of(one), _HEATS[0]) for one in best], _LONG))
        last = _start_of(min(found, key=_rank))
        found += _known(runs.side_by_side([(last, _HEATS[0])], 1 - _SHORT - _LONG))
    elif not any(one.feasible for one in found):
        found += runs.until_one_fits(starts)
    answers = (schedule_of(runs.search, one, options) for one in sorted(found, key=_rank))
    answer = next((one for one in answers if one is not None), None)
    if answer is None and runs.is_late():
        raise SolverError(
            f"{NAME}: the time is up after {len(found)} of {planned} runs from divisions into "
            "segments, none of which fits; raise the time limit"
        )
    if answer is None:
        raise SolverError(f"{NAME}: no division into segments can be made to fit; add memory")
    return replace(answer, solver=NAME)


@dataclass
class _SegmentRuns:
    """Runs of annealing that share the work and the time of a call."""

    search: NativeSearch
    options: Options
    until: float
    _count: int = 0

    def side_by_side(
        self, starts: Sequence[tuple[Start, float]], share: float
    ) -> list[NativeAnswer | None]:
        """A run from each start, with its heat; together they do a share of the work.

        None instead of a run that would begin when the time is up: its arrays alone take 50 ms on
        72 devices, and there are dozens of runs.
        """
        options = self.options
        steps = share * options.time_limit * STEPS_PER_SECOND * _BUSY / len(starts)

        def run(i: int) -> NativeAnswer | None:
            if self.is_late():
                return None
            start, heat = starts[i]
            return self._anneal(start, heat, max(1, int(steps)), self._count + i)

        # Threads are enough: the library runs without Python's lock.
        with ThreadPoolExecutor(min(options.workers, len(starts))) as pool:
            found = list(pool.map(run, range(len(starts))))
        self._count += len(starts)
        return found

    def is_late(self) -> bool:
        """Whether no run is begun any more."""
        return self.options.clock() >= self.until

    def until_one_fits(self, starts: Sequence[Start]) -> list[NativeAnswer]:
        """What is answered when the time is up: starts as they are, one after the other."""
        found: list[NativeAnswer] = []
        for start in starts:
            if not any(one.feasible for one in found):
                found.append(self._anneal(start, _HEATS[0], 1, 0))
        return found

    def _anneal(self, start: Start, heat: float, work: int, number: int) -> NativeAnswer:
        placement, order = start
        return self.search.anneal(
            placement,
            order,
            work=work,
            seed=self.options.seed * 64 + number,
            heat=heat,
            deadline=max(1e-3, self.until - self.options.clock()),
        )


def _known(answers: Sequence[NativeAnswer | None]) -> list[NativeAnswer]:
    return [one for one in answers if one is not None]


def _start_of(found: NativeAnswer) -> Start:
    return found.placement, found.sequence or found.order


def _rank(found: NativeAnswer) -> tuple[float, float]:
    return (found.excess, found.value)


def divisions(instance: Instance) -> Iterator[tuple[list[int], list[int]]]:
    """The best placement along each order, with the order; those that fit nowhere are left out."""
    index = {name: v for v, name in enumerate(instance.tasks)}
    deep = [index[name] for name in depth_order(instance.problem)]
    for order in dict.fromkeys((tuple(rank_order(instance)), tuple(deep), tuple(instance.order))):
        placement = divide(instance, order)
        if placement is not None:
            yield placement, list(order)


def divide(instance: Instance, order: Sequence[int]) -> list[int] | None:
    """The device of every task in the best division of an order; None if none fits."""
    line = _OrderDivision(instance, order)
    return line.placement() if line.cells() <= _MOST_CELLS else None


class _OrderDivision:
    """The recursion along one order (see the head of this file)."""

    def __init__(self, instance: Instance, order: Sequence[int]) -> None:
        self.instance, self.order = instance, order
        self.kinds = AlikeDevices(instance)
        self.place = {v: i for i, v in enumerate(order)}
        self.closed, self.held = self._groups()
        self.crossing = self._tensors()

    def cells(self) -> int:
        """How many steps the recursion takes, at most."""
        return len(self.order) ** 2 * len(self.kinds.first)

    def _groups(self) -> tuple[BoolArray, FloatArray]:
        """Where no cut may go, and the weights before each place."""
        instance, n = self.instance, len(self.order)
        closed = np.zeros(n + 1, dtype=bool)
        weights = np.zeros(n)
        for group in instance.groups:
            places = [self.place[v] for v in group]
            low, high = min(places), max(places)
            weights[low] += sum(instance.weights[v] for v in group)
            if high - low <= _SPAN:
                closed[low + 1 : high + 1] = True
        return closed, np.concatenate([[0.0], np.cumsum(weights)])

    def _tensors(self) -> list[list[int]]:
        """The bytes of every tensor that crosses each cut."""
        cuts: list[list[int]] = [[] for _ in range(len(self.order) + 1)]
        for flow in self.instance.tensors:
            last = max(self.place[reader] for reader in flow.readers)
            for cut in range(self.place[flow.maker] + 1, last + 1):
                cuts[cut].append(flow.nbytes)
        return cuts

    def _seconds(self, kind: int) -> FloatArray:
        """Seconds of the tasks before each place on a kind; infinite from where it cannot."""
        d = self.kinds.first[kind]
        return np.concatenate([[0.0], np.cumsum([self.instance.seconds[v][d] for v in self.order])])

    def placement(self) -> list[int] | None:
        """The device of every task; None if nothing fits."""
        n, count = len(self.order), len(self.kinds.first)
        value = np.full((n + 1, count), np.inf)
        begun = np.zeros((n + 1, count), dtype=np.int64)
        came = np.zeros((n + 1, count), dtype=np.int64)
        sums = [self._seconds(kind) for kind in range(count)]
        for j in range(n):
            if self.closed[j]:
                continue
            for b in range(count):
                start = 0.0 if j == 0 else self._begin(j, b, value, came)
                if start == math.inf:
                    continue
                ends = self._ends(j, b)
                with np.errstate(invalid="ignore"):
                    there = start + (sums[b][ends] - sums[b][j])
                better = there < value[ends, b]
                value[ends[better], b] = there[better]
                begun[ends[better], b] = j
        if not np.isfinite(value[n]).any():
            return None
        return self._read(value, begun, came)

    def _begin(self, j: int, b: int, value: FloatArray, came: IntArray) -> float:
        """When a segment on kind `b` can begin at cut `j`; notes the kind that it comes from."""
        best = math.inf
        for a in range(value.shape[1]):
            if value[j, a] < best:
                copies = (self.kinds.copy(a, b, nbytes) for nbytes in self.crossing[j])
                there = value[j, a] + math.fsum(copies)
                if there < best:
                    best, came[j, b] = there, a
        return best

    def _ends(self, j: int, b: int) -> IntArray:
        """Where a segment on kind `b` that begins at cut `j` may end."""
        limit = self.instance.capacity[self.kinds.first[b]]
        last = len(self.order)
        if limit is not None:
            last = int(np.searchsorted(self.held, self.held[j] + limit, side="right")) - 1
        ends = np.arange(j + 1, last + 1)
        return ends[~self.closed[ends]]

    def _read(self, value: FloatArray, begun: IntArray, came: IntArray) -> list[int]:
        """Devices of the best division: of alike ones in turn."""
        instance = self.instance
        k, b = len(self.order), int(value[-1].argmin())
        segments = []
        while k > 0:
            j = int(begun[k, b])
            segments.append((j, k, b))
            k, b = j, int(came[j, b])
        placement, used = [0] * len(instance), [0] * len(self.kinds.first)
        for j, k, b in reversed(segments):
            members = self.kinds.members[b]
            device = members[used[b] % len(members)]
            used[b] += 1
            for v in self.order[j:k]:
                placement[v] = device
        for group in instance.groups:
            home = placement[min(group, key=self.place.__getitem__)]
            for v in group:
                placement[v] = home
        return placement
