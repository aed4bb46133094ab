"""``tvm-hetero schedule``: solve a scheduling problem. TVM is not needed and not imported."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps, chart_width, complain
from tvm_hetero.cli.shared.interrupt import INTERRUPTED, interruptible, show_cursor
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule
    from tvm_hetero.solvers import Deadline, Options
    from tvm_hetero.solvers.robust.solver import RobustRequest

# Seconds that a task takes to be written and drawn.
_WRITTEN = 40e-6
# Of what a limit may be overrun by (a second, or a tenth), what passes before it is enforced.
_OVERRUN = 0.5
# Seconds for a bound of the best so far, where none is known.
_MOMENT = 0.25
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
    from tvm_hetero.platform.host import cores_at_once
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.solvers import BestSoFar, Deadline, Options
    from tvm_hetero.util.few_collections import few_collections

    # Reading, checking and writing are within the limit.
    ends = Deadline.after(time_limit)
    options.check_writable(output)
    request = _request(robust, robust_goal, robust_samples)
    steps = Steps(quiet=json_output)
    with few_collections(), steps.step("Load problem", of=problem) as step:
        loaded = Problem.load(problem)
        step.note = f"{len(loaded.tasks)} tasks, {len(loaded.platform.devices)} devices"
    begin = _start(start, loaded)
    chosen = Options(
        time_limit=time_limit,
        gap=gap,
        seed=seed,
        start=begin,
        workers=workers or cores_at_once(),
        backend=backend,
        symmetry=symmetry,
        ends=ends.sooner(_aside(loaded, time_limit, plain=not as_solved)),
        best=BestSoFar(loaded),
    )
    result = _Destination(loaded, output, steps, as_json=json_output)
    early = partial(_give_early, result, solver, chosen, time.monotonic())
    with interruptible(early, _latest(loaded, ends, time_limit)) as interruption:
        with steps.step("Solve", time_limit) as step:
            chosen = replace(chosen, tell=step.tell)
            answer = _solve(loaded, request, solver, chosen, ends, as_solved=as_solved)
            step.note = answer.solver
    result.give(answer)
    if interruption.happened:
        complain("interrupted", _known(answer), colour="yellow", between="; ")
        raise typer.Exit(INTERRUPTED)


def _solve(
    problem: Problem,
    request: RobustRequest | None,
    solver: str,
    chosen: Options,
    ends: Deadline,
    *,
    as_solved: bool,
) -> Schedule:
    """The answer of the solver, or of `robust` where that is asked."""
    from tvm_hetero.solvers import solve
    from tvm_hetero.solvers.throughput.fewer_transfers import prefer_fewer_transfers

    if request is None:
        answer = solve(problem, solver, chosen)
        return answer if as_solved else prefer_fewer_transfers(problem, answer, ends)
    from tvm_hetero.solvers.robust.solver import solve as solve_robust

    return solve_robust(problem, request, solver, chosen)


@dataclass(frozen=True)
class _Destination:
    """Where an answer goes."""

    problem: Problem
    output: Path | None
    steps: Steps
    as_json: bool

    def give(self, answer: Schedule) -> None:
        """Write it and show it."""
        from tvm_hetero.report.schedule.text import schedule_text
        from tvm_hetero.util.untrusted_names import printable

        if self.output is not None:
            answer.save(self.output)
        if self.as_json:
            typer.echo(answer.dumps(), nl=False)
            return
        self.steps.say()
        self.steps.say(schedule_text(answer, self.problem, chart_width()))
        if self.output is not None:
            self.steps.say(f"wrote {printable(self.output, limit=None)}", "green")


def _latest(problem: Problem, ends: Deadline, time_limit: float) -> float:
    """The moment after which the solver is waited for no longer, so that the limit is kept."""
    return ends.at + _OVERRUN * max(1.0, 0.1 * time_limit) - _writing(problem, time_limit)


def _writing(problem: Problem, time_limit: float) -> float:
    """Seconds that an answer takes to be written and drawn."""
    return min(_WRITTEN * len(problem.tasks), 0.2 * time_limit)


def _give_early(
    result: _Destination, solver: str, chosen: Options, began: float, interrupted: bool
) -> bool:
    """Give the best so far in place of a solver that does not end; False if there is none."""
    if cursor := show_cursor():
        typer.echo(cursor)
    assert chosen.best is not None, "it was made for this"
    answer = chosen.best.answer(time.monotonic() - began, chosen.seed)
    if answer is not None and answer.lower_bound <= 0:
        chosen.best.offer(answer, _quick_bound(result.problem, answer.value))
        answer = chosen.best.answer(time.monotonic() - began, chosen.seed)
    if answer is None:
        if interrupted:
            complain("interrupted", "nothing was written", colour="yellow", between="; ")
        return False
    result.give(answer)
    if interrupted:
        complain("interrupted", _known(answer), colour="yellow", between="; ")
    else:
        complain(
            "warning",
            f"{solver} did not end when the time limit was up; {_known(answer)}",
            colour="yellow",
        )
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return True


def _quick_bound(problem: Problem, value: float) -> float:
    """What the first rung of the bounds proves, or 0 where that takes longer than a moment."""
    from tvm_hetero.bounds import lower_bound

    found: list[float] = []
    rung = threading.Thread(
        target=lambda: found.append(lower_bound(problem, value, late=lambda: True)), daemon=True
    )
    rung.start()
    rung.join(_MOMENT)
    return max(found, default=0.0)


def _known(answer: Schedule) -> str:
    """How good the best so far is."""
    if answer.lower_bound <= 0:
        return "this is the best plan so far; there was no time to bound how good it is"
    return f"this is the best plan so far, with a gap of {answer.gap:.2%}"


def _aside(problem: Problem, time_limit: float, *, plain: bool) -> float:
    """Seconds of the limit that are kept for what comes after solving."""
    plain = plain and problem.objective.kind == "throughput"
    return _writing(problem, time_limit) + (min(_PLAIN, 0.1 * time_limit) if plain else 0.0)


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
