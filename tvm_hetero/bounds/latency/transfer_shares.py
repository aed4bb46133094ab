"""What is where, and what is copied: the shares of the program in `precedence`.

Notation there. A task's share of a device is one variable, or, with a batch, one for each choice
of its costs and their sum; tasks of one color have their share in common. What a copy along an
edge takes is written by pairs of devices, or by arrivals where that says as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_hetero.bounds.core.linear import LinearProgram
from tvm_hetero.bounds.latency.load_cuts import LoadActivity
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.arrays import Choice

# Beyond this many devices pairs z are replaced by arrivals m (docs/method/precedence.md).
MOST_DEVICES = 6


@dataclass
class TransferShares:
    """Variables of a part's tasks and copies, for makespans up to `limit`; scaled by `scale` s.

    Attributes
    ----------
    place : of each task and device, the share and the variables of its choices.
    work : what keeps each device busy.
    """

    part: Subgraph
    limit: float
    scale: float
    room: float = 1.0
    program: LinearProgram = field(default_factory=LinearProgram)
    place: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    work: dict[int, list[LoadActivity]] = field(default_factory=dict)

    def devices(self, i: int) -> list[int]:
        """Where task i of the part can be within the limit."""
        total = self.part.head[i] + self.part.tail[i]
        return [int(d) for d in np.flatnonzero(total <= self.limit * (1 + 1e-9))]

    def possible(self) -> bool:
        """Whether every group of tasks has a device within the limit."""
        return all(self._common(group) for group in self._groups())

    def _groups(self) -> list[list[int]]:
        """Tasks of the part that must share a device."""
        groups: dict[int, list[int]] = {}
        instance = self.part.figures.instance
        for i, v in enumerate(self.part.tasks):
            groups.setdefault(instance.group_of[self.part.figures.tasks[v]], []).append(i)
        return list(groups.values())

    def _common(self, group: Sequence[int]) -> list[int]:
        """Where all tasks of a group can be within the limit."""
        return sorted(set(self.devices(group[0])).intersection(*map(self.devices, group[1:])))

    def choices(self, i: int, d: int) -> Sequence[Choice]:
        """(load, path, size) of task i on d, scaled."""
        if self.part.figures.batch == 1:
            seconds = float(self.part.rate[i, d]) / self.scale
            return ((seconds, seconds, 1.0),)
        corners = self.part.figures.choices(int(self.part.tasks[i]), d)
        return [(load / self.scale, path / self.scale, size) for load, path, size in corners]

    def add_shares(self) -> None:
        """Every group of tasks is somewhere, as often as there are elements."""
        for group in self._groups():
            shared = {d: self.program.variable() for d in self._common(group)}
            self.program.equal([(x, 1.0) for x in shared.values()], 1.0)
            for i in group:
                for d, share in shared.items():
                    self._add_choices(i, d, share)

    def _add_choices(self, i: int, d: int, share: int) -> None:
        corners = self.choices(i, d)
        columns = [share]
        if len(corners) > 1:
            columns = [self.program.variable() for _ in corners]
            terms = [(x, 1.0) for x in columns]
            self.program.equal([*terms, (share, -1.0)], 0.0)
        self.place[i, d] = [share, *columns]
        loads = [(x, load) for x, (load, _, _) in zip(columns, corners, strict=True)]
        part = self.part
        before = max(0.0, float(part.head[i, d] - part.least[i, d])) / self.scale
        if any(load > 0 for load, _, _ in corners):
            activity = LoadActivity(loads, before, float(part.tail[i, d]) / self.scale)
            self.work.setdefault(d, []).append(activity)

    def share(self, i: int, d: int) -> int:
        """The variable y(i, d), or -1 for a share that is always 0."""
        return self.place[i, d][0] if (i, d) in self.place else -1

    def path(self, i: int) -> list[tuple[int, float]]:
        """The mean time of task i's execution."""
        devices = range(len(self.part.figures.latency))
        return [term for d in devices for term in self.paths_on(i, d)]

    def paths_on(self, i: int, d: int) -> list[tuple[int, float]]:
        """What device d adds to the mean time of task i's execution."""
        if (i, d) not in self.place:
            return []
        columns = self.place[i, d][1:]
        pairs = zip(columns, self.choices(i, d), strict=True)
        return [(x, path) for x, (_, path, _) in pairs if path]

    def add_copies(
        self, u: int, w: int, times: FloatArray, more: FloatArray
    ) -> list[tuple[int, float]]:
        """Terms of what copies take that bring w what u makes: `times` by devices, one element;
        `more`, every further one."""
        makers = [d for d in range(len(times)) if (u, d) in self.place]
        readers = [d for d in range(len(times)) if (w, d) in self.place]
        if self.place[u, makers[0]][0] == self.place.get((w, makers[0]), [-1])[0]:
            return []  # of one color
        pairs = [(j, k) for j in makers for k in readers]
        apart = [float(times[j, k]) for j, k in pairs if j != k]
        if not any(apart):
            return []
        uniform = min(apart) == max(apart) and not self.part.figures.batch > 1
        if uniform or (len(times) > MOST_DEVICES and min(len(makers), len(readers)) > 1):
            return self._add_arrivals(u, w, times, makers, readers)
        z = self._add_pairs(u, w, times, makers, readers)
        copies = [(x, float(times[pair])) for pair, x in z.items() if times[pair] > 0]
        return copies + self._add_sizes(u, z, more)

    def _add_sizes(
        self, u: int, z: dict[tuple[int, int], int], more: FloatArray
    ) -> list[tuple[int, float]]:
        """What the copies of large executions take beyond those of one element."""
        found = []
        for j in sorted({j for j, _ in z}):
            columns = self.place[u, j][1:]
            away = [k for a, k in z if a == j and k != j]
            least = min((float(more[j, k]) for k in away), default=0.0)
            sizes = [size for _, _, size in self.choices(u, j)]
            if least <= 0 or (len(columns) == 1 and sizes[0] == 1.0):
                continue
            own = [self.program.variable() for _ in columns]
            leaving = [(z[j, k], 1.0) for k in away]
            self.program.at_most([*leaving, *((x, -1.0) for x in own)], 0.0)
            for x, share in zip(own, columns, strict=True):
                self.program.at_most([(x, 1.0), (share, -1.0)], 0.0)
            found += [(x, least * (s - 1)) for x, s in zip(own, sizes, strict=True) if s > 1]
        return found

    def _add_arrivals(
        self, u: int, w: int, times: FloatArray, makers: list[int], readers: list[int]
    ) -> list[tuple[int, float]]:
        found = []
        for k in readers:
            seconds = min((float(times[j, k]) for j in makers if j != k), default=0.0)
            if 0 < seconds < math.inf:
                moved = self.program.variable()
                row = [(self.share(w, k), 1.0), (moved, -1.0)]
                if k in makers:
                    row.append((self.share(u, k), -1.0))
                self.program.at_most(row, 0.0)
                found.append((moved, seconds))
        return found

    def _add_pairs(
        self, u: int, w: int, times: FloatArray, makers: list[int], readers: list[int]
    ) -> dict[tuple[int, int], int]:
        """z(j, k): share of the batch with the maker on j and the reader on k."""
        z = {
            (j, k): self.program.variable()
            for j in makers
            for k in readers
            if times[j, k] < math.inf
        }
        for j in makers:
            row = [(x, 1.0) for (a, _), x in z.items() if a == j]
            self.program.equal([*row, (self.share(u, j), -1.0)], 0.0)
        for k in readers:
            row = [(x, 1.0) for (_, b), x in z.items() if b == k]
            self.program.equal([*row, (self.share(w, k), -1.0)], 0.0)
        return z
