"""What a period of a steady state draws: what is in use idles, and takes so much above that.

Energy is linear in the period Q, above + idle Q, for whatever placement: from that follows how
short a period can be under a cap.
"""

from __future__ import annotations

from tvm_hetero.planning.power.program import TOLERANCE, as_energy
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import charge, loads
from tvm_hetero.problem.schedule import Schedule


def energy_of(problem: Problem, schedule: Schedule, period: float) -> float:
    """Energy of a period of so many seconds, J."""
    busy = loads(problem, schedule.executions, schedule.copies)
    return charge(as_energy(problem), period, busy)


def idle_and_above(problem: Problem, schedule: Schedule) -> tuple[float, float]:
    """Watts with which what is in use idles, and joules of a period above that.

    Energy is linear in the period, so two periods say both.
    """
    once, twice = (n * schedule.value for n in (1, 2))
    least = energy_of(problem, schedule, once)
    if once == 0:
        return 0.0, least
    idle = (energy_of(problem, schedule, twice) - least) / once
    return idle, least - idle * once


def shortest_period(load: float, idle: float, above: float, watts: float) -> float | None:
    """The least period (s) of at least `load` with no more than `watts` in the mean; None: none.

    A period Q takes above + idle Q joules. Devices that draw less while they are busy than while
    they idle make `above` negative: then longer periods are no help. Nor are they where what is
    left of the watts is rounding: of 1 W, and three thirds to idle, a period would be of ages.
    """
    if watts - idle > TOLERANCE * watts:
        return max(load, above / (watts - idle))
    return load if above + idle * load <= watts * load * (1 + TOLERANCE) else None
