"""Which ways to divide this machine's cores are tried, and when another one may still gain.

On paper a plan on teams is never behind one on all cores, nor behind one on each core alone: both
are among its schedules. Where costs are off it may be (measured: ShuffleNet's small kernels, 1.69
ms on teams of two cores and 1.53 ms on each), so ways are compared by running them:

    teams          decided by the scheduler; its best single device has all cores, as a rule
    divided        parts of the cores; on two cores its best single device is one of them
    one core each  where parts are larger, and only where it may be the quickest; its best single
                   device is one core

Of a batch parts of the cores mostly take an element each, which is sooner found without teams: that
way comes first.

Only for latency: in a pipeline a core for each request is never behind, and energy and cost are
not judged by time. Where the most costs are estimates (`ESTIMATING`), for a plan in seconds, there
is one way: teams. Other costs than measured ones are for devices elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import CostModel
from tvm_hetero.cost_models.registry import ESTIMATING, measures
from tvm_hetero.cost_models.store import KernelKey
from tvm_hetero.errors import HeteroError, SolverError, UsageError
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import Partition
from tvm_hetero.platform.core_teams import NONE
from tvm_hetero.platform.division import ONE_CORE_EACH, Division, usual_divisions
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.core_rows import fixed_width_value
from tvm_hetero.solvers.registry import check_teams

# Seconds of a network below which no kernel's loop is worth a meeting of cores.
_SHORT = 5e-5
# How much longer than the plan one core each may be by prediction for it to be run.
_NEAR = 1.25

Built = tuple[Partition, Executable]
Contests = dict[KernelKey, str]


def ways_to_divide(how: PartitionOptions) -> list[Division]:
    """How this machine's cores are divided where plans can be run, the likeliest way first."""
    model = how.cost_model if isinstance(how.cost_model, str) else how.cost_model.name
    measured = measures(model) or model == ESTIMATING
    # What a model's annotations name by number are the devices that there are without teams.
    if how.objective.kind != "latency" or how.respect_annotations or not measured:
        return [Division()]
    ways = usual_divisions(Platform.detect())
    if how.objective.batch > 1:
        ways.sort(key=lambda way: way.teams != NONE)
    return ways[:1] if model == ESTIMATING else ways


def division_here(how: PartitionOptions) -> Division:
    """How one plan with these options uses this machine's cores best, by prediction.

    As teams for latency; divided else, and for a solver that knows no teams.
    """
    division = ways_to_divide(how)[0]
    try:
        check_teams(division.detect(), how.objective, how.solver)
    except SolverError:
        return Division()
    return division


def try_divisions(
    ways: Sequence[Division],
    make: Callable[[Division], Built],
    failed: Callable[[HeteroError], None],
) -> list[Built]:
    """Make each way that may be the quickest; at least one.

    Parameters
    ----------
    make : builds the model for a division.
    failed : told of a way that cannot be had, if there is another one.

    Raises
    ------
    HeteroError
        As `make`, if there is no way.
    """
    tried: list[Built] = []
    for way in ways:
        if tried and not may_gain(way, tried[0][0].schedule, tried[0][0].problem):
            continue
        try:
            tried.append(make(way))
        except UsageError:
            raise  # it is what was asked for that cannot be had, in whichever way
        except HeteroError as error:
            if way == ways[-1] and not tried:
                raise
            failed(error)
    return tried


def may_gain(way: Division, plan: Schedule, problem: Problem) -> bool:
    """Whether another way may be quicker than the first one's plan.

    Not if that could use teams and does not, and so is a plan on single cores already.
    """
    if plan.value <= _SHORT:
        return False
    if problem.platform.cliques:
        used = {execution.device for execution in plan.executions}
        if all(len(problem.platform.device(name).cores) < 2 for name in used):
            return False
    if way != ONE_CORE_EACH or problem.batch > 1:
        return True
    alone = fixed_width_value(problem, 1)
    return alone is None or alone <= _NEAR * plan.value


@contextmanager
def shared_contests(model: CostModel, decided: Contests) -> Iterator[None]:
    """Let a cost model begin with what contests of kernels it was told, and add its own to them."""
    if not isinstance(model, ProfiledCosts):
        yield
        return
    model.decided.update(decided)
    yield
    decided.update(model.winners())
