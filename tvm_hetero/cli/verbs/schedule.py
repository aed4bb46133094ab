"""``tvm-hetero schedule``: solve a scheduling problem. TVM is not needed and not imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.errors import UsageError
from tvm_hetero.platform.host import cores_at_once

if TYPE_CHECKING:
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule
    from tvm_hetero.solvers.robust.solver import RobustRequest

# Seconds that a task takes to be written and drawn.
_WRITTEN = 20e-6
# Seconds that a plainer plan may take to be looked for, and at most a tenth of the limit.
_PLAIN = 2.0


def schedule(
    problem: options.ProblemFile,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="SCHEDULE.json", help="The file to write."),
    ] = None,
    solver: options.Solver = "auto",
    time_limit: options.TimeLimit = 60.0,
    gap: options.Gap = 0.0,
    seed: options.Seed = 0,
    start: Annotated[
        Path | None,
        typer.Option("--start", metavar="SCHEDULE.json", help="A schedule to begin from."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Cores for independent parts. [default: all that are ours]"
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", help="Of solver milp: auto, highs, scip or gurobi.")
    ] = "auto",
    symmetry: Annotated[
        str,
        typer.Option(
            "--symmetry", help="What orders equal devices and nodes: time, tasks, batches, none."
        ),
    ] = "time",
    robust: Annotated[
        float | None,
        typer.Option(
            "--robust", metavar="SHARE", help="Time the plan with costs off by up to 0.1 (10 %)."
        ),
    ] = None,
    robust_goal: Annotated[
        str,
        typer.Option("--robust-goal", help="What to minimise over such costs: mean, worst, none."),
    ] = "none",
    robust_samples: Annotated[
        int, typer.Option("--robust-samples", min=1, help="Samples of such costs.")
    ] = 100,
    as_solved: Annotated[
        bool,
        typer.Option(
            "--as-solved",
            help="Of throughput: keep the solver's plan though a plainer one would run as well.",
        ),
    ] = False,
    json_output: options.AsJson = False,
) -> None:
    """Solve a scheduling problem (without TVM).

    For throughput, 'partition' and this verb take a plainer plan where devices pay less for it.
    """
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.report.schedule.text import schedule_text
    from tvm_hetero.solvers import Deadline
    from tvm_hetero.util.few_collections import few_collections
    from tvm_hetero.util.untrusted_names import printable

    # Reading, checking and writing are within the limit.
    ends = Deadline.after(time_limit)
    options.check_writable(output)
    request = _request(robust, robust_goal, robust_samples)
    steps = Steps(quiet=json_output)
    with few_collections(), steps.step("Load problem") as step:
        loaded = Problem.load(problem)
        step.note = f"{len(loaded.tasks)} tasks, {len(loaded.platform.devices)} devices"
    begin = _start(start, loaded)
    with steps.step("Solve") as step:
        from tvm_hetero.solvers import Options, solve
        from tvm_hetero.solvers.throughput.fewer_transfers import prefer_fewer_transfers

        chosen = Options(
            time_limit=time_limit,
            gap=gap,
            seed=seed,
            start=begin,
            workers=workers or cores_at_once(),
            backend=backend,
            symmetry=symmetry,
            ends=ends.sooner(_aside(loaded, time_limit, plain=not as_solved)),
            tell=step.tell,
        )
        if request is None:
            answer = solve(loaded, solver, chosen)
            answer = answer if as_solved else prefer_fewer_transfers(loaded, answer, ends)
        else:
            from tvm_hetero.solvers.robust.solver import solve as solve_robust

            answer = solve_robust(loaded, request, solver, chosen)
        step.note = answer.solver
    if output is not None:
        answer.save(output)
    if json_output:
        typer.echo(answer.dumps(), nl=False)
        return
    steps.say()
    steps.say(schedule_text(answer, loaded, chart_width()))
    if output is not None:
        steps.say(f"wrote {printable(output, limit=None)}", "green")


def _aside(problem: Problem, time_limit: float, *, plain: bool) -> float:
    """Seconds of the limit that are kept for what comes after solving."""
    written = min(_WRITTEN * len(problem.tasks), 0.2 * time_limit)
    plain = plain and problem.objective.kind == "throughput"
    return written + (min(_PLAIN, 0.1 * time_limit) if plain else 0.0)


def _start(path: Path | None, problem: Problem) -> Schedule | None:
    """The schedule to begin from.

    Raises
    ------
    UsageError
        If it is an answer to another problem, or breaks a rule.
    """
    from tvm_hetero.check.checker import check_schedule
    from tvm_hetero.problem.schedule import Schedule

    if path is None:
        return None
    given = Schedule.load(path)
    if given.problem != problem.digest:
        raise UsageError(
            f"--start {path}: the schedule answers another problem "
            f"({given.problem[:12]}..., this one is {problem.digest[:12]}...)"
        )
    violations = check_schedule(problem, given)
    if violations:
        raise UsageError(
            f"--start {path}: the schedule is not valid: rule {violations[0].rule}: "
            f"{violations[0].text}; 'tvm-hetero check' lists everything"
        )
    return given


def _request(share: float | None, goal: str, samples: int) -> RobustRequest | None:
    """What is asked about costs that are off; None if nothing is.

    Raises
    ------
    UsageError
        If a goal is unknown or has no share beside it, or a number makes no sense.
    """
    if share is None and goal == "none":
        return None  # nothing is asked, and nothing need be imported
    from tvm_hetero.solvers.robust.local_search import GOALS
    from tvm_hetero.solvers.robust.solver import RobustRequest

    if goal not in {"none", *GOALS}:
        raise UsageError(f"--robust-goal: expected mean, worst or none, got {goal!r}")
    if share is None:
        raise UsageError(f"--robust-goal {goal}: say by how much costs are off, as --robust 0.1")
    return RobustRequest(share, next((known for known in GOALS if known == goal), None), samples)
