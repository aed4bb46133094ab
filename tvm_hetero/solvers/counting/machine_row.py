"""One type of machine in the table of the count-based program (`dp_table`).

Durations, segments and copies of its classes of devices, and the values of its states.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.views.machine_counts import NodeType, TaskLine, Vector

Array = NDArray[np.float64]
Used = tuple[int, ...]


class Shelf:
    """One machine type: durations, segments and copies of its classes, and its part of the table.

    `values[p, s, i, m]` is the value of state s (of `states`) in node i with m levels of spill
    memory taken, after p atoms.
    """

    def __init__(
        self, line: TaskLine, machine: NodeType, levels: int, *, steady: bool, spills: bool
    ) -> None:
        self.machine = machine
        devices = line.instance.problem.platform.devices
        count = len(line)
        kinds = range(len(machine.counts))
        rows = [line.seconds(machine.like(c)) for c in kinds]
        self.spill = _spill(machine, rows) if spills and not steady else None
        limits = [line.instance.capacity[machine.like(c)] for c in kinds]
        self.intra = {(j, k): line.crossings(*machine.pair(j, k)) for j in kinds for k in kinds}
        self.segment = []
        for c in kinds:
            ends = np.append(self.intra[c, c], 0.0)
            busy = ends if steady and not devices[machine.like(c)].overlap else 0 * ends
            self.segment.append(_segments(line, rows[c], limits[c], busy))
        self.counts = [0 if c == self.spill else n for c, n in enumerate(machine.counts)]
        used = itertools.product(*(range(n + 1) for n in self.counts))
        self.states = [(u, c) for u in used for c in kinds if c == self.spill or (u[c] > 0)]
        self.number = {state: s for s, state in enumerate(self.states)}
        self.levels, self.taken = 0, np.zeros(count, dtype=np.int64)
        if self.spill is not None:
            self.own = rows[self.spill]
            limit = limits[self.spill]
            if limit is not None:
                unit = max(1.0, (limit - line.spare) / levels)
                self.levels = levels
                self.taken = np.ceil(line.weights / unit - 1e-9).astype(np.int64)
        shape = (count + 1, len(self.states), len(machine.nodes), self.levels + 1)
        self.values = np.full(shape, math.inf)

    def before(self, used: Used, c: int) -> Used | None:
        """What was used before a device of class `c` was added; None if none was."""
        if used[c] == 0:
            return None
        return (*used[:c], used[c] - 1, *used[c + 1 :])


def _spill(machine: NodeType, rows: Sequence[Vector]) -> int | None:
    """The class of the device that may be come back to: alone in its class, and slowest of all."""
    total = [float(row[np.isfinite(row)].sum()) for row in rows]
    alone = [c for c, n in enumerate(machine.counts) if n == 1]
    if len(rows) < 2 or not alone:
        return None
    slowest = max(alone, key=total.__getitem__)
    return slowest if total[slowest] == max(total) else None


def _segments(line: TaskLine, seconds: Vector, limit: int | None, ends: Vector) -> Array:
    """Cost of the atoms p .. q - 1 in one segment, [p, q]; inf where they do not run or fit."""
    count = len(line)
    cannot = np.concatenate([[0], np.cumsum(~np.isfinite(seconds))])
    total = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(seconds), seconds, 0.0))])
    held = np.concatenate([[0.0], np.cumsum(line.weights)])
    cost = total[None, :] - total[:, None] + ends[:, None] + ends[None, :]
    bad = cannot[None, :] > cannot[:, None]
    if limit is not None:
        bad |= held[None, :] - held[:, None] + line.spare > limit
    positions = np.arange(count + 1)
    bad |= positions[None, :] <= positions[:, None]
    return np.where(bad, math.inf, cost)
