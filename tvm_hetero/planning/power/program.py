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
the placement model may make. Where there is one, hops are only what some reader asks for:

    y[t, a, b]  <=  sum of x[u(t), j] x[w, k] over the j ~> k that have the hop   -> `_ask_for_hops`

Rounding. Durations are rounded up to ticks, a load by at most s seconds in all. A solution of the
problem is one of the program after its loads grew by s, so the bounds are

    rate     E >= E_program - 2 R s, R the sum of all watts (`bound_spending`); T may be s above P,
             which is looked at afterwards in exact times: what a resource cannot do within P it is
             not given again (`forbid_overload`), and bounds hold of what is left
    cap      Q (c - I) >= A for a solution that uses devices of I idle watts and A joules above
             idling; with A + R s joules it takes Q (1 + R s / A), so Q >= (Q_program - s) / (1 +
             R s / A); A is no less than what tasks take at their cheapest      -> `stretch`

Q is looked for up to `longest`. Plans of longer periods are no better than what is found, so that
bounds of Q hold of them as well. That there is none at all is proven only if the best has room.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from tvm_hetero.errors import UsageError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.solvers.core.integer_scaling import Ticks
from tvm_hetero.solvers.cpsat.placement_model import PlacementModel
from tvm_hetero.solvers.cpsat.spending import THOUSANDTHS, Spending, sum_watts
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Hop, Instance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ortools.sat.python import cp_model


# How far a sum of times may be above a given one, as the judge takes it.
TOLERANCE = 1e-9
# Thousandths of a watt times ticks: beyond it sums of energies have no whole numbers.
_MOST_ENERGY = 2**60
# Rounding noise of a float product, ticks.
_NOISE = 1e-6


class PowerModel(PlacementModel):
    """Placements with a period, and energy over it. `longest` (s) is the longest period.

    Attributes
    ----------
    clipped : whether periods of that length leave no whole numbers, so that only shorter ones are
        looked at.
    """

    def __init__(self, instance: Instance, ticks: Ticks, longest: float) -> None:
        problem = as_energy(instance.problem)
        most = math.floor(_MOST_ENERGY / (THOUSANDTHS * max(1.0, sum_watts(problem))))
        longest = min(longest, 2 * most / ticks.per_second)
        super().__init__(instance, ticks, longest)
        wanted = math.ceil(longest * ticks.per_second) + 1
        self.horizon = self._whole_horizon(min(wanted, most))
        self.clipped = self.horizon < wanted
        self.model.add(self.largest <= self._most_load(self.horizon))
        if any(_above_idle(problem, name) < 0 for name in problem.platform.names):
            self._ask_for_hops()
        self.period = self.model.new_int_var(0, self.horizon, "Q")
        self.spending = Spending(self, problem, self.period)
        self.energy = sum(self.spending.terms())

    def _ask_for_hops(self) -> None:
        """No hop is made that no reader asks for."""
        instance, model = self.instance, self.model
        asking: dict[tuple[int, Hop], list[cp_model.IntVar]] = {key: [] for key in self.y}
        for t, flow in enumerate(instance.tensors):
            for j, k in product(instance.devices[flow.maker], range(len(instance.names))):
                readers = [self.x[w, k] for w in flow.readers if (w, k) in self.x]
                route = instance.route(j, k, flow.nbytes)
                if not readers or not route:
                    continue
                asked = model.new_bool_var(f"asked{t},{j},{k}")
                model.add_implication(asked, self.x[flow.maker, j])
                model.add_bool_or(~asked, *readers)
                for hop in route:
                    asking[t, hop].append(asked)
        for key, made in self.y.items():
            model.add_bool_or(~made, *asking[key])

    def _most_load(self, horizon: int) -> int:
        """A load (ticks) that is no longer than the horizon but by rounding."""
        return horizon + math.ceil(self.ticks.slack + TOLERANCE * horizon) + 1

    def _whole_horizon(self, horizon: int) -> int:
        """At most that many ticks, such that energies are whole numbers."""
        watts = [max(d.watts or 0.0, d.idle_watts) for d in self.instance.problem.platform.devices]
        terms = [(self._ticks_of(v, d), watts[d]) for v, d in self.x]
        terms += [(self._ticks_on(t, hop), watts[d]) for t, hop in self.y for d in hop]
        idle = 4.0 * (math.fsum(watts) + 1.0)
        while horizon > 1:
            load = self._most_load(horizon) + 1
            work = math.fsum(each * min(ticks, load) for ticks, each in terms)
            if THOUSANDTHS * (work + idle * horizon) <= _MOST_ENERGY:
                break
            horizon //= 2
        return horizon

    def limit_watts(self, thousandths: int) -> None:
        """No more than so many in the mean, and as short a period as that allows."""
        self.model.add(self.period >= self.largest)
        self._rule_out_idlers(thousandths)
        self.model.add(self.energy <= thousandths * self.period)
        self.model.minimize(self.period)

    def _rule_out_idlers(self, thousandths: int) -> None:
        """What idles with so many takes no more than that.

        It follows from the sum, from which CP-SAT concludes it tick by tick: with a device that
        idles with all of the watts it raised the period for minutes. (A product of the period and
        the watts that are left says more, and presolve of OR-Tools 9.15 calls some of them
        infeasible that are not.)
        """
        idle, above = self.spending.idle_and_above()
        full = self.model.new_bool_var("idles with all")
        self.model.add(idle <= thousandths - 1).only_enforce_if(~full)
        self.model.add(above <= 0).only_enforce_if(full)

    def fix_period(self, seconds: float, slack: float) -> None:
        """A period of so many seconds, loads `slack` ticks longer at most, and least energy.

        Raises
        ------
        UsageError
            If it is too long beside the work in it.
        """
        exact = seconds * self.ticks.per_second
        if self.clipped:
            raise UsageError(
                f"a period of {format_seconds(seconds)} is too long beside the work in it; "
                f"expected at most {format_seconds(self.horizon / self.ticks.per_second)}, after "
                "which devices only idle"
            )
        self.model.add(self.period == math.floor(exact + _NOISE))
        # Of the exact period: a tick that it begins is not lost.
        self.model.add(self.largest <= math.floor(exact * (1 + TOLERANCE) + slack + _NOISE))
        self.model.minimize(self.energy)

    def forbid_overload(self, placement: Sequence[int], most: float) -> None:
        """No resource may be given again what takes it longer than `most` s in exact times."""
        instance = self.instance
        rows: dict[int, list[tuple[float, cp_model.IntVar]]] = {}

        def add(resources: Iterable[int], seconds: float, literal: cp_model.IntVar) -> None:
            for resource in resources:
                rows.setdefault(resource, []).append((seconds, literal))

        for v, d in enumerate(placement):
            add(instance.cores[d], instance.seconds[v][d], self.x[v, d])
        for t, flow in enumerate(instance.tensors):
            for hop in instance.hops(t, placement):
                seconds = instance.hop_seconds(hop, flow.nbytes)
                add(instance.resources(hop), seconds, self.y[t, hop])
        for _, row in sorted(rows.items()):
            if math.fsum(seconds for seconds, _ in row) > most:
                self.model.add_bool_or(~literal for seconds, literal in row if seconds > 0)

    def run(self, v: int, d: int) -> int:
        """Ticks of a task; of one that no period has room for a few more than that."""
        return min(self._ticks_of(v, d), self._most_load(self.horizon) + 1)

    def hop(self, t: int, hop: Hop) -> int:
        """The same of a hop."""
        return min(self._ticks_on(t, hop), self._most_load(self.horizon) + 1)

    def _ticks_of(self, v: int, d: int) -> int:
        return self.ticks.ticks(self.instance.seconds[v][d])

    def _ticks_on(self, t: int, hop: Hop) -> int:
        return self.ticks.ticks(self.instance.hop_seconds(hop, self.instance.tensors[t].nbytes))


