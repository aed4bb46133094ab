"""What lies beside a path, and what a run of the path on one device has to pay for it.

Notation of `path_runs`. A *branch* is a connected part of what has tasks of the path before and
behind it, and is not on the path itself; its makers and readers on the path lie between tasks
`first` and `last`. Let a run on device X hold both. All that the branch makes X do lies between the
end of `first` and the start of `last`, as do the run's tasks, and X does one thing at a time:

    a task of the branch that is on X       its time there; its weights lie in X's memory
    a tensor that goes to a task elsewhere  the leg on which X sends it, if X has no copy engine
    a tensor that comes from elsewhere      the leg on which X receives it, likewise

So of each branch some set of tasks is on X, and what the sets of all branches take adds up. Least
seconds for so many bytes are a staircase -> `_Staircase`; that of several branches is the sum of
theirs in the least way                     -> `_Staircase.beside`

A tensor of the path counts only if no reader of it is behind `last`: else `_PathCut` may have it.
Of several branches that read it each counts its part, as one copy may do for all of them. Tasks of
one group are on X together; where the rest of the group is does not matter here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tvm_hetero.views.alike_devices import AlikeDevices
from tvm_hetero.views.array_types import BoolArray, FloatArray
from tvm_hetero.views.instance import Instance

# Groups of a branch whose sets are all looked at, and steps of a staircase.
_MOST_GROUPS, _MOST_STEPS = 12, 64
# Tasks of a problem above which nothing is looked for beside its paths: that takes some passes over
# all of them, for each path.
_MOST_TASKS = 1_500
# Staircases that are added up for a kind of device, over all runs: each takes a tenth of a
# millisecond, and whoever has a second for the whole problem begins with this bound.
_MOST_SUMS = 1_000


@dataclass(frozen=True)
class Branch:
    """Tasks beside a path, and the positions on it between which all of them run."""

    tasks: tuple[int, ...]
    first: int
    last: int


@dataclass(frozen=True)
class _Staircase:
    """The least seconds if at most so many bytes are taken: bytes rise, seconds fall."""

    nbytes: FloatArray
    seconds: FloatArray

    @classmethod
    def of(cls, nbytes: FloatArray, seconds: FloatArray) -> _Staircase:
        """Of pairs in any order; where they are too many, neighbours become one below both."""
        order = np.lexsort((seconds, nbytes))
        nbytes, seconds = nbytes[order], seconds[order]
        before = np.concatenate([[np.inf], np.minimum.accumulate(seconds)[:-1]])
        nbytes, seconds = nbytes[seconds < before], seconds[seconds < before]
        while len(nbytes) > _MOST_STEPS:
            nbytes, seconds = nbytes[::2], np.minimum.reduceat(seconds, range(0, len(seconds), 2))
        return cls(nbytes, seconds)

    def beside(self, other: _Staircase) -> _Staircase:
        """What both take together."""
        nbytes = np.add.outer(self.nbytes, other.nbytes).ravel()
        return _Staircase.of(nbytes, np.add.outer(self.seconds, other.seconds).ravel())

    def within(self, room: FloatArray) -> FloatArray:
        """The least seconds for each number of bytes that are left."""
        step = np.searchsorted(self.nbytes, room, side="right") - 1
        return np.where(step >= 0, self.seconds[np.maximum(step, 0)], np.inf)


_NOTHING = _Staircase(np.zeros(1), np.zeros(1))


class BesidePath:
    """The branches beside a path and what runs pay for them; see the head of this file.

    Attributes
    ----------
    branches : sorted by their ends.
    """

    def __init__(self, instance: Instance, kinds: AlikeDevices, tasks: Sequence[int]) -> None:
        self.instance, self.kinds, self.tasks = instance, kinds, tasks
        self.place = {v: i for i, v in enumerate(tasks)}
        self._makers = _makers_of(instance) if len(instance) <= _MOST_TASKS else []
        self.branches = sorted(self._find_branches(), key=lambda branch: branch.last)
        self._shared = Counter(t for branch in self.branches for t in self._read_of_path(branch))
        self._lasts = [branch.last for branch in self.branches]
        self._firsts = sorted({branch.first for branch in self.branches})
        own = [instance.weights[v] for v in tasks]
        self._weights = np.concatenate([[0.0], np.cumsum(own, dtype=float)])
        self._known: dict[tuple[int, int], _Staircase] = {}
        self._closings: dict[int, list[int]] = {}
        self._sums: dict[tuple[int, int], list[_Staircase]] = {}

    def seconds(self, kind: int, start: int, end: int) -> FloatArray:
        """Of the runs of tasks start .. k-1 on a device of a kind, for k up to `end`.

        Element i is for i tasks; 0 for none.
        """
        limit = self.instance.capacity[self.kinds.first[kind]]
        room = (np.inf if limit is None else float(limit)) + self._weights[start]
        rank = bisect_left(self._firsts, start)
        found, since = np.zeros(end - start + 1), start + 1
        closing = [b for b in self._closing(rank) if self.branches[b].last < end]
        for number, b in enumerate([*closing, None]):
            # Runs that do not hold the last task of branch b pay for those that closed before.
            upto = end if b is None else self.branches[b].last
            left = room - self._weights[since : upto + 1]
            found[since - start : upto + 1 - start] = self._sum(kind, rank, number).within(left)
            since = upto + 1
        return found

    def _closing(self, rank: int) -> list[int]:
        """Branches that a run may hold which begins just before the first task of such a rank."""
        if rank == len(self._firsts):
            return []
        if rank not in self._closings:
            first, most = self._firsts[rank], max(1, _MOST_SUMS // len(self._firsts))
            behind = range(bisect_left(self._lasts, first), len(self._lasts))
            found = (b for b in behind if self.branches[b].first >= first)
            self._closings[rank] = list(islice(found, most))
        return self._closings[rank]

    def _sum(self, kind: int, rank: int, number: int) -> _Staircase:
        """What the first `number` of these branches take together."""
        sums = self._sums.setdefault((kind, rank), [_NOTHING])
        for b in self._closing(rank)[len(sums) - 1 : number]:
            sums.append(sums[-1].beside(self._staircase(b, kind)))
        return sums[number]

    # --- branches ----------------------------------------------------------------------------

    def _find_branches(self) -> list[Branch]:
        kept = self._between_tasks() if len(self.instance) <= _MOST_TASKS else set[int]()
        found = []
        for part in self._connected(kept):
            makers = [u for v in part for u, _ in self._makers[v] if u in self.place]
            readers = [w for v in part for w in self._readers(v) if w in self.place]
            if len({self.instance.group_of[v] for v in part}) <= _MOST_GROUPS:
                first = min(self.place[u] for u in makers)
                last = max(self.place[w] for w in readers)
                found.append(Branch(tuple(part), first, last))
        return found

    def _read_of_path(self, branch: Branch) -> set[int]:
        """Tensors of the path that the branch reads."""
        return {t for v in branch.tasks for u, t in self._makers[v] if u in self.place}

    def _readers(self, v: int) -> list[int]:
        return [r for t in self.instance.outputs[v] for r in self.instance.tensors[t].readers]

    def _between_tasks(self) -> set[int]:
        """Tasks that are not on the path, with tasks of it before and behind them."""
        order, place = self.instance.order, self.place
        behind: set[int] = set()
        for v in order:
            if any(u in place or u in behind for u, _ in self._makers[v]):
                behind.add(v)
        before: set[int] = set()
        for v in reversed(order):
            if any(w in place or w in before for w in self._readers(v)):
                before.add(v)
        return (behind & before) - place.keys()

    def _connected(self, kept: set[int]) -> list[list[int]]:
        """Tasks in parts that edges connect, in topological order."""
        left, found = set(kept), []
        place = {v: i for i, v in enumerate(self.instance.order)}
        for v in self.instance.order:
            part, reached = [], [v]
            while reached:
                w = reached.pop()
                if w in left:
                    left.remove(w)
                    part.append(w)
                    reached += [u for u, _ in self._makers[w]] + self._readers(w)
            if part:
                found.append(sorted(part, key=place.__getitem__))
        return found

    # --- what a branch takes -----------------------------------------------------------------

    def _staircase(self, b: int, kind: int) -> _Staircase:
        if (b, kind) not in self._known:
            self._known[b, kind] = self._make_staircase(self.branches[b], kind)
        return self._known[b, kind]

    def _make_staircase(self, branch: Branch, kind: int) -> _Staircase:
        """Over all sets of groups of a branch that may be on the run's device."""
        tasks, d = branch.tasks, self.kinds.first[kind]
        groups = sorted({self.instance.group_of[v] for v in tasks})
        sets = np.arange(2 ** len(groups))[:, None] >> np.arange(len(groups)) & 1 == 1
        here = sets[:, [groups.index(self.instance.group_of[v]) for v in tasks]]
        able = [i for i, v in enumerate(tasks) if d in self.instance.devices[v]]
        here = here[~np.delete(here, able, axis=1).any(axis=1)]
        own = [self.instance.seconds[v][d] if i in able else 0.0 for i, v in enumerate(tasks)]
        nbytes = here @ np.array([float(self.instance.weights[v]) for v in tasks])
        return _Staircase.of(nbytes, here @ np.array(own) + self._legs(branch, kind, here))

    def _legs(self, branch: Branch, kind: int, here: BoolArray) -> FloatArray:
        """What the device sends and receives, for each set of tasks that are on it, s."""
        column = {v: i for i, v in enumerate(branch.tasks)}
        total = np.zeros(len(here))
        tensors = self._read_of_path(branch)
        tensors |= {t for v in branch.tasks for t in self.instance.outputs[v]}
        for t in sorted(tensors):
            tensor = self.instance.tensors[t]
            reading = [column[r] for r in tensor.readers if r in column]
            away = (~here[:, reading]).any(axis=1)
            sent = self.kinds.leg(kind, tensor.nbytes, out=True)
            if tensor.maker not in column:
                total += away * (sent * self._part(branch, t))
                continue
            made = here[:, column[tensor.maker]]
            read = here[:, reading].any(axis=1) | any(r in self.place for r in tensor.readers)
            received = self.kinds.leg(kind, tensor.nbytes, out=False)
            total += np.where(made, away * sent, read * received)
        return total

    def _part(self, branch: Branch, t: int) -> float:
        """The part of a copy of the path's tensor `t` that is this branch's."""
        readers = self.instance.tensors[t].readers
        if any(self.place.get(r, branch.last) > branch.last for r in readers):
            return 0.0
        return 1.0 / self._shared[t]


def _makers_of(instance: Instance) -> list[list[tuple[int, int]]]:
    """Of every task: (maker, tensor) of what it reads."""
    makers: list[list[tuple[int, int]]] = [[] for _ in range(len(instance))]
    for t, tensor in enumerate(instance.tensors):
        for reader in tensor.readers:
            makers[reader].append((tensor.maker, t))
    return makers
