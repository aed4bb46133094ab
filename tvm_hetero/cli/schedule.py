"""``tvm-hetero schedule``: solve a scheduling problem. TVM is not needed and not imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli import options
from tvm_hetero.cli.console import Steps, chart_width


def schedule(
    problem: options.ProblemFile,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="SCHEDULE.json", help="The file to write."),
    ] = None,
    solver: options.Solver = "auto",
    time_limit: options.TimeLimit = 60.0,
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
    json_output: options.AsJson = False,
) -> None:
    """Solve a scheduling problem (without TVM)."""
    from tvm_hetero.problem import Problem
    from tvm_hetero.report.plan import schedule_text
    from tvm_hetero.report.text import printable

    options.check_writable(output)
    steps = Steps(quiet=json_output)
    with steps.step("Load problem") as step:
        loaded = Problem.load(problem)
        step.note = f"{len(loaded.tasks)} tasks, {len(loaded.platform.devices)} devices"
    with steps.step("Solve") as step:
        from tvm_hetero.schedule import Schedule
        from tvm_hetero.solvers import Options, solve

        chosen = Options(
            time_limit=time_limit,
            seed=seed,
            start=None if start is None else Schedule.load(start),
            workers=workers or len(os.sched_getaffinity(0)),
            backend=backend,
            symmetry=symmetry,
        )
        answer = solve(loaded, solver, chosen)
        step.note = answer.solver
    if output is not None:
        answer.save(output)
    if json_output:
        typer.echo(answer.dumps(), nl=False)
        return
    steps.say()
    steps.say(schedule_text(answer, loaded, chart_width()))
    if output is not None:
        steps.say(f"wrote {printable(output)}", "green")
