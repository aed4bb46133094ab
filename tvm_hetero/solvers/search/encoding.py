"""What the classical searches search: where everything goes, and in which order.

A *candidate* is a placement (a device for every part) and a sequence. The sequence is a topological
order of *items*: the parts, and where copies can be in the way of anything also the fetches (part
numbers end where fetches begin: one for every tensor and reader, see `native`), since it then
matters what is copied before what. For throughput there is no sequence.

`EncodingSpace` knows what may stand where: it draws candidates, moves them a little, and takes them
from schedules. What a candidate is worth says a `Scorer` (`scorers`).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.views.instance import Instance

# An item moves at most so far in one step; walking further to see how far it may costs too much.
_FARTHEST = 200


@dataclass(frozen=True)
class EncodedSchedule:
    """A device for every part, and a topological order of the items (none for throughput)."""

    placement: tuple[int, ...]
    sequence: tuple[int, ...]


class EncodingSpace:
    """The candidates of an instance.

    Attributes
    ----------
    movable : the groups (positions) with more than one device to choose from.
    items : parts, and fetches where they count; 0 for throughput.
    before, after : the items that must stand before and after each item, directly.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.movable = tuple(
            g for g, group in enumerate(instance.groups) if len(instance.devices[group[0]]) > 1
        )
        n = len(instance)
        timed = instance.problem.objective.kind != "throughput"
        fetched = timed and instance.contended
        self.fetches = _fetches(instance) if fetched else []
        self.items = n + len(self.fetches) if timed else 0
        before: list[dict[int, None]] = [{} for _ in range(self.items)]
        if timed and not fetched:
            for flow in instance.tensors:
                for reader in flow.readers:
                    before[reader][flow.maker] = None
        for f, (tensor, reader) in enumerate(self.fetches, start=n):
            before[f][instance.tensors[tensor].maker] = None
            before[reader][f] = None
        self.before = tuple(tuple(row) for row in before)
        after: list[list[int]] = [[] for _ in range(self.items)]
        for item, row in enumerate(self.before):
            for other in row:
                after[other].append(item)
        self.after = tuple(tuple(row) for row in after)
        position = {v: i for i, v in enumerate(instance.order)}
        # Equal keys fall to the topological order of the parts; a fetch stands with its reader.
        self._rank = [(position[v], 1) for v in range(n)]
        self._rank += [(position[reader], 0) for _, reader in self.fetches]

    def choices(self, group: int) -> tuple[int, ...]:
        """The devices that may run a group."""
        return self.instance.devices[self.instance.groups[group][0]]

    def moved(self, placement: Sequence[int], group: int, device: int) -> tuple[int, ...]:
        """The placement with one group on another device."""
        result = list(placement)
        for v in self.instance.groups[group]:
            result[v] = device
        return tuple(result)

    def draw_placement(self, rng: random.Random) -> tuple[int, ...]:
        """Every group on some device; with contiguous stages, groups in a row on each."""
        result = [0] * len(self.instance)
        stages = self._stages(rng) if self.instance.problem.objective.contiguous else None
        for g, group in enumerate(self.instance.groups):
            choices = self.choices(g)
            device = rng.choice(choices)
            if stages is not None and stages[g] in choices:
                device = stages[g]
            for v in group:
                result[v] = device
        return tuple(result)

    def _stages(self, rng: random.Random) -> list[int]:
        """Devices in some order, each for a run of groups, cut at random."""
        devices = sorted({d for allowed in self.instance.devices for d in allowed})
        rng.shuffle(devices)
        count = len(self.instance.groups)
        cuts = sorted(rng.randint(0, count) for _ in devices[1:])
        return [devices[sum(cut <= g for cut in cuts)] for g in range(count)]

    def draw_sequence(self, rng: random.Random) -> tuple[int, ...]:
        """A random topological order."""
        return self.sorted_by([(rng.random(),) for _ in range(self.items)])

    def sorted_by(self, keys: Sequence[tuple[float, ...]]) -> tuple[int, ...]:
        """The topological order that takes, of what is free, the smallest key first."""
        waiting = [len(row) for row in self.before]
        heap = [
            (keys[item], self._rank[item], item) for item, count in enumerate(waiting) if count == 0
        ]
        heapq.heapify(heap)
        order: list[int] = []
        while heap:
            item = heapq.heappop(heap)[-1]
            order.append(item)
            for other in self.after[item]:
                waiting[other] -= 1
                if waiting[other] == 0:
                    heapq.heappush(heap, (keys[other], self._rank[other], other))
        return tuple(order)

    def shifted(
        self, sequence: Sequence[int], position: int, rng: random.Random
    ) -> tuple[int, ...] | None:
        """The sequence with the item at a position somewhere else; None if it must stay."""
        item = sequence[position]
        before, after = self.before[item], self.after[item]
        low = position
        while low > max(0, position - _FARTHEST) and sequence[low - 1] not in before:
            low -= 1
        high = position
        last = min(len(sequence) - 1, position + _FARTHEST)
        while high < last and sequence[high + 1] not in after:
            high += 1
        if low == high:
            return None
        target = rng.randint(low, high - 1)
        target += target >= position
        rest = [*sequence[:position], *sequence[position + 1 :]]
        rest.insert(target, item)
        return tuple(rest)

    def neighbour(self, candidate: EncodedSchedule, rng: random.Random) -> EncodedSchedule:
        """One group on another device, or one item elsewhere in the sequence, as likely."""
        place = self.items == 0 or rng.random() < 0.5
        if self.movable and place:
            group = rng.choice(self.movable)
            home = candidate.placement[self.instance.groups[group][0]]
            device = rng.choice([d for d in self.choices(group) if d != home])
            return EncodedSchedule(
                self.moved(candidate.placement, group, device), candidate.sequence
            )
        if self.items == 0:
            return candidate
        sequence = self.shifted(candidate.sequence, rng.randrange(self.items), rng)
        return EncodedSchedule(candidate.placement, sequence or candidate.sequence)

    def of_schedule(self, schedule: Schedule) -> EncodedSchedule | None:
        """The candidate that gives a schedule again (or better); None if it divides a batch."""
        instance = self.instance
        index, devices = instance.problem.graph.index, instance.problem.platform.index
        if len(schedule.executions) != len(instance):
            return None
        part = {task: instance.parts_of[i][0] for task, i in index.items()}
        placement = [0] * len(instance)
        keys = [(0.0, 0.0)] * self.items
        for e in schedule.executions:
            placement[part[e.task]] = devices[e.device]
            if self.items:
                keys[part[e.task]] = (e.start, e.end)
        begun: dict[tuple[str, int], tuple[float, float]] = {}
        for copy in sorted(schedule.copies, key=lambda c: (c.start, c.end)):
            begun[copy.tensor, devices[copy.dst]] = (copy.start, copy.end)
        for f, (t, reader) in enumerate(self.fetches, start=len(instance)):
            flow = instance.tensors[t]
            made = keys[flow.maker][1]
            keys[f] = begun.get((flow.name, placement[reader]), (made, made))
        return EncodedSchedule(tuple(placement), self.sorted_by(keys) if self.items else ())


def _fetches(instance: Instance) -> list[tuple[int, int]]:
    """(tensor, reader) of every fetch, in the order of their numbers."""
    return [(t, r) for t, flow in enumerate(instance.tensors) for r in flow.readers]
