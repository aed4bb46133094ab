"""Contiguous stages (rule 8), kept while a placement grows.

Draw an arrow from device d to device e wherever a part on e reads what was made on d. The devices
form a pipeline if the arrows form no cycle. `StageGraph` counts the readings behind each arrow, so
that a group can be taken away again. Without `Objective.contiguous` it allows everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tvm_hetero.views.instance import Instance

Arrow = tuple[int, int]


class StageGraph:
    """The arrows between the devices of a partial placement."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.wanted = instance.problem.objective.contiguous
        self.home: list[int | None] = [None] * len(instance)
        self.count: Counter[Arrow] = Counter()

    def allow(self, group: Sequence[int], device: int) -> bool:
        """Whether the devices still form a pipeline with a group, which has no place, on one."""
        if not self.wanted:
            return True
        fresh = {arrow for arrow in self._at(group, device) if self.count[arrow] == 0}
        known = {arrow for arrow, n in self.count.items() if n > 0}
        return not fresh or not _has_cycle(known | fresh)

    def place(self, group: Sequence[int], device: int) -> None:
        """Put a group that has no place on a device."""
        if self.wanted:
            self.count.update(self._at(group, device))
        for v in group:
            self.home[v] = device

    def _at(self, group: Sequence[int], device: int) -> Iterable[Arrow]:
        """Arrows between the parts of a group on a device and what has a place."""
        tensors = self.instance.tensors
        for v in group:
            if v in self.instance.terminals:
                continue
            for t in self.instance.inputs[v]:
                home = self._stage(tensors[t].maker)
                if home is not None and home != device:
                    yield home, device
            for t in self.instance.outputs[v]:
                for reader in tensors[t].readers:
                    there = self._stage(reader)
                    if there is not None and there != device:
                        yield device, there

    def _stage(self, v: int) -> int | None:
        """The device of a part that has a place and belongs to a stage."""
        return None if v in self.instance.terminals else self.home[v]


def _has_cycle(arrows: Iterable[Arrow]) -> bool:
    """Whether some way along the arrows leads back to where it began."""
    after: dict[int, set[int]] = {}
    for a, b in arrows:
        after.setdefault(a, set()).add(b)
        after.setdefault(b, set())
    return _without_ends(after)


def _without_ends(after: Mapping[int, set[int]]) -> bool:
    """Take away what leads nowhere as long as there is any; on a cycle something is left."""
    left = {device: set(row) for device, row in after.items()}
    while left:
        ends = {device for device, row in left.items() if not row}
        if not ends:
            return True
        left = {device: row - ends for device, row in left.items() if device not in ends}
    return False
