"""Energy and cost of one CP-SAT model (P_d watts while busy, I_d while idle; price_d an hour).

    used_d          1 if an execution or an end of a hop is on d
    busy_d          executions on d, and hops with an end on it if it has no copy engine
    z_d >= T - H (1 - used_d)                      T if d is used, else 0
    energy = sum_d (P_d - I_d) busy_d + I_d z_d    cost = sum_d price_d / 3600 z_d
             + sum of x (e - P_d c)                of tasks with an energy e of their own, in c s

T is the end of a batch, or the period of a steady state, and H no less than it.

Of teams what lasts is counted by core (rule 7): a core i spends the dearest share of the devices in
use on it, while none of them is busy. With g_d = I_d (or price_d) over the number of cores of d

    f_i >= g_d (z_d - busy_i)                      for every device d on i, and f_i >= 0
    energy = ... + sum_d P_d busy_d + sum_i f_i    cost = ... + sum_i f_i with f_i >= g_d z_d

Cores with the same devices have one f, with as many times their share: 4 W of six cores are whole,
of one core they are not. Coefficients are in thousandths; they must be whole for a bound to be
claimed. Energies of tasks are rounded down instead, so that they leave a bound what it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from tvm_hetero.errors import SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.solvers.core.integer_scaling import Ticks

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from tvm_hetero.views.instance import Hop, Instance

THOUSANDTHS = 1000
# Energies of tasks are counted finer than that, in parts of ten, as far as sums have room.
_MOST_FINER, _MOST_GOAL = 10**6, 2**58


class TimedModel(Protocol):
    """A model in which devices are busy and last: of one batch, or of a steady state."""

    model: cp_model.CpModel
    horizon: int
    instance: Instance
    ticks: Ticks

    @property
    def x(self) -> Mapping[tuple[int, int], cp_model.IntVar]:
        """Of (part, device) whether it runs there."""

    @property
    def y(self) -> Mapping[tuple[int, Hop], cp_model.IntVar]:
        """Of (tensor, hop) whether it makes it."""

    def run(self, v: int, d: int) -> int:
        """Ticks of a part on a device."""

    def hop(self, t: int, hop: Hop) -> int:
        """Ticks of a hop."""


class Spending:
    """The terms of energy or cost until `end`; `whole` says whether all coefficients are whole."""

    def __init__(self, model: TimedModel, problem: Problem, end: cp_model.IntVar) -> None:
        self.model, self.problem, self.end = model, problem, end
        self.energy = problem.objective.kind == "energy"
        self.whole = True
        self.used: dict[int, cp_model.IntVar] = {}
        lasting = enumerate(map(self._while_used, range(len(problem.platform.devices))))
        self.lasting = {d: z for d, z in lasting if z is not None}

    def terms(self) -> list[cp_model.LinearExpr | int]:
        """All that is to be summed up."""
        return [*self._of_devices(), *self._of_cores()]

    def goal(self) -> tuple[cp_model.LinearExprT, int]:
        """All of it, energies of tasks too, and how many of its units are one of `terms`.

        Raises
        ------
        SolverError
            If energies of tasks are too large to be counted in 64 bits.
        """
        if not self.energy or not self.problem.has_energies:
            return sum(self.terms()), 1
        extra = {key: self._extra(*key) for key in self.model.x}
        most = THOUSANDTHS * sum_watts(self.problem) * self.model.horizon
        most += sum(map(abs, extra.values()))
        if most > _MOST_GOAL:
            raise SolverError(
                "cpsat: energies of tasks are too large beside their times to be counted exactly"
            )
        finer = 1
        while finer < _MOST_FINER and most * finer * 10 <= _MOST_GOAL:
            finer *= 10
        own = (math.floor(extra[key] * finer) * x for key, x in self.model.x.items())
        return finer * sum(self.terms()) + sum(own), finer

    def _extra(self, v: int, d: int) -> float:
        """What a part draws above the watts of a device, in the units of `terms`."""
        instance = self.model.instance
        task, count = instance.tasks[v], len(instance.elements[v])
        joules = self.problem.extra_joules(task, instance.names[d], count)
        return joules * THOUSANDTHS * self.model.ticks.per_second

    def idle_and_above(self) -> tuple[cp_model.LinearExpr | int, cp_model.LinearExpr | int]:
        """Thousandths of a watt with which all in use idles, and at least what is spent above that.

        Until an `end` that nothing is busy beyond, idle * end + above is in `terms`.
        """
        shared = self.problem.platform.team_cores
        idle: list[cp_model.LinearExpr] = []
        above: list[cp_model.LinearExpr | int] = []
        for d, device in enumerate(self.problem.platform.devices):
            watts = device.watts or 0.0
            if d in self.used and device.name in shared:
                above.append(self._times(watts) * self._busy(d))
            elif d in self.used:
                above.append(self._times(watts - device.idle_watts) * self._busy(d))
                idle.append(self._times(device.idle_watts) * self.used[d])
        for devices, shares in self._shares():
            dearest = self.model.model.new_int_var(0, max(shares.values()), f"idle {devices}")
            for d, share in shares.items():
                self.model.model.add(dearest >= share * self.used[d])
            idle.append(dearest)
            above.append(-max(shares.values()) * sum(map(self._busy, shares)))
        return sum(idle), sum(above)

    def _of_devices(self) -> Iterator[cp_model.LinearExpr | int]:
        """What devices spend by themselves: of teams only while they are busy."""
        shared = self.problem.platform.team_cores
        for d, device in enumerate(self.problem.platform.devices):
            lasting, watts = self.lasting.get(d), device.watts or 0.0
            if lasting is None:
                continue
            if device.name in shared:
                if self.energy:
                    yield self._times(watts) * self._busy(d)
            elif self.energy:
                yield self._times(watts - device.idle_watts) * self._busy(d)
                yield self._times(device.idle_watts) * lasting
            else:
                yield self._times(device.price or 0.0) * lasting

    def _of_cores(self) -> Iterator[cp_model.LinearExpr | int]:
        """What cores of teams spend while they idle, or cost."""
        for devices, shares in self._shares():
            busy = sum(map(self._busy, shares)) if self.energy else 0
            most = max(shares.values()) * self.model.horizon
            spent = self.model.model.new_int_var(0, most, f"cores of {devices}")
            for d, share in shares.items():
                self.model.model.add(spent >= share * (self.lasting[d] - busy))
            yield spent

    def _shares(self) -> Iterator[tuple[tuple[int, ...], dict[int, int]]]:
        """The devices on cores of teams, and of each that can be in use its share of them all."""
        platform = self.problem.platform
        for devices, count in Counter(platform.cores.values()).items():
            mine = [d for d in devices if d in self.lasting]
            if mine and platform.names[devices[0]] in platform.team_cores:
                yield devices, {d: self._times(count * self._share(d)) for d in mine}

    def _share(self, d: int) -> float:
        """What a device's figure that lasts is for each of its cores."""
        device = self.problem.platform.devices[d]
        return (device.idle_watts if self.energy else device.price or 0.0) / len(device.cores)

    def _busy(self, d: int) -> cp_model.LinearExpr | int:
        """Ticks for which a device works: executions, and hops if it has no copy engine."""
        model = self.model
        found = [model.run(v, d) * x for (v, place), x in model.x.items() if place == d]
        if not self.problem.platform.devices[d].overlap:
            found += [model.hop(t, hop) * y for (t, hop), y in model.y.items() if d in hop]
        return sum(found)

    def _while_used(self, d: int) -> cp_model.IntVar | None:
        """A variable that is at least T if the device is in use; None if it never can be."""
        users = [x for (_, place), x in self.model.x.items() if place == d]
        users += [y for (_, hop), y in self.model.y.items() if d in hop]
        if not users:
            return None
        model = self.model.model
        used = self.used[d] = model.new_bool_var(f"in use {d}")
        for user in users:
            model.add_implication(user, used)
        lasting = model.new_int_var(0, self.model.horizon, f"z{d}")
        model.add(lasting >= self.end).only_enforce_if(used)
        return lasting

    def _times(self, factor: float) -> int:
        coefficient = round(factor * THOUSANDTHS)
        self.whole = self.whole and abs(coefficient - factor * THOUSANDTHS) < 1e-9
        return coefficient


def sum_watts(problem: Problem) -> float:
    """What all devices draw at most, each of them busy or idle."""
    devices = problem.platform.devices
    return math.fsum(max(device.watts or 0.0, device.idle_watts) for device in devices)


def bound_spending(problem: Problem, ticks: Ticks, bound: float) -> float:
    """What a bound in thousandths times ticks proves of energy (J) or cost.

    Every time in it may be rounded up by the slack of `ticks`.
    """
    if problem.objective.kind == "cost":
        unit, rates = 3600.0, math.fsum(d.price or 0.0 for d in problem.platform.devices)
    else:
        unit, rates = 1.0, 2 * sum_watts(problem)
    return max(0.0, (bound / THOUSANDTHS - rates * ticks.slack) / ticks.per_second / unit)