def longest_whole(instance: Instance, ticks: Ticks, seconds: float) -> float:
    """The longest period (s) up to one that leaves whole numbers for energies."""
    model = PowerModel(instance, ticks, seconds)
    # A model of that many ticks has one more of them.
    return max(0, model.horizon - 2) / ticks.per_second if model.clipped else seconds


def as_energy(problem: Problem) -> Problem:
    """The problem with energy as its objective, which needs watts of every device."""
    return replace(problem, objective=Objective("energy", problem.batch))


def bound_period(problem: Problem, ticks: Ticks, bound: float) -> float:
    """What a bound of the program (ticks) proves of the period, s."""
    # The period is a whole number of ticks.
    return max(0.0, ticks.bound(bound - 1)) / stretch(problem, ticks)


def stretch(problem: Problem, ticks: Ticks) -> float:
    """By what factor rounding may lengthen the best plan's period under a cap; inf if unknown.

    It is known where longer loads take more joules, and every plan takes some.
    """
    if any(_above_idle(problem, name) < 0 for name in problem.platform.names):
        return math.inf
    least = math.fsum(
        min(_above_idle(problem, d) * cost.seconds(problem.batch) for d, cost in row.items())
        for row in problem.costs.values()
    )
    slack = ticks.slack / ticks.per_second
    return 1 + sum_watts(problem) * slack / least if least > 0 else math.inf


def _above_idle(problem: Problem, name: str) -> float:
    """Watts that a device takes more than what its place idles with, at least."""
    platform = problem.platform
    device = platform.device(name)
    idle = device.idle_watts
    cores = platform.team_cores.get(name, ())
    if cores:
        on = ([platform.devices[d] for d in platform.cores[core]] for core in cores)
        idle = math.fsum(max(d.idle_watts / len(d.cores) for d in row) for row in on)
    return (device.watts or 0.0) - idle
