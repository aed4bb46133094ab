"""Least energy of a batch that comes every so often and has to be done by then.

`tvm_hetero.problem.period` says it as an energy problem. Its solvers have to order what they place;
where there is time enough the order matters little, and the steady state's program
(`tvm_hetero.planning.power.program`) says where: no resource may be busy for longer than the period
there either, so its energy is a bound, and its placement, put in order, is proven best where that
is done within the period. Where it is not, the solvers of energy are asked.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_hetero.check import check_schedule
from tvm_hetero.planning.power.plan import least_energy
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
        If the period is not above 0.
    InfeasibleError
        If there is no schedule; `proven` says whether that is sure.
    SolverError
        If none was found in the time.
    """
    timed = over_period(replace(problem, objective=Objective("energy", problem.batch)), period)
    began = options.clock()
    loose = least_energy(replace(problem, objective=Objective("throughput", problem.batch)),
                         period, replace(options, time_limit=options.time_limit / 2))  # fmt: skip
    placement = {run.task: run.device for run in loose.schedule.executions}
    elements = tuple(range(problem.batch))
    steps = [
        (task, placement.get(task) or timed.devices_for(task)[0], elements)
        for task in timed.graph.topological_order
    ]
    ordered = simulate(timed, steps)
    found = make_schedule(timed, "power", ordered.executions, ordered.copies,
                          lower_bound=loose.bound, seed=options.seed)  # fmt: skip
    if check_schedule(timed, found) == []:
        return timed, found
    left = max(1.0, options.time_limit - (options.clock() - began))
    asked = solve(timed, "auto", replace(options, time_limit=left, start=None))
    return timed, replace(asked, lower_bound=max(asked.lower_bound, loose.bound))
