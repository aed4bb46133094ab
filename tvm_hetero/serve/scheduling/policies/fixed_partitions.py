"""Fixed partitions: each model has places of its own, on which its queries run one by one.

The partition of a model is as large as its part of the load, at least one place. With more models
than places some share a partition: the heaviest first, each to the partition with the least load.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.scheduling.policies.in_turn import InTurn
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Query


def divide_models(loads: Mapping[str, float], places: int) -> list[tuple[frozenset[str], int]]:
    """Which models share a partition, and how many places each partition has.

    Parameters
    ----------
    loads : place-seconds a second that each model needs, in any unit.
    """
    if not loads or min(loads.values()) <= 0:
        raise UsageError(f"expected a load above 0 for each model, got {dict(loads)}")
    groups: list[set[str]] = [set() for _ in range(min(places, len(loads)))]
    sums = [0.0] * len(groups)
    for model in sorted(loads, key=lambda name: (-loads[name], name)):
        g = min(range(len(groups)), key=lambda g: (sums[g], g))
        groups[g].add(model)
        sums[g] += loads[model]
    sizes = [1] * len(groups)
    for _ in range(places - len(groups)):
        sizes[max(range(len(groups)), key=lambda g: (sums[g] / sizes[g], -g))] += 1
    return [(frozenset(group), size) for group, size in zip(groups, sizes, strict=True)]


class FixedPartitions(InTurn):
    """Each model's queries one after the other, on the places of its partition."""

    def __init__(
        self,
        profile: ServiceProfile,
        places: int,
        loads: Mapping[str, float] | None = None,
        *,
        drop_late: bool = False,
    ) -> None:
        super().__init__(profile, places, drop_late=drop_late)
        loads = loads or dict.fromkeys(profile.models, 1.0)
        self.partitions = divide_models(loads, places) if loads else []

    def share_of(self, query: Query, now: float) -> int | None:
        """All places of its partition, if nothing runs there."""
        models, size = self._partition(query)
        busy = any(running.query.model in models for running in self.running.values())
        return None if busy else size

    def _partition(self, query: Query) -> tuple[frozenset[str], int]:
        return next(part for part in self.partitions if query.model in part[0])

    def _largest(self, query: Query) -> int:
        return min(self._partition(query)[1], self.profile.places)

    def _plan(self, now: float) -> None:
        for query in self.waiting:
            if len(self.running) == len(self.partitions):
                return
            if self._is_dropped(query, now):
                self._forget(query.number)
            elif (share := self.share_of(query, now)) is not None:
                self._forget(query.number)
                self._start(query, share, now)
