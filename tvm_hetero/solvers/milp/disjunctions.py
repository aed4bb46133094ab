"""The MILP's rules 2 to 4: a device or exclusive link does one thing at a time.

Notation as in `timing`; r ranges over resources (devices, shared cores, exclusive links).

    before[a, b]  a ends before b starts, because both occupy something

    before[a, b] + before[b, a] >= occupies(a, r) + occupies(b, r) - 1     -> `_add_order`
    s[b] >= end(a) - M (1 - before[a, b])
    load of r <= T;  load + least ready + least tail <= T where used       -> `_add_loads`

Two tasks of which one precedes the other need no `before` as long as every batch is whole; with a
batch divided, an execution of the later task may come first on a device (it works on other
elements), so then all pairs have one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

from tvm_hetero.solvers.milp.model import ZERO, Linear, total
from tvm_hetero.solvers.milp.timing import Key, TimedActivity, TimingConstraints
from tvm_hetero.views.instance import Instance


class Orders:
    """The rows above, over the activities of a `TimingConstraints`.

    `count` is about how many pairs of activities share a resource; nothing is built where that is
    more than `most`.
    """

    def __init__(self, timing: TimingConstraints, most: float = math.inf) -> None:
        self.timing = timing
        self.model = timing.model
        self.placement = timing.placement
        self.before: dict[tuple[Key, Key], Linear] = {}
        self._ancestors = _ancestors(timing.instance)
        self._rows = list(timing.activities.values())
        # The numbers of the activities that may occupy each resource, rising.
        self._on: dict[int, list[int]] = {}
        for i, row in enumerate(self._rows):
            for r in row.occupies:
                self._on.setdefault(r, []).append(i)
        self.count = sum(len(mine) ** 2 // 2 for mine in self._on.values())
        if self.count > most:
            return
        for a, b in self._pairs():
            self._add_order(a, b)
        self._add_loads()

    def _pairs(self) -> Iterator[tuple[TimedActivity, TimedActivity]]:
        """Activities that may be in each other's way, and that no data flow orders."""
        for i, a in enumerate(self._rows):
            later = {j for r in a.occupies for j in self._on[r][bisect_right(self._on[r], i) :]}
            for b in (self._rows[j] for j in sorted(later)):
                if not self.flows(a.key, b.key) and not self.flows(b.key, a.key):
                    yield a, b

    def flows(self, a: Key, b: Key) -> bool:
        """Whether a surely ends before b starts, if both take place, because of the data flow."""
        maker, other = self.timing.rows[a[0]], self.timing.rows[b[0]]
        if not maker.certain or not other.certain:
            # Candidates of two tasks may hold different elements; a hop follows its own maker.
            return len(a) == 1 and len(b) == 3 and a[0] == b[0]
        above = self._ancestors[other.task] | 1 << other.task
        if len(a) == 1:
            mine = len(b) == 3 and a[0] == b[0]
            return mine or bool(self._ancestors[other.task] >> maker.task & 1)
        # A hop ends before all readers start; if they are one task, then before what follows it.
        # With more readers it need not be on the way to the one that precedes b.
        readers = self.timing.instance.tensors[a[1]].readers
        return all(above >> w & 1 for w in readers)

    def _add_order(self, a: TimedActivity, b: TimedActivity) -> None:
        model = self.model
        literals = []
        for first, second in ((a, b), (b, a)):
            if first.early + first.least > second.late * (1 + 1e-9) + 1e-9:
                literals.append(ZERO)
                continue
            name = f"before[{first.key},{second.key}]"
            literal = model.binary(name, self._known_order(first, second))
            big = max(0.0, first.last - second.early)
            model.at_least(second.start, first.end + big * (literal - 1.0))
            self.before[first.key, second.key] = literal
            literals.append(literal)
        either = total(literals)
        model.at_most(either, 1.0)
        for resource in sorted(a.occupies.keys() & b.occupies.keys()):
            both = a.occupies[resource] + b.occupies[resource]
            model.at_least(either, both - 1.0)

    def _known_order(self, a: TimedActivity, b: TimedActivity) -> bool | None:
        if self.placement.start is None:
            return None
        if a.known is None or b.known is None:
            return False
        return (*a.known, str(a.key)) < (*b.known, str(b.key)) and a.known[1] <= b.known[0] + 1e-6

    def _add_loads(self) -> None:
        """What a device or link does takes no longer than T, and on a device less than that."""
        for r in sorted({r for a in self.timing.activities.values() for r in a.occupies}):
            self.model.at_most(self.load(r), self.timing.makespan)
            mine = [
                (e, mode)
                for e, row in enumerate(self.timing.rows)
                for mode in row.modes
                if self._engages(mode.device, r)
            ]
            if not mine:
                continue
            windows = self.timing.windows
            places = {(self.timing.rows[e].task, mode.device) for e, mode in mine}
            early = min(windows.ready[v][d] for v, d in places) / self.timing.unit
            late = min(windows.tail[v][d] for v, d in places) / self.timing.unit
            if early + late <= 0:
                continue
            start, hint = self.placement.start, None
            if start is not None:
                hint = any(self._engages(c.mode.device, r) for c in start.chosen.values())
            used = self.model.number(0.0, 1.0, f"runs[{r}]", hint)
            for e, d in sorted({(e, mode.device) for e, mode in mine}):
                self.model.at_least(used, self.placement.on[e, d])
            work = total(
                self.timing.units(self.placement.seconds(e, m)) * self.placement.z[e, m]
                for e, m in mine
            )
            self.model.at_most(work + (early + late) * used, self.timing.makespan)

    def _engages(self, device: int, resource: int) -> bool:
        """Whether an execution on a device keeps a resource busy."""
        return resource in self.timing.instance.cores[device]

    def load(self, resource: int) -> Linear:
        """Busy time of a device, a shared core or an exclusive link."""
        parts = []
        for (e, mode), z in self.placement.z.items():
            if self._engages(mode.device, resource):
                parts.append(self.timing.units(self.placement.seconds(e, mode)) * z)
        for (_, t, hop), taken in self.placement.hops.items():
            if resource in self.timing.instance.resources(hop):
                parts += [self.timing.hop_units(t, hop, mode) * x for mode, x in taken.items()]
        return total(parts)


def _ancestors(instance: Instance) -> list[int]:
    """For every task a bit mask of the tasks before it."""
    masks = [0] * len(instance)
    for v in instance.order:
        for t in instance.inputs[v]:
            maker = instance.tensors[t].maker
            masks[v] |= masks[maker] | 1 << maker
    return masks
