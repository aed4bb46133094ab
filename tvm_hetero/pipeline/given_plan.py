"""A model placed as a plan says that somebody gives, instead of one that is solved for.

The plan is a problem and a schedule, such as an earlier partition wrote and somebody edited. The
problem says what tasks cost, on which platform, and what is minimised, so nothing is measured and
nothing is solved; what has to hold is found out before anything is built:

    the schedule is one of the problem's, and valid    the judge (`tvm_hetero.check`)
    the problem is this model's on that platform       the module is lowered for the platform, and
                                                       its tasks are compared with the problem's
    the module says what the schedule says             `verify_placed`, as for plans of ours
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import islice

import tvm

from tvm_hetero.check.checker import check_schedule, verified
from tvm_hetero.cost_models.registry import by_name
from tvm_hetero.errors import LIST_LINE, UsageError
from tvm_hetero.passes.narrow_tasks import is_narrow
from tvm_hetero.pipeline.job import Job
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import Partition
from tvm_hetero.pipeline.steps import ANNOTATE, LOWER, run_phases
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

_MOST_VIOLATIONS = 5


def judge_given(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule with the judge's value.

    Raises
    ------
    UsageError
        If it breaks a rule; the first ones are quoted.
    """
    if schedule.problem != problem.digest:
        raise UsageError(
            f"the plan answers another problem ({schedule.problem[:12]}..., this one is "
            f"{problem.digest[:12]}...); a plan goes with the problem.json that it was made for"
        )
    violations = check_schedule(problem, schedule)
    if violations:
        lines = [
            f"rule {violation.rule}: {printable(violation.text, limit=None)}"
            for violation in islice(violations, _MOST_VIOLATIONS)
        ]
        raise UsageError(
            "the plan is not valid; 'tvm-hetero check' lists all that is wrong with it, and "
            "'tvm-hetero check --retime' gives an edited placement its times and copies"
            + "".join(LIST_LINE + line for line in lines)
        )
    return verified(problem, schedule)


def place_given(
    mod: tvm.IRModule,
    problem: Problem,
    schedule: Schedule,
    options: PartitionOptions = PartitionOptions(),
) -> Partition:
    """Place a module as a schedule says, once that is found valid and the module's.

    Parameters
    ----------
    mod : a Relax module, lowered or not; a placed one is taken apart first.
    problem, schedule : the plan. The problem's costs say which implementation of each kernel is
        built.
    options : `respect_annotations` and `plain_sums` matter here, which decide what the tasks are;
        they have to be what they were when the problem was made.

    Raises
    ------
    UsageError
        If the schedule is not valid, or the problem is not this module's.
    ModelError, PlatformError
        As `tvm_hetero.pipeline.partition.partition`.
    """
    schedule = judge_given(problem, schedule)
    how = replace(options, objective=problem.objective, probabilities={})
    # No step of these phases asks a cost model.
    job = Job(mod, problem.platform, how, by_name("analytical"))
    run_phases(job, (LOWER,))
    check_fit(job.graph, problem.graph)
    job.problem, job.schedule = problem, schedule
    run_phases(job, (ANNOTATE,))
    return Partition(job.placed, len(job.tasks.kernels), job.seconds)


def check_fit(model: TaskGraph, plan: TaskGraph) -> None:
    """Refuse a plan whose tasks, or what goes between them, are not the model's.

    Raises
    ------
    UsageError
        If they differ; the first difference is named.
    """
    misfit = _misfit(model, plan)
    if misfit:
        raise UsageError(
            f"the plan is not of this model on the plan's platform: {misfit}; expected the "
            "problem.json of a partition of this very model, with the same --shape, --value and "
            "--plain-sums"
        )


def _misfit(model: TaskGraph, plan: TaskGraph) -> str:
    """The first difference, in words; empty if there is none."""
    for one, other, text in (
        (plan, model, "the model has no task {}"),
        (model, plan, "the plan says nothing of the model's task {}"),
    ):
        missing = [task for task in one.tasks if task.id not in other.index]
        narrow = next((task.id for task in missing if is_narrow(task.op)), None)
        if narrow is not None:
            return f"its task {quote(narrow)} is in bfloat16, which a given plan cannot have yet"
        if missing:
            return text.format(quote(missing[0].id))
    for task in model.tasks:
        differing = _differing(task, plan.task(task.id))
        if differing:
            return differing
    edges, known = set(model.edges), set(plan.edges)
    for edge in (*model.edges, *plan.edges):
        if edge not in edges or edge not in known:
            whose = "model" if edge in edges else "plan"
            ends = f"{quote(edge.src)} to {quote(edge.dst)}"
            return f"only in the {whose} a tensor of {edge.bytes} bytes goes from {ends}"
    return ""


def _differing(model: Task, plan: Task) -> str:
    for each in fields(Task):
        mine, given = getattr(model, each.name), getattr(plan, each.name)
        if mine != given:
            return f"{each.name} of task {quote(model.id)} is {quote(mine)}, not {quote(given)}"
    return ""
