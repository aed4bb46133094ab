"""How long a period under a cap can be at most, and how fine its ticks have to be.

Nobody knows the best plan's period before; what is known is a plan that keeps the cap, if only a
slow one. The program looks for no longer period.
"""

from __future__ import annotations

import math

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.power.steady_energy import idle_and_above, shortest_period
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.restrict import restrict_devices
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.integer_scaling import Ticks, choose
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.cpsat.spending import sum_watts
from tvm_hetero.views.instance import Flow, Hop, Instance, instance_of

# Periods, as multiples of all work, beyond which none is looked for: of watts that are just above
# those of idling they have more ticks than there are numbers.
FAR = 1000.0
# Rounding of all durations together, as a part of their mean load: energies stay below 2^63.
_ERROR = 1e-5
# The same as a part of the longest period, where what is quickest is far quicker than that.
_COARSE = 1e-9


def longest_period(problem: Problem, watts: float) -> tuple[float, bool]:
    """A period (s, in exact times), and whether the best plan is surely no longer.

    One device alone that draws few enough watts is a plan; and if all devices idle with fewer, any
    placement is one, with a period of all work one by one and the joules of it at most.
    """
    work = all_work(instance_of(problem))
    periods = (_alone(problem, d, watts) for d in problem.platform.names)
    alone = [found for found in periods if found is not None and found <= FAR * work]
    if alone:
        return min(alone), True
    spare = watts - math.fsum(d.idle_watts for d in problem.platform.devices)
    times = sum_watts(problem) / spare if spare > 0 else math.inf
    return work * min(max(1.0, times), FAR), times <= FAR


def _alone(problem: Problem, device: str, watts: float) -> float | None:
    """The period of one device that does everything, s; None if it cannot with so few watts."""
    try:
        mine = restrict_devices(problem, [device])
        found = solve(mine, "single", Options(1.0))
    except (InfeasibleError, SolverError):
        return None
    idle, above = idle_and_above(mine, found)
    return shortest_period(found.value, idle, above, watts)


def all_work(instance: Instance) -> float:
    """All tasks at their slowest and all hops that there can be, one by one, s."""
    total = math.fsum(max(s for s in row if s < math.inf) for row in instance.seconds)
    for flow in instance.tensors:
        hops = set[Hop]().union(*_hops_of(instance, flow))
        total += math.fsum(instance.hop_seconds(hop, flow.nbytes) for hop in hops)
    return total


def _hops_of(instance: Instance, flow: Flow) -> list[set[Hop]]:
    """For each device that may make a tensor all hops that it can be made to take from there."""
    everywhere = range(len(instance.names))
    return [
        {hop for k in everywhere for hop in instance.route(j, k, flow.nbytes) or ()}
        for j in instance.devices[flow.maker]
    ]


def choose_ticks(problem: Problem, longest: float, *, coarse: bool = False) -> Ticks:
    """Ticks for sums of costs and copies in periods of at most `longest` (s, above 0).

    What takes longer is in none of these, so that its rounding does not count. With `coarse` they
    are small beside the longest period, and else beside what the tasks take at their quickest.
    """
    instance = instance_of(problem)
    durations = [s for row in instance.seconds for s in row if s < math.inf]
    count = len(instance)
    for flow in instance.tensors:
        found = _hops_of(instance, flow)
        hops = set[Hop]().union(*found)
        durations += [instance.hop_seconds(hop, flow.nbytes) for hop in sorted(hops)]
        count += max(map(len, found))
    least = math.fsum(map(min, instance.seconds)) / len(instance.names)
    size, error = least or min(all_work(instance), longest), _ERROR
    if coarse:
        size, error = longest, _COARSE
    # Costs may be whole in few ticks, and the period then is not: a tick has to be small beside it.
    finest = 1 / (error * size)
    return choose(durations, count, size, longest * (1 + 1e-6), error=error, least=finest)
