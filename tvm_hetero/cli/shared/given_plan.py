"""``partition --plan``: a plan from files, judged, and built as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tvm_hetero.cli.shared.schedule_files import matching_problem, problem_beside
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.artifact.executable import Executable
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule

PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="SCHEDULE.json",
        help="Build this plan of the model (an artifact's schedule.json, edited or not) instead of "
        "measuring and solving.",
    ),
]
PlanProblemOption = Annotated[
    Path | None,
    typer.Option(
        "--problem",
        metavar="PROBLEM.json",
        help="The problem that --plan answers. [default: looked for beside it]",
    ),
]

# What a plan settles, by the names of the verb's parameters.
_SETTLED = (
    *("split", "teams", "objective", "batch", "solver", "time_limit", "gap", "seed", "cost_model"),
    *("probability", "no_measure", "quick", "build", "cluster", "length", "chunk", "groups"),
    *("shards", "weights", "cache", "precision", "accuracy", "calibration"),
)


class GivenPlan(NamedTuple):
    """A schedule that was found valid, and the problem that it answers."""

    problem: Problem
    schedule: Schedule


def read_given_plan(path: Path, problem_file: Path | None, platform: Path | None) -> GivenPlan:
    """Read a plan and its problem, and have it judged.

    Raises
    ------
    UsageError
        If the problem is not found, is another one, is of another platform than `platform`, or the
        plan is not valid.
    """
    from tvm_hetero.pipeline.given_plan import judge_given
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule

    schedule = Schedule.load(path)
    named = None if problem_file is None else Problem.load(problem_file)
    problem = matching_problem(schedule, named) or problem_beside(schedule, path)
    if problem is None:
        raise UsageError(
            f"--plan {path}: the problem that it answers ({schedule.problem[:12]}...) is not "
            "beside it; give it with --problem (an artifact's problem.json)"
        )
    if platform is not None and Platform.load(platform).to_dict() != problem.platform.to_dict():
        raise UsageError(
            f"--platform {platform} is not the platform that the plan was made for, which its "
            "problem.json has; leave --platform out"
        )
    return GivenPlan(problem, judge_given(problem, schedule))


def refuse_beside_plan(context: typer.Context) -> None:
    """Refuse options that ask for another plan than the given one.

    Raises
    ------
    UsageError
        If one of them is there.
    """
    options = {each.name: each.opts[-1] for each in context.command.params}
    for name in _given(context, _SETTLED):
        raise UsageError(
            f"{options[name]} says how a plan is made, and --plan gives one, with its platform, "
            "objective and costs; leave one of them out"
        )


def _given(context: typer.Context, names: Sequence[str]) -> list[str]:
    """Which of these parameters stand on the command line."""
    found = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in found.items() if source and source.name == "COMMANDLINE"]


def build_given(
    steps: Steps, module: tvm.IRModule, given: GivenPlan, how: PartitionOptions
) -> tuple[Partition, Executable]:
    """Steps: place the model as the plan says, and compile it. The plan is what runs."""
    from tvm_hetero.artifact.executable import PARTITION
    from tvm_hetero.cli.shared.partition_steps import compile_executable, refuse_without_linker
    from tvm_hetero.executor.choose_variant import Decision, with_decision
    from tvm_hetero.pipeline.given_plan import place_given

    refuse_without_linker(given.problem.platform)
    with steps.live("Partition", of=given.problem.name):
        result = place_given(module, given.problem, given.schedule, how)
    for title, seconds in result.seconds.items():
        steps.record(title.capitalize(), seconds)
    executable = compile_executable(steps, result, measure=False)
    decision = Decision(PARTITION, given.problem.objective.kind, reason="the plan was given")
    steps.say(decision.text())
    return result, with_decision(executable, decision)
