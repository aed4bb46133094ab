"""An order of parts where copies are mere delays: its times, its tails, and windows of it.

This is all that neighbourhood search keeps of a schedule (see `cpsat.large_neighbourhood`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.views.instance import Instance

Row = list[float]


@dataclass
class Order:
    """A schedule as an order: `parts` sorted by start, with device, start and end of each."""

    parts: list[int]
    place: list[int]
    start: Row
    end: Row

    @property
    def makespan(self) -> float:
        """The last end, s."""
        return max(self.end)


@dataclass(frozen=True)
class Window:
    """Positions from `first` on: `parts` in order, of which those in `free` move."""

    first: int
    parts: list[int]
    free: set[int]


class Delays:
    """Times of an order where copies are mere delays."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.known: dict[tuple[int, int, int], float] = {}

    def copy(self, t: int, j: int, k: int) -> float:
        """Time of tensor t from device j to k, s."""
        if j == k:
            return 0.0
        key = (j, k, self.instance.tensors[t].nbytes)
        if key not in self.known:
            self.known[key] = self.instance.copy_seconds(*key)
        return self.known[key]

    def timed(self, parts: list[int], place: list[int]) -> Order:
        """Every part as early as its inputs and the part before it on its device (on each core of a
        team) allow.
        """
        instance, cores = self.instance, self.instance.cores
        free = [0.0] * instance.resource_count
        start, end = [0.0] * len(parts), [0.0] * len(parts)
        for v in parts:
            d = place[v]
            at = max([free[r] for r in cores[d]])
            for t in instance.inputs[v]:
                u = instance.tensors[t].maker
                at = max(at, end[u] + self.copy(t, place[u], d))
            start[v] = at
            end[v] = at + instance.seconds[v][d]
            for r in cores[d]:
                free[r] = end[v]
        return Order(parts, place, start, end)

    def tails(self, order: Order) -> Row:
        """For every part the time from its end to the end of all, along data and devices, s."""
        instance, place = self.instance, order.place
        cores, behind = instance.cores, [0.0] * instance.resource_count
        tail = [0.0] * len(order.parts)
        for v in reversed(order.parts):
            d = place[v]
            longest = max([behind[r] for r in cores[d]])
            for t in instance.outputs[v]:
                for w in instance.tensors[t].readers:
                    e = place[w]
                    longest = max(longest, self.copy(t, d, e) + instance.seconds[w][e] + tail[w])
            tail[v] = longest
            for r in cores[d]:
                behind[r] = longest + instance.seconds[v][d]
        return tail

    def neighbours(self, v: int) -> list[int]:
        """Makers of what v reads, and readers of what it makes."""
        instance = self.instance
        found = [instance.tensors[t].maker for t in instance.inputs[v]]
        for t in instance.outputs[v]:
            found += instance.tensors[t].readers
        return found
