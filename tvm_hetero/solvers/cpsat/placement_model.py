"""The placement model of throughput for CP-SAT: which device runs what, and what moves then.

Notation as in `model`; r ranges over resources (devices and exclusive links):

    x[v, d]     v runs on d                    one d for each v, one for each color
    y[t, a, b]  t makes the hop a -> b         x[u(t), j] and x[w, k] -> y of all hops j ~> k
    T           the largest load, minimised

    sum_v p(v, r) x[v, r] + sum of the hops y that occupy r  <=  T       for every r
    weights + tensors made on or copied to d                 <=  memory  for every d

A tensor is needed on k if some reader is there; for tensors with several readers that gets a
literal of its own, so that hops follow from pairs (maker's device, k) and not from every reader.
Routes need not form trees here: a hop counts once however many routes share it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm_hetero.bounds.core.time_is_up import Late, check_late, never
from tvm_hetero.solvers.core.integer_scaling import Ticks
from tvm_hetero.views.instance import Hop, Instance

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class PlacementModel:
    """The model at the head of this file.

    Parameters
    ----------
    most : a value that is already known (s).
    late : whether the time is up: of dozens of devices the hops alone take seconds.

    Raises
    ------
    TimeIsUp
        If it is before all is written.
    """

    def __init__(self, instance: Instance, ticks: Ticks, most: float, late: Late = never) -> None:
        from ortools.sat.python import cp_model

        self.instance = instance
        self.ticks = ticks
        self.most = most
        self.model = cp_model.CpModel()
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self.y: dict[tuple[int, Hop], cp_model.IntVar] = {}
        self.needs: dict[tuple[int, int], cp_model.IntVar] = {}
        self._add_placement()
        for t in range(len(instance.tensors)):
            check_late(late)
            self._add_tensor(t)
        self._add_loads()
        self._add_memory()
        check_late(late)

    def _add_placement(self) -> None:
        """One device a group: the tasks of a color share their variables."""
        for group in self.instance.groups:
            devices = self.instance.devices[group[0]]
            row = {d: self.model.new_bool_var(f"x{group[0]},{d}") for d in devices}
            self.model.add_exactly_one(row.values())
            for v in group:
                self.x.update({(v, d): x for d, x in row.items()})

    def _add_tensor(self, t: int) -> None:
        """Hops follow from where a tensor is made and where it is needed."""
        instance, model = self.instance, self.model
        flow = instance.tensors[t]
        for k in range(len(instance.names)):
            need = self._need(t, k)
            if need is None:
                continue
            for j in instance.devices[flow.maker]:
                route = instance.route(j, k, flow.nbytes)
                made = self.x[flow.maker, j]
                if route is None:
                    model.add_bool_or(~made, ~need)
                for hop in route or ():
                    if (t, hop) not in self.y:
                        self.y[t, hop] = model.new_bool_var(f"y{t},{hop}")
                    model.add_bool_or(~made, ~need, self.y[t, hop])

    def _need(self, t: int, k: int) -> cp_model.IntVar | None:
        """Whether some reader of a tensor is on `k`; None if none can be."""
        readers = [self.x[w, k] for w in self.instance.tensors[t].readers if (w, k) in self.x]
        if len(readers) <= 1:
            return readers[0] if readers else None
        need = self.model.new_bool_var(f"need{t},{k}")
        for reader in readers:
            self.model.add_implication(reader, need)
        self.needs[t, k] = need
        return need

    def _add_loads(self) -> None:
        """T is no less than the load of any device, shared core or exclusive link."""
        instance = self.instance
        loads: dict[int, list[tuple[int, cp_model.IntVar]]] = {}
        for (v, d), x in self.x.items():
            for resource in instance.cores[d]:
                row = loads.setdefault(resource, [])
                row.append((self.ticks.ticks(instance.seconds[v][d]), x))
        for (t, hop), y in self.y.items():
            seconds = instance.hop_seconds(hop, instance.tensors[t].nbytes)
            for resource in instance.resources(hop):
                loads.setdefault(resource, []).append((self.ticks.ticks(seconds), y))
        most = sum(ticks for load in loads.values() for ticks, _ in load)
        if self.most < math.inf:
            known = math.ceil(self.most * self.ticks.per_second + self.ticks.slack) + 1
            most = min(most, known)
        self.largest = self.model.new_int_var(0, most, "T")
        for _, load in sorted(loads.items()):
            # What takes longer than what is known is out, however much longer: no huge numbers.
            self.model.add(sum(min(t, most + 1) * literal for t, literal in load) <= self.largest)
        self.model.minimize(self.largest)

    def _add_memory(self) -> None:
        """Every device holds its weights and all that is made on or copied to it."""
        instance = self.instance
        copied: dict[int, list[cp_model.LinearExpr]] = {}
        for (t, hop), y in self.y.items():
            copied.setdefault(hop[1], []).append(instance.tensors[t].nbytes * y)
        for d, limit in enumerate(instance.capacity):
            if limit is None or instance.memory_of[d] != d:
                continue
            shared = instance.shares_memory[d]
            held = [
                (instance.weights[v] + instance.unread[v] + (0 if shared else self._made(v))) * x
                for (v, place), x in self.x.items()
                if instance.memory_of[place] == d
            ]
            if shared:
                held += self._in_shared(d)
            else:
                held += copied.get(d, [])
            self.model.add(sum(held) <= limit)

    def _in_shared(self, memory: int) -> list[cp_model.LinearExpr]:
        """Bytes of the tensors in a memory that several devices see: each once, however it came."""
        memory_of, found = self.instance.memory_of, []
        for t, flow in enumerate(self.instance.tensors):
            ways = [x for (v, d), x in self.x.items() if v == flow.maker and memory_of[d] == memory]
            ways += [y for (u, hop), y in self.y.items() if u == t and memory_of[hop[1]] == memory]
            there = self.model.new_bool_var(f"there{t},{memory}")
            for way in ways:
                self.model.add_implication(way, there)
            found.append(flow.nbytes * there)
        return found

    def _made(self, v: int) -> int:
        return sum(self.instance.tensors[t].nbytes for t in self.instance.outputs[v])

    def hint(self, placement: list[int]) -> None:
        """Tell CP-SAT a placement, with all that follows from it."""
        instance = self.instance
        first = [group[0] for group in instance.groups]
        for v in first:
            for d in instance.devices[v]:
                self.model.add_hint(self.x[v, d], int(placement[v] == d))
        for (t, k), need in self.needs.items():
            there = any(placement[w] == k for w in instance.tensors[t].readers)
            self.model.add_hint(need, int(there))
        made = [frozenset(instance.hops(t, placement)) for t in range(len(instance.tensors))]
        for (t, hop), y in self.y.items():
            self.model.add_hint(y, int(hop in made[t]))

    def read(self, solver: cp_model.CpSolver) -> list[int]:
        """The placement of a solution."""
        placement = [-1] * len(self.instance)
        for (v, d), x in self.x.items():
            if solver.value(x):
                placement[v] = d
        return placement
