"""Least energy of a batch that comes every so often and has to be done by then.

`tvm_hetero.problem.period` says it as an energy problem. Its solvers have to order what they place;
where there is time enough the order matters little, and the steady state's program
(`tvm_hetero.planning.power.program`) says where: no resource may be busy for longer than the period
there either, so its energy is a bound. Memory is left out of it: a steady state keeps every tensor
at all times, a batch until it was read. Where its placement can be put in order within the period
and the memory that there is, it is as good as the bound says. Where it cannot, or the program has
no answer, the solvers of energy are asked.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_hetero.check import check_schedule
from tvm_hetero.check.checker import verified
from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.power.plan import PowerPlan, least_energy
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.period import over_period
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.options import Options, make_schedule


def batch_energy(
    problem: Problem, period: float, options: Options = Options(10.0)
) -> tuple[Problem, Schedule]:
    """The energy problem of a batch every `period` seconds, done within it, and a schedule of it.

    Raises
    ------
    FormatError
        If a device has no watts.
    UsageError
        If the period is not above 0, or the problem has a latency limit that is shorter.
    InfeasibleError
        If there is no schedule; `proven` says whether that is sure.
    SolverError
        If none was found in the time.
    """
    limit = problem.objective.latency_limit
    energy = replace(problem, objective=Objective("energy", problem.batch, limit))
    timed = over_period(energy, period)
    began = options.clock()
    # A steady state knows nothing of energies of tasks.
    loose = None if problem.has_energies else _without_memory(problem, period, options)
    if loose is not None:
        found = _in_order(timed, loose.schedule, options)
        if check_schedule(timed, found) == []:
            return timed, verified(timed, replace(found, lower_bound=loose.bound))
    left = max(1.0, options.time_limit - (options.clock() - began))
    asked = solve(timed, "auto", replace(options, time_limit=left, start=None))
    bound = max(asked.lower_bound, 0.0 if loose is None else loose.bound)
    return timed, verified(timed, replace(asked, lower_bound=bound))


def _without_memory(problem: Problem, period: float, options: Options) -> PowerPlan | None:
    """The steady state of least energy on devices without limits; None if none is found.

    Raises
    ------
    InfeasibleError
        If there is none, and so no batch within the period.
    """
    platform = problem.platform
    unlimited = tuple(replace(device, memory=None) for device in platform.devices)
    steady = replace(
        problem,
        platform=replace(platform, devices=unlimited),
        objective=Objective("throughput", problem.batch),
    )
    try:
        return least_energy(steady, period, replace(options, time_limit=options.time_limit / 2))
    except (SolverError, UsageError):  # of work that takes no time, too
        return None
    except InfeasibleError as error:
        if error.proven:
            raise
        return None


def _in_order(timed: Problem, steady: Schedule, options: Options) -> Schedule:
    """A placement put in order; the clock runs where alone it can."""
    placement = {run.task: run.device for run in steady.executions}
    elements = tuple(range(timed.batch))
    steps = [
        (task, placement.get(task) or timed.devices_for(task)[0], elements)
        for task in timed.graph.topological_order
    ]
    ordered = simulate(timed, steps)
    return make_schedule(timed, "power", ordered.executions, ordered.copies, seed=options.seed)
