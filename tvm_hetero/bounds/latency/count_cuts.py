"""Count cuts: how many whole tasks fit into what a device has left, below a limit.

Where makespans below L alone are of interest, all that cannot start on d before h and is followed
by at least q runs there within L - h - q, if it runs there. Of a set S of such tasks no more than

    K(S) = the most of the shortest of them that fit into L - min head - min tail of S

are on d: whole tasks, so that the part of one which a load cut lets a device do besides is lost.

    sum over v in S of y(v, d)  <=  K(S)                                        (1)

Where tasks are alike, that is up to one task's time on every device. Modules of RandWire-32
(Barabasi-Albert) gain by it: some limits L are refuted that the programs without these rows leave
open.

As with load cuts the sets are those of two thresholds, and what a point violates is found by sums
over all pairs of them at once                                             -> `CutCounts.violated`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray

_MOST = 3
_CLOSE = 1e-6
# Thresholds of a kind, and what the rounding of sums of times may make of them.
_THRESHOLDS = 60
_EASE = 1 + 1e-9

Row = list[tuple[int, float]]


@dataclass(frozen=True)
class CutCounts:
    """The rows (1) of a device: tasks by numbers, K for all pairs of thresholds.

    `rows[a, i]` says that task `tasks[i]` starts no earlier than threshold a, `columns[b, i]` that
    no less than threshold b follows it.
    """

    tasks: IntArray
    rows: BoolArray
    columns: BoolArray
    most: FloatArray

    @classmethod
    def of(
        cls, before: FloatArray, least: FloatArray, after: FloatArray, limit: float
    ) -> CutCounts:
        """Of tasks that start on a device after `before`, take `least` and have `after` behind.

        All in seconds; inf where a task cannot be there. Those that take no time do not count.
        """
        fits = (before + least + after <= limit * _EASE) & (least > 0)
        tasks = np.flatnonzero(fits)
        before, least, after = before[tasks], least[tasks], after[tasks]
        rows, columns = _thresholds(before), _thresholds(after)
        late, early = before >= rows[:, None], after >= columns[:, None]
        inside = late[:, None, :] & early[None, :, :]
        # Thresholds of a kind may be below all that is in a set.
        head = np.where(inside, before, np.inf).min(axis=2, initial=np.inf)
        tail = np.where(inside, after, np.inf).min(axis=2, initial=np.inf)
        room = limit * _EASE - head - tail
        most, used = np.zeros(room.shape), np.zeros(room.shape)
        for i in np.argsort(least, kind="stable"):
            fitting = inside[:, :, i] & (used + least[i] <= room)
            used += np.where(fitting, least[i], 0.0)
            most += fitting
        return cls(tasks, late, early, most)

    def violated(self, share: FloatArray) -> list[tuple[IntArray, float]]:
        """Sets (numbers of tasks) with their K that `share` exceeds, the worst first."""
        if not len(self.tasks):
            return []
        total = (self.rows * share[self.tasks]) @ self.columns.T
        over = total - self.most
        worst = np.argsort(-over, axis=None, kind="stable")[:_MOST]
        pairs = [divmod(int(at), over.shape[1]) for at in worst]
        return [
            (self.tasks[self.rows[a] & self.columns[b]], float(self.most[a, b]))
            for a, b in pairs
            if over[a, b] > _CLOSE
        ]


def counts_of(
    before: FloatArray, least: FloatArray, after: FloatArray, limit: float
) -> Sequence[CutCounts]:
    """For every device (columns of the tables): see `CutCounts.of`."""
    return [
        CutCounts.of(before[:, d], least[:, d], after[:, d], limit) for d in range(least.shape[1])
    ]


def _thresholds(values: FloatArray) -> FloatArray:
    """Some of the values, the least among them."""
    found = np.unique(values)
    return found[:: max(1, -(-len(found) // _THRESHOLDS))]
