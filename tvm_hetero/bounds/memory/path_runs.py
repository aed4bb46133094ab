"""Latency where one memory holds a part of a path only: how often the path must change devices.

Take any path of the graph. On it, tasks that follow each other on one device form a *run*; between
two runs the tensor of the edge is copied. The weights of a run, those of all groups of its tasks,
lie in one memory. So a path costs at least what its cheapest division into runs costs that fit

    value(k, d) = min over j < k, d' != d of  value(j, d') + copy(j, d', d) + sum_{j <= i < k} p_id

with value(0, .) = 0 and the weights of tasks j..k-1 at most C_d: O(n^2) for a path of n tasks, with
devices that can be exchanged as one (`views.symmetry`)                              -> `PathRuns`.

What else crosses a cut counts, too. Let run X end before task j of the path and run Y begin with
it; let s be another tensor, made in X and read in Y, and let neither device compute while it
copies. The first leg of s occupies X: if before the end of X, it delays that by h1; if after it but
before the copy of the edge, it delays that copy by h1. Else its last leg occupies Y after that copy
has begun to arrive, as do that copy and Y's tasks up to the reader, and delays the reader by h2. So
each such tensor adds min(h1, h2), and all of this adds up along the path, because each item lies
between the end of the run before and the end of its own, on one device that does one thing at a
time. Tasks of one group stay in one run or in runs of one device, which two neighbouring runs are
not. How far s reaches is looked at up to `_REACH` tasks on either side        -> `_PathCut`.

What lies beside the path between two tasks of a run is on the run's device and takes its time and
memory, or is copied there and back                                          -> `beside_path`

Revisits of a device are given a fresh memory, and what lies beside the path is not looked at where
it begins in one run and ends in another: that is what is relaxed. Any path will do; several are
tried, by time and by weights                                                        -> `_paths`.

One element only: a divided batch may be on several devices at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_hetero.bounds.core.time_is_up import Late, check_late, never
from tvm_hetero.bounds.memory.beside_path import BesidePath
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.model import Problem
from tvm_hetero.views.alike_devices import AlikeDevices
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.instance import Instance, instance_of

# Tasks on either side of a cut between which other tensors are looked at.
_REACH = 24
# What a path is chosen by: seconds of a task, plus this for a memory full of weights.
_WEIGHTS = (0.0, 1e-3, 1e-1, 1.0, 10.0)
# Kinds of devices, devices, and steps of the recursion (task x kind^2 x reach) that are worth it.
_MOST_KINDS, _MOST_DEVICES, _MOST_STEPS = 8, 64, 4_000_000


def path_runs_bound(instance: Instance, late: Late = never) -> float:
    """The bound (s); 0 where it has nothing to say.

    That of a whole problem is worked out once: searches begin with it, and the ladder has it too.

    Raises
    ------
    TimeIsUp
        If it is `late`: 100,000 tasks take seconds.
    """
    if instance is instance_of(instance.problem):
        return _bound_of_problem(instance.problem, late)
    return _bound(instance, late)


@cached_per_problem
def _bound_of_problem(problem: Problem, late: Late) -> float:
    return _bound(instance_of(problem), late)


def _bound(instance: Instance, late: Late) -> float:
    return max((runs.bound(late) for runs in runs_of(instance, late)), default=0.0)


def runs_of(instance: Instance, late: Late = never) -> list[PathRuns]:
    """The paths that are looked at; none where there is nothing to say, or too much to do."""
    problem = instance.problem
    if problem.batch > 1 or problem.objective.kind != "latency" or len(instance) == 0:
        return []
    if not any(instance.memory_binds) or len(instance.names) > _MOST_DEVICES:
        return []
    kinds = AlikeDevices(instance)
    if len(kinds.first) > _MOST_KINDS:
        return []
    return [
        PathRuns(instance, kinds, path)
        for path in _paths(instance, late)
        if len(path) * len(kinds.first) ** 2 * _REACH <= _MOST_STEPS
    ]


@dataclass(frozen=True)
class Path:
    """Tasks one after another, and the tensor from each to the next."""

    tasks: tuple[int, ...]
    tensors: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tasks)


def _paths(instance: Instance, late: Late) -> list[Path]:
    """The longest paths by several measures, each once."""
    seconds = [min(s for s in row if s < math.inf) for row in instance.seconds]
    least = min(limit for limit in instance.capacity if limit is not None)
    share = [weights / max(1, least) for weights in _group_weights(instance)]
    scale = math.fsum(seconds)
    found: dict[Path, None] = {}
    for factor in _WEIGHTS:
        check_late(late)
        worth = [s + factor * scale * w for s, w in zip(seconds, share, strict=True)]
        found[_longest(instance, worth.__getitem__)] = None
    return list(found)


def _longest(instance: Instance, worth: Callable[[int], float]) -> Path:
    best = [0.0] * len(instance)
    follow: list[tuple[int, int] | None] = [None] * len(instance)
    for v in reversed(instance.order):
        behind = -1.0
        for t in instance.outputs[v]:
            for reader in instance.tensors[t].readers:
                if best[reader] > behind:
                    behind, follow[v] = best[reader], (reader, t)
        best[v] = worth(v) + max(0.0, behind)
    v = max(range(len(instance)), key=best.__getitem__)
    tasks, tensors = [v], []
    while (step := follow[v]) is not None:
        v, t = step
        tasks.append(v)
        tensors.append(t)
    return Path(tuple(tasks), tuple(tensors))


def _group_weights(instance: Instance) -> list[int]:
    """For every task the bytes of the weights of its group: they lie where it runs."""
    groups = [sum(instance.weights[v] for v in group) for group in instance.groups]
    return [groups[instance.group_of[v]] for v in range(len(instance))]


@dataclass
class _PathCut:
    """What crosses a cut besides the edge: (tasks back to the maker, on to the reader, tensor)."""

    tensors: list[tuple[int, int, int]] = field(default_factory=list)
    groups: list[tuple[int, int]] = field(default_factory=list)


class PathRuns:
    """The cheapest division of a path into runs.

    `value[k, d, l]` is the least time at which task k-1 has ended, if its run is on a device of
    kind d and has l tasks (`_REACH`: so many or more); infinite if it cannot be.
    """

    def __init__(self, instance: Instance, kinds: AlikeDevices, path: Path) -> None:
        self.instance, self.kinds, self.path = instance, kinds, path
        self.cuts = self._crossing()
        self.beside = BesidePath(instance, kinds, path.tasks)

    def bound(self, late: Late) -> float:
        """The least time at which the path has ended, s."""
        n, count = len(self.path), len(self.kinds.first)
        value = np.full((n + 1, count, _REACH + 1), np.inf)
        sums = [self._sums(kind) for kind in range(count)]
        ends = [self._ends(kind) for kind in range(count)]
        for j in range(n):
            check_late(late)
            begins = self._begins(j, value)
            for d in range(count):
                end = ends[d][j]
                base = begins[d] - sums[d][j]
                near = min(end, j + _REACH - 1)
                beside = self.beside.seconds(d, j, max(j, end))
                for k in range(j + 1, near + 1):
                    there = base[k - j] + sums[d][k] + beside[k - j]
                    value[k, d, k - j] = min(value[k, d, k - j], there)
                if end > near:
                    far = slice(near + 1, end + 1)
                    there = base[_REACH] + sums[d][far] + beside[near + 1 - j :]
                    value[far, d, _REACH] = np.minimum(value[far, d, _REACH], there)
        return float(value[n].min())

    def _begins(self, j: int, value: FloatArray) -> FloatArray:
        """When a run on each kind that will have l tasks can begin with task j, at the earliest."""
        count = len(self.kinds.first)
        if j == 0:
            return np.zeros((count, _REACH + 1))
        begins = np.full((count, _REACH + 1), np.inf)
        nbytes = self.instance.tensors[self.path.tensors[j - 1]].nbytes
        for a in range(count):
            if not np.isfinite(value[j, a]).any():
                continue
            for b in range(count):
                copy = self.kinds.copy(a, b, nbytes)
                if copy < math.inf:
                    before = value[j, a][:, None] + self._beside(j, a, b)
                    begins[b] = np.minimum(begins[b], before.min(axis=0) + copy)
        return begins

    def _beside(self, j: int, a: int, b: int) -> FloatArray:
        """What crosses cut j besides the edge, by the lengths of the runs on both sides, s."""
        extra = np.zeros((_REACH + 1, _REACH + 1))
        for back, on, t in self.cuts[j].tensors:
            seconds = self.kinds.beside(a, b, self.instance.tensors[t].nbytes)
            extra[back:, on:] += seconds
        for back, on in self.cuts[j].groups:
            extra[back:, on:] = np.inf
        return extra

    def _crossing(self) -> list[_PathCut]:
        instance, tasks = self.instance, self.path.tasks
        place = {v: i for i, v in enumerate(tasks)}
        cuts = [_PathCut() for _ in range(len(tasks) + 1)]
        last: dict[int, int] = {}
        for c, v in enumerate(tasks):
            group = instance.group_of[v]
            for j in _between(last.get(group, c), c):
                cuts[j].groups.append((j - last[group], c - j + 1))
            last[group] = c
        for a, v in enumerate(tasks):
            for t in instance.outputs[v]:
                reads = sorted(place[r] for r in instance.tensors[t].readers if r in place)
                # Of several readers behind a cut, the first one needs the tensor there.
                for before, c in zip([a, *reads], reads, strict=False):
                    for j in _between(max(a, before, c - _REACH), c):
                        if j - a <= _REACH and self.path.tensors[j - 1] != t:
                            cuts[j].tensors.append((j - a, c - j + 1, t))
        return cuts

    def _sums(self, kind: int) -> FloatArray:
        """Seconds of the tasks before each one, on a device of a kind (0 where it cannot)."""
        d = self.kinds.first[kind]
        seconds = [self.instance.seconds[v][d] for v in self.path.tasks]
        finite = [s if s < math.inf else 0.0 for s in seconds]
        return np.concatenate([[0.0], np.cumsum(finite)])

    def _ends(self, kind: int) -> list[int]:
        """For every task how far a run on a device of a kind that begins with it can go."""
        instance, tasks = self.instance, self.path.tasks
        d = self.kinds.first[kind]
        limit = instance.capacity[d]
        weights = _group_weights(instance)
        held: dict[int, int] = {}
        used, end, ends = 0, 0, []
        for j, first in enumerate(tasks):
            if end < j:
                used, end, held = 0, j, {}
            while end < len(tasks) and d in instance.devices[tasks[end]]:
                v = tasks[end]
                group = instance.group_of[v]
                more = 0 if held.get(group) else weights[v]
                if limit is not None and used + more > limit:
                    break
                used, end = used + more, end + 1
                held[group] = held.get(group, 0) + 1
            ends.append(end)
            if end > j:
                group = instance.group_of[first]
                held[group] -= 1
                used -= 0 if held[group] else weights[first]
        return ends


def _between(a: int, c: int) -> Sequence[int]:
    """The cuts between task `a` and task `c` that are within reach of both."""
    return range(max(a + 1, c - _REACH + 1), min(c, a + _REACH) + 1)
