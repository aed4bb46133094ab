"""What the MILP minimises: T, energy or cost over it, or the largest load (throughput).

Energy and cost add to `timing` (P_d watts while busy, I_d while idle; price_d per hour)

    used[d] >= every execution on d and every hop that begins or ends there
    lasting[d] >= T - H (1 - used[d])              T if d is used, else 0
    energy = sum_d (P_d - I_d) busy_d + I_d lasting_d      cost = sum_d price_d / 3600 lasting_d

Throughput has no times:

    T >= load of every device and exclusive link
    weights + made on d + copied to d <= memory of d
    contiguous stages: ahead[a, b] >= the move of a tensor from a to b, and `ahead` is an order of
    the devices: ahead[a, b] + ahead[b, a] = 1, ahead[a, b] + ahead[b, c] + ahead[c, a] <= 2
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations

from tvm_hetero.solvers.milp.disjunctions import Orders
from tvm_hetero.solvers.milp.model import Linear, MilpModel, total
from tvm_hetero.solvers.milp.placement import Moves, Placement
from tvm_hetero.solvers.milp.timing import UNITS, TimingConstraints

# Coefficients of the objective are at most this.
_LARGEST = 1e4


def set_energy_or_cost(timing: TimingConstraints, orders: Orders, known: float | None) -> float:
    """Minimise energy or cost; the value (J or money) of one unit of the objective.

    `known` is a value that is known to be possible: it becomes 1,000 units, so that tolerances
    mean the same as for latency, unless coefficients would be too large.
    """
    problem, terms = timing.instance.problem, []
    for d, device in enumerate(problem.platform.devices):
        lasting = _while_used(timing, d)
        if lasting is None:
            continue
        if problem.objective.kind == "cost":
            terms.append((device.price or 0.0) / 3600.0 * lasting)
        else:
            active = (device.watts or 0.0) - device.idle_watts
            terms.append(active * orders.load(d) + device.idle_watts * lasting)
    objective = total(terms)
    largest = max((abs(a) for a in objective.terms.values()), default=1.0) or 1.0
    scale = max((known or 0.0) / timing.unit / UNITS or largest, largest / _LARGEST)
    timing.model.objective = objective * (1.0 / scale)
    return scale * timing.unit


def _while_used(timing: TimingConstraints, d: int) -> Linear | None:
    """At least T where the device is in use; None if it never can be."""
    model, place = timing.model, timing.placement
    users = [on for (_, there), on in place.on.items() if there == d]
    for (_, _, hop), taken in place.hops.items():
        if d in hop:
            users.append(total(taken.values()))
    if not users:
        return None
    known = None
    if place.start is not None:
        known = any(model.hinted(user) > 0.5 for user in users)
    used = model.number(0.0, 1.0, f"used[{d}]", known)
    for user in users:
        model.at_least(used, user)
    hint = None if place.start is None else (known or 0.0) * place.start.makespan / timing.unit
    lasting = model.number(0.0, timing.horizon, f"lasting[{d}]", hint)
    model.at_least(lasting, timing.makespan + timing.horizon * (used - 1.0))
    return lasting


class LoadVariables:
    """Throughput: the rows of loads, memory and stages over a placement."""

    def __init__(self, placement: Placement, most: float) -> None:
        """`most` is a value that some best placement does not exceed, s."""
        self.model: MilpModel = placement.model
        self.placement = placement
        self.instance = placement.instance
        self.unit = (most or 1.0) / UNITS
        loads = self._loads()
        known = None
        if placement.start is not None:
            known = max((self.model.hinted(load) for load in loads.values()), default=0.0)
        self.largest = self.model.number(0.0, most / self.unit, "T", known)
        for _, load in sorted(loads.items()):
            self.model.at_most(load, self.largest)
        self.model.objective = self.largest
        self._add_memory()
        if self.instance.problem.objective.contiguous:
            self._add_stages()

    def _loads(self) -> dict[int, Linear]:
        parts: dict[int, list[Linear]] = {}
        place = self.placement
        for (e, mode), z in place.z.items():
            for r in self.instance.cores[mode.device]:
                parts.setdefault(r, []).append(self._units(place.seconds(e, mode)) * z)
        for (_, t, hop), taken in place.hops.items():
            for mode, x in taken.items():
                units = self._units(place.hop_seconds(t, hop, mode.size))
                for r in self.instance.resources(hop):
                    parts.setdefault(r, []).append(units * x)
        return {r: total(rows) for r, rows in parts.items()}

    def _units(self, seconds: float) -> float:
        """A time in units. What is longer than a known value is out, however much longer."""
        return min(seconds / self.unit, 2 * UNITS)

    def _add_memory(self) -> None:
        """A device holds its weights and all that is made on or copied to it, at all times."""
        instance, place = self.instance, self.placement
        for d, limit in enumerate(instance.capacity):
            if limit is None or not instance.memory_binds[d]:
                continue
            unit = max(1, limit) / UNITS
            held = [
                instance.weights[v] / unit * place.weights(v, d)
                for v in range(len(instance))
                if instance.weights[v] and d in instance.devices[v]
            ]
            for (e, mode), z in place.z.items():
                v = place.candidates.rows[e].task
                if mode.device == d:
                    made = sum(place.nbytes(t, mode.size) for t in instance.outputs[v])
                    made += instance.unread[v] // instance.problem.batch * mode.size
                    held.append(made / unit * z)
            for (_, t, hop), taken in place.hops.items():
                if hop[1] == d:
                    held += [place.nbytes(t, mode.size) / unit * x for mode, x in taken.items()]
            self.model.at_most(total(held), limit / unit)

    def _add_stages(self) -> None:
        """The devices form a pipeline (see the head of this file)."""
        model = self.model
        devices = sorted({d for row in self.instance.devices for d in row})
        position = self._known_positions(devices)
        ahead: dict[tuple[int, int], Linear] = {}
        for a, b in combinations(devices, 2):
            known = None if position is None else position[a] < position[b]
            ahead[a, b] = model.binary(f"ahead[{a},{b}]", known)
            ahead[b, a] = 1.0 - ahead[a, b]
        for a, b, c in permutations(devices, 3):
            if a < b and a < c:
                model.at_most(ahead[a, b] + ahead[b, c] + ahead[c, a], 2.0)
        for moves in self._staged_moves():
            pairs: dict[tuple[int, int], list[Linear]] = {}
            for (mode, k), move in moves.items():
                if mode.device != k:
                    pairs.setdefault((mode.device, k), []).append(move)
            for (a, b), rows in pairs.items():
                model.at_most(total(rows), ahead[a, b])

    def _staged_moves(self) -> Iterator[Moves]:
        """The moves between tasks that belong to stages: between all but inputs and outputs."""
        place, ends = self.placement, self.instance.terminals
        for (e, f), moves in place.moves.items():
            if not ends.intersection(place.candidates.rows[x].task for x in (e, f)):
                yield moves

    def _known_positions(self, devices: list[int]) -> dict[int, int] | None:
        """The devices along the start's pipeline; None without one."""
        if self.placement.start is None:
            return None
        before: dict[int, set[int]] = {d: set() for d in devices}
        for moves in self._staged_moves():
            for (mode, k), move in moves.items():
                if mode.device != k and self.model.hinted(move) > 0.5:
                    before[k].add(mode.device)
        order: list[int] = []
        while len(order) < len(devices):
            free = [d for d in devices if d not in order and before[d] <= set(order)]
            if not free:
                return None
            order.append(free[0])
        return {d: i for i, d in enumerate(order)}
