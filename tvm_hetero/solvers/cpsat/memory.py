"""The memory of `BatchModel`: weights and live tensors of a device, as a cumulative constraint.

A memory's cumulative constraint has one interval for each tensor that was made there (from the
start of its maker) and one for each hop that brings it (from the start of the hop), both to an
end that is no earlier than any reader there and any hop away; unread outputs last to T, weights
over the whole horizon. In a memory that several devices see (teams of a node) a tensor has one
interval, from a start that is no later than its maker's there and any hop's that brings it.

Names are those of `model`; `held[task, d]` says whether the weights of a task lie on d.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from tvm_hetero.solvers.cpsat.model import BatchModel

# Sizes are counted in units of which a memory has at most this many.
_MOST_UNITS = 2**20


class MemoryIntervals:
    """What every device whose memory can overflow holds; `batch` has everything else by then."""

    def __init__(self, batch: BatchModel) -> None:
        self.batch = batch
        self._held: dict[tuple[int, int], cp_model.IntVar] = {}
        for d, binds in enumerate(batch.instance.memory_binds):
            if binds and batch.instance.memory_of[d] == d:
                self._add_memory(d)

    def hint(self, placement: Sequence[int]) -> None:
        """Tell CP-SAT where weights lie in a solution."""
        for (task, d), held in self._held.items():
            instance = self.batch.instance
            there = any(instance.memory_of[placement[v]] == d for v in instance.parts_of[task])
            self.batch.model.add_hint(held, int(there))

    def _add_memory(self, d: int) -> None:
        """The memory that a device names: the cumulative constraint, and what follows from it."""
        limit = self.batch.instance.capacity[d]
        assert limit is not None, "only a limit can bind"
        unit, lives = self._unit(d), list(self._lives(d))
        demands = [-(-nbytes // unit) for _, nbytes in lives]
        self.batch.model.add_cumulative([life for life, _ in lives], demands, limit // unit)
        self._add_working_sets(d, limit)

    def _lives(self, d: int) -> Iterator[tuple[cp_model.IntervalVar, int]]:
        """When what lies on a device, and its bytes."""
        batch, instance, model = self.batch, self.batch.instance, self.batch.model
        for held, nbytes in self._weights(d):
            whole = model.new_optional_fixed_size_interval_var(0, batch.horizon + 1, held, "")
            yield whole, nbytes
        for v, nbytes in enumerate(instance.unread):
            for place in self._devices(v, d) if nbytes else ():
                yield self._until(batch.s[v], batch.makespan, batch.x[v, place]), nbytes
        if instance.shares_memory[d]:
            yield from self._shared_lives(d)
            return
        for t, flow in enumerate(instance.tensors):
            if flow.nbytes == 0:
                continue
            end = self._last_use(t, d)
            if (flow.maker, d) in batch.x:
                made = self._until(batch.s[flow.maker], end, batch.x[flow.maker, d])
                yield made, flow.nbytes
            for hop in batch.hops[t]:
                if hop[1] == d:
                    yield self._until(batch.h[t, hop], end, batch.y[t, hop]), flow.nbytes

    def _devices(self, v: int, memory: int) -> list[int]:
        """The devices that see a memory and may run `v`."""
        memory_of = self.batch.instance.memory_of
        return [
            d
            for d in self.batch.instance.devices[v]
            if memory_of[d] == memory and (v, d) in self.batch.x
        ]

    def _shared_lives(self, memory: int) -> Iterator[tuple[cp_model.IntervalVar, int]]:
        """When a tensor lies in a memory that several devices see."""
        batch, memory_of = self.batch, self.batch.instance.memory_of
        for t, flow in enumerate(batch.instance.tensors):
            ways = [
                (batch.x[flow.maker, d], batch.s[flow.maker])
                for d in self._devices(flow.maker, memory)
            ]
            ways += [
                (batch.y[t, hop], batch.h[t, hop])
                for hop in batch.hops[t]
                if memory_of[hop[1]] == memory
            ]
            if not ways or flow.nbytes == 0:
                continue
            there, start = (
                batch.model.new_bool_var(""),
                batch.model.new_int_var(0, batch.horizon, ""),
            )
            for literal, begin in ways:
                batch.model.add_implication(literal, there)
                batch.model.add(start <= begin).only_enforce_if(literal)
            batch.model.add_bool_or([~there, *(literal for literal, _ in ways)])
            yield self._until(start, self._last_use(t, memory), there), flow.nbytes

    def _add_working_sets(self, d: int, limit: int) -> None:
        """What a task reads and writes is there together with all weights, while it runs.

        Follows from the cumulative constraint, which alone sees it only by pushing the task
        along the time axis until it falls off the end. A task that takes no time holds nothing.
        """
        instance = self.batch.instance
        weights = sum(nbytes * held for held, nbytes in self._weights(d))
        for v in range(len(instance)):
            tensors = (*instance.inputs[v], *instance.outputs[v])
            nbytes = sum(instance.tensors[t].nbytes for t in tensors) + instance.unread[v]
            for place in self._devices(v, d):
                if self.batch.run(v, place) > 0:
                    runs = self.batch.x[v, place]
                    self.batch.model.add(weights + nbytes <= limit).only_enforce_if(runs)

    def _weights(self, d: int) -> list[tuple[cp_model.IntVar, int]]:
        """(whether the weights of a task lie on d, bytes), for all tasks that have any.

        Parts of one task share them, so with several parts that gets a literal of its own.
        """
        instance = self.batch.instance
        found = []
        for task, parts in enumerate(instance.parts_of):
            users = [self.batch.x[v, place] for v in parts for place in self._devices(v, d)]
            if not users or not instance.weights[parts[0]]:
                continue
            held = users[0]
            if len(users) > 1:
                if (task, d) not in self._held:
                    self._held[task, d] = self.batch.model.new_bool_var(f"held{task},{d}")
                    self.batch.model.add_max_equality(self._held[task, d], users)
                held = self._held[task, d]
            found.append((held, instance.weights[parts[0]]))
        return found

    def _unit(self, d: int) -> int:
        """The largest unit that divides all sizes; a coarser one if there would be too many."""
        instance = self.batch.instance
        sizes = [*instance.weights, *instance.unread, *(flow.nbytes for flow in instance.tensors)]
        unit = math.gcd(*sizes)
        if (instance.capacity[d] or 0) // max(1, unit) > _MOST_UNITS:
            self.batch.exact = False
            unit = (instance.capacity[d] or 0) // _MOST_UNITS + 1
        return max(1, unit)

    def _until(
        self, start: cp_model.IntVar, end: cp_model.IntVar, present: cp_model.IntVar
    ) -> cp_model.IntervalVar:
        size = self.batch.model.new_int_var(0, self.batch.horizon, "")
        return self.batch.model.new_optional_interval_var(start, size, end, present, "")

    def _last_use(self, t: int, d: int) -> cp_model.IntVar:
        """The end of a tensor's life in a memory."""
        batch, flow, model = self.batch, self.batch.instance.tensors[t], self.batch.model
        end = model.new_int_var(0, batch.horizon, "")
        memory_of = batch.instance.memory_of
        for v in (flow.maker, *flow.readers):
            for place in self._devices(v, d):
                model.add(end >= batch.e[v]).only_enforce_if(batch.x[v, place])
        for hop in batch.hops[t]:
            if d in (memory_of[hop[0]], memory_of[hop[1]]):
                past = batch.h[t, hop] + batch.hop(t, hop)
                model.add(end >= past).only_enforce_if(batch.y[t, hop])
        return end
