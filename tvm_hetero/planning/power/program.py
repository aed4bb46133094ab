"""The program of a steady state with watts: placements, their loads, and what they draw.

On the placement model of throughput (`solvers.cpsat.placement_model`: x places tasks, y are hops,
every load is at most T) there are besides

    Q        the period: a batch begins every Q, which may be longer than T
    E(Q)     energy of a period, by rule 7 with Q as its end          (`solvers.cpsat.spending`)

    cap      E(Q) <= watts Q,  Q >= T             minimise Q       -> `limit_watts`
    rate     T <= Q = P                           minimise E(P)    -> `fix_period`

Frequency levels are teams on one core, so that x chooses them; that a device idles for the rest of
the period is in E, and with it whether it is better to race or to be slow.

A device that draws less while it is busy than while it idles would gain by copies in vain, which
the program may make: its bounds hold then as well, but its answers may be above them.

Rounding. Durations are rounded up to ticks, a load by at most s seconds in all. A solution of the
problem is one of the program after its loads grew by s, so the bounds are

    rate     E >= E_program - 2 R s, R the sum of all watts; T may be s above P, which is looked
             at afterwards in exact times
    cap      Q (c - I) >= A for a solution that uses devices of I idle watts and A joules above
             idling; with A + R s joules it takes Q (1 + R s / A), so Q >= (Q_program - s) / (1 +
             R s / A); A is no less than what tasks take at their cheapest       -> `bound_period`
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tvm_hetero.errors import UsageError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.solvers.core.integer_scaling import Ticks
from tvm_hetero.solvers.cpsat.placement_model import PlacementModel
from tvm_hetero.solvers.cpsat.spending import THOUSANDTHS, Spending
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Instance

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


# Thousandths of a watt times ticks: beyond it sums of energies have no whole numbers.
_MOST_ENERGY = 2**60


class PowerModel(PlacementModel):
    """Placements with a period, and energy over it. `longest` (s) is the longest period.

    Raises
    ------
    UsageError
        If the period is too long beside the work in it.
    """

    def __init__(self, instance: Instance, ticks: Ticks, longest: float) -> None:
        super().__init__(instance, ticks, math.inf)
        most = _MOST_ENERGY / (THOUSANDTHS * max(1.0, _all_watts(instance.problem)))
        if longest * ticks.per_second > most:
            raise UsageError(
                f"a period of {format_seconds(longest)} is too long beside the work in it; "
                f"expected at most {format_seconds(most / ticks.per_second)}, after which devices "
                "only idle"
            )
        self.horizon = math.ceil(longest * ticks.per_second) + 1
        self.period = self.model.new_int_var(0, self.horizon, "Q")
        problem = as_energy(instance.problem)
        self.spending = Spending(self, problem)
        self.energy = sum(self.spending.terms())

    def limit_watts(self, watts: float) -> None:
        """No more than so many watts in the mean, and as short a period as that allows."""
        self.model.add(self.period >= self.largest)
        limit = math.ceil(watts * THOUSANDTHS - 1e-6)
        if not self.spending.whole:  # coefficients are half a thousandth off each
            limit += 2 * len(self.instance.names)
        self.model.add(self.energy <= limit * self.period)
        self.model.minimize(self.period)

    def fix_period(self, seconds: float, slack: float) -> None:
        """A period of so many seconds, loads `slack` ticks longer at most, and least energy."""
        whole = math.floor(seconds * self.ticks.per_second + 1e-6)
        self.model.add(self.period == whole)
        self.model.add(self.largest <= math.floor(whole + slack))
        self.model.minimize(self.energy)

    def busy(self, d: int) -> cp_model.LinearExpr | int:
        """Ticks for which a device works: its tasks, and hops if it has no copy engine."""
        instance = self.instance
        found = [
            self.ticks.ticks(instance.seconds[v][d]) * x for (v, e), x in self.x.items() if e == d
        ]
        if not instance.problem.platform.devices[d].overlap:
            for (t, hop), y in self.y.items():
                if d in hop:
                    seconds = instance.hop_seconds(hop, instance.tensors[t].nbytes)
                    found.append(self.ticks.ticks(seconds) * y)
        return sum(found)

    def worked(self, d: int) -> cp_model.LinearExpr | int:
        """The same of a team."""
        return self.busy(d)

    def while_used(self, d: int) -> cp_model.IntVar | None:
        """A variable that is at least Q if the device is in use; None if it never can be."""
        users = [x for (_, place), x in self.x.items() if place == d]
        users += [y for (_, hop), y in self.y.items() if d in hop]
        if not users:
            return None
        used = self.model.new_bool_var(f"in use {d}")
        for user in users:
            self.model.add_implication(user, used)
        lasting = self.model.new_int_var(0, self.horizon, f"z{d}")
        self.model.add(lasting >= self.period).only_enforce_if(used)
        return lasting


def as_energy(problem: Problem) -> Problem:
    """The problem with energy as its objective, which needs watts of every device."""
    return replace(problem, objective=Objective("energy", problem.batch))


def bound_energy(problem: Problem, ticks: Ticks, bound: float) -> float:
    """What a bound of the program (thousandths of a watt times ticks) proves, J."""
    rates = _all_watts(problem) * 2
    return max(0.0, (bound / THOUSANDTHS - rates * ticks.slack) / ticks.per_second)


def bound_period(problem: Problem, ticks: Ticks, bound: float) -> float:
    """What a bound of the program (ticks) proves of the period, s."""
    slack = ticks.slack / ticks.per_second
    if any((d.watts or 0.0) < d.idle_watts for d in problem.platform.devices):
        return 0.0  # longer loads may then take fewer joules
    least = math.fsum(
        min(_above_idle(problem, d) * cost.seconds(1) for d, cost in row.items())
        for row in problem.costs.values()
    )
    if least <= 0:
        return 0.0
    # The period is a whole number of ticks.
    return max(0.0, ticks.bound(bound - 1)) / (1 + _all_watts(problem) * slack / least)


def _all_watts(problem: Problem) -> float:
    devices = problem.platform.devices
    return math.fsum(max(device.watts or 0.0, device.idle_watts) for device in devices)


def _above_idle(problem: Problem, name: str) -> float:
    """Watts that a device takes more than what its place idles with, at least; none below 0."""
    platform = problem.platform
    device = platform.device(name)
    idle = device.idle_watts
    cores = platform.team_cores.get(name, ())
    if cores:
        on = ([platform.devices[d] for d in platform.cores[core]] for core in cores)
        idle = math.fsum(max(d.idle_watts / len(d.cores) for d in row) for row in on)
    return max(0.0, (device.watts or 0.0) - idle)
