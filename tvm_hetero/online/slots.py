"""Stages that may be empty: how many blocks each of some places in a fixed order has.

LLS and ODIN move blocks between execution places whose order never changes, and a place that has
given all it had may get some back. `counts[k]` is the number of blocks of slot k; since stages
are contiguous, counts and order are all there is to say: a block that goes from slot 1 to slot 4
shifts the boundaries between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.observation import Observation


@dataclass(frozen=True)
class Slots:
    """Places in their order along the pipeline, and how many blocks each has."""

    order: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def configuration(self) -> Configuration:
        """The stages that are not empty."""
        ends = accumulate(self.counts)
        used = [
            (end, place)
            for end, place, count in zip(ends, self.order, self.counts, strict=True)
            if count
        ]
        return Configuration(tuple(end for end, _ in used), tuple(place for _, place in used))

    def give(self, source: int, target: int) -> Slots:
        """One block less in slot `source`, one more in slot `target`."""
        counts = list(self.counts)
        counts[source] -= 1
        counts[target] += 1
        return replace(self, counts=tuple(counts))

    def times(self, observation: Observation) -> tuple[float, ...]:
        """Seconds of every slot, 0 of an empty one."""
        found = dict(zip(observation.configuration.places, observation.times, strict=True))
        return tuple(found.get(place, 0.0) for place in self.order)


def slots_of(configuration: Configuration, places: Sequence[Place]) -> Slots:
    """The slots of a configuration; places that are idle, and can be used, come last."""
    used = list(configuration.places)
    for p, place in enumerate(places):
        if p not in used and not any(place.excludes(places[other]) for other in used):
            used.append(p)
    lengths = [end - begin for begin, end in configuration.ranges]
    return Slots(tuple(used), tuple(lengths + [0] * (len(used) - len(lengths))))
