"""``tvm-hetero refine``: measure what ``partition --quick`` has estimated, and plan again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.cli.shared.partition_steps import (
    compile_artifact,
    partition_json,
    say_kernels,
    tell_phases,
)


def refine(
    artifact: options.Artifact,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="NET.hetero", help="The folder to write. [default: the same]"
        ),
    ] = None,
    time_limit: options.TimeLimit = 5.0,
    seed: options.Seed = 0,
    no_measure: Annotated[
        bool,
        typer.Option(
            "--no-measure", help="Do not run plan and best single device to keep the quicker one."
        ),
    ] = False,
    json_output: options.AsJson = False,
) -> None:
    """Measure what --quick estimated; plan again."""
    from tvm_hetero.artifact.read import load_artifact
    from tvm_hetero.pipeline.refine import refine as refine_plan
    from tvm_hetero.report.schedule.text import schedule_text
    from tvm_hetero.solvers.core.options import check_seconds
    from tvm_hetero.util.untrusted_names import printable

    check_seconds(time_limit, f"--time-limit {time_limit:g}: ")
    output = artifact if output is None else output
    options.check_writable(output, folder=True)
    steps = Steps(quiet=json_output)
    with steps.step("Load artifact", of=artifact) as step:
        executable = load_artifact(artifact)
        step.note = str(artifact)
    with steps.live("Refine") as live:
        tell = tell_phases(live, time_limit)
        result = refine_plan(executable, time_limit, seed, tell)
    for title, seconds in result.seconds.items():
        steps.record(title.capitalize(), seconds)
    refined = compile_artifact(steps, result, output, measure=not no_measure)
    if json_output:
        typer.echo(json.dumps(partition_json(result, refined, steps.seconds, output)))
        return
    steps.head(f"Plan of {printable(result.problem.name, limit=None)}, refined")
    steps.say(schedule_text(result.schedule, result.problem, chart_width()))
    say_kernels(steps, result, output)
    steps.say(f"wrote {printable(output, limit=None)}", "green")
