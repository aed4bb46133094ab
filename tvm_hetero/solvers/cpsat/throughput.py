"""The exact placement for throughput, with CP-SAT.

The model is in `placement_model`, its rows for contiguous stages in `pipeline_model`.

As for one batch, a bound is claimed for one element only: shares of a batch on several devices
are not in this model.
"""

from __future__ import annotations

import math

from tvm_hetero.bounds.core.time_is_up import Late, TimeIsUp, check_late
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.solvers.core.integer_scaling import Ticks, choose
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.cpsat.pipeline_model import PipelineModel
from tvm_hetero.solvers.cpsat.placement_model import PlacementModel
from tvm_hetero.solvers.cpsat.symmetry_breaking import (
    add_orderings,
    rename_devices,
    symmetry_of,
    weight,
)
from tvm_hetero.solvers.timing.steady_period import placement_of, write_period
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Instance, instance_of


def solve(
    problem: Problem, options: Options, start: Schedule | None, budget: CpsatBudget
) -> Schedule:
    """Find the placement with the smallest largest load, from `start` if there is one.

    Raises
    ------
    InfeasibleError
        If no placement fits (proven).
    SolverError
        If the time ran out before the first placement.
    """
    instance = instance_of(problem)
    most = math.inf if start is None else start.value
    try:
        ticks = _resolution(instance, most, budget.late)
        model = _model(instance, ticks, most, budget.late)
    except TimeIsUp:
        return _known(problem, options, start, 0.0)
    symmetry = symmetry_of(instance, options.symmetry)
    weigh = weight(instance, options.symmetry, lambda v, d: ticks.ticks(instance.seconds[v][d]))
    add_orderings(model.model, model.x, symmetry, weigh)
    known = placement_of(instance, start)
    if known is not None:
        model.hint(rename_devices(symmetry, weigh, known))
    outcome = run(model.model, options, budget, linear=2)
    bound = ticks.bound(outcome.bound) if problem.batch == 1 else 0.0
    if outcome.found:
        placement = model.read(outcome.solver)
        executions, copies = write_period(instance, placement)
        found = make_schedule(
            problem, "cpsat", executions, copies, lower_bound=bound, seed=options.seed
        )
        if start is None or found.value < start.value:
            return found
    if start is None and outcome.infeasible:
        what = "placement" if problem.batch == 1 else "placement of whole batches"
        raise InfeasibleError(
            f"cpsat proved that no {what} keeps within memory and links (in steady state every "
            "tensor made on or copied to a device counts); add memory or links",
            proven=problem.batch == 1,
        )
    return _known(problem, options, start, bound)


def _known(problem: Problem, options: Options, start: Schedule | None, bound: float) -> Schedule:
    """The start, with what is proven.

    Raises
    ------
    SolverError
        If there is none.
    """
    if start is None:
        limit = format_seconds(options.time_limit)
        raise SolverError(
            f"cpsat found no placement within its time limit of {limit}; give it more time"
        )
    return make_schedule(
        problem, "cpsat", start.executions, start.copies, lower_bound=bound, seed=options.seed
    )


def _model(instance: Instance, ticks: Ticks, most: float, late: Late) -> PlacementModel:
    """The model of free placement, or that of contiguous stages where they are asked for."""
    if instance.problem.objective.contiguous:
        return PipelineModel(instance, ticks, most, late)
    return PlacementModel(instance, ticks, most, late)


def _resolution(instance: Instance, most: float, late: Late) -> Ticks:
    """Ticks for loads: as many activities as there are tasks and hops, and the mean load."""
    devices = range(len(instance.names))
    least = [min(s for s in row if s < math.inf) for row in instance.seconds]
    durations = [s for row in instance.seconds for s in row if s < math.inf]
    count = len(instance)
    for flow in instance.tensors:
        check_late(late)
        routes = [
            instance.route(j, k, flow.nbytes) or ()
            for j in instance.devices[flow.maker]
            for k in devices
        ]
        hops = {hop for route in routes for hop in route}
        durations += [instance.hop_seconds(hop, flow.nbytes) for hop in sorted(hops)]
        count += len(hops)
    return choose(durations, count, math.fsum(least) / len(devices), most)
