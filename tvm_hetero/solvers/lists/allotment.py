"""Moldable tasks: how wide each one runs, before it is decided where and when.

The literature on moldable tasks on P cores first *allots* a number of cores p(i) to every task i
and then lays the tasks out by a list scheduler. Notation, with t_i(p) the time of task i on the
quickest device of width p (the number of shared cores that a device keeps busy; 1 without teams):

    bottom level b(i) = t_i(p(i)) + max over successors j of b(j)         -> `Allotment.levels`
    T_CP = max b(i), the critical path;  T_A = 1/P sum p(i) t_i(p(i)), the mean area

Tasks go out by falling bottom level, each to the device of its width where it ends first; where a
device of that width has no room, or the tasks of its color are elsewhere, to another -> `rule_of`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.solvers.lists.list_solver import Rule
from tvm_hetero.solvers.lists.ranks import ready_order
from tvm_hetero.views.instance import Instance


class Allotment:
    """Widths of all parts, to begin with the least that each can have.

    Attributes
    ----------
    cores : P.
    times : for each part the time by width, s, widths rising.
    width : for each part its width.
    """

    def __init__(self, instance: Instance, devices: Sequence[int]) -> None:
        allowed = set(devices)
        self.instance = instance
        self.cores = len({r for d in devices for r in instance.cores[d]})
        self.times: list[dict[int, float]] = []
        for v in range(len(instance)):
            row: dict[int, float] = {}
            able = [d for d in instance.devices[v] if d in allowed] or instance.devices[v]
            for d in able:
                p = len(instance.cores[d])
                row[p] = min(row.get(p, math.inf), instance.seconds[v][d])
            self.times.append(dict(sorted(row.items())))
        self.width = [min(row) for row in self.times]
        self.readers = [
            list(dict.fromkeys(w for t in instance.outputs[v] for w in instance.tensors[t].readers))
            for v in range(len(instance))
        ]

    def seconds(self, v: int) -> float:
        """t_v(p(v))."""
        return self.times[v][self.width[v]]

    def wider(self, v: int) -> int | None:
        """The next width of a part, None if it has the largest."""
        return next((p for p in self.times[v] if p > self.width[v]), None)

    def area(self) -> float:
        """T_A, s."""
        work = (self.width[v] * self.seconds(v) for v in range(len(self.width)))
        return math.fsum(work) / self.cores

    def levels(self) -> list[float]:
        """b(i) of every part, s."""
        found = [0.0] * len(self.width)
        for v in reversed(self.instance.order):
            found[v] = self.seconds(v) + max((found[w] for w in self.readers[v]), default=0.0)
        return found

    def critical_path(self, levels: Sequence[float]) -> list[int]:
        """The parts of a longest way, from an entry on; of equal ways the first."""
        entries = [v for v in self.instance.order if not self.instance.inputs[v]]
        v = max(entries, key=lambda entry: levels[entry])
        path = [v]
        while self.readers[v]:
            v = max(self.readers[v], key=lambda w: levels[w])
            path.append(v)
        return path


def rule_of(allotment: Allotment) -> Rule:
    """The list schedule of an allotment (see the head of this file)."""
    instance = allotment.instance
    late = 2 * math.fsum(max(row.values()) for row in allotment.times) + 1.0

    def score(v: int, d: int, end: float) -> float:
        return end if len(instance.cores[d]) == allotment.width[v] else end + late

    return Rule(ready_order(instance, allotment.levels()), score)
