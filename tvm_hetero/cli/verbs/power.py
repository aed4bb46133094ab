"""``tvm-hetero power``: throughput under a power cap, least energy at a rate. TVM is not needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.errors import UsageError


def power(
    problem: options.ProblemFile,
    watts: Annotated[
        float | None, typer.Option("--watts", help="Most batches a second within so many, mean.")
    ] = None,
    period: Annotated[
        str | None,
        typer.Option("--period", help="Least energy with a batch every so often, such as 30ms."),
    ] = None,
    time_limit: options.TimeLimit = 10.0,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="SCHEDULE.json", help="The schedule to write."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """Plan a throughput problem under watts (without TVM).

    Devices with frequency levels are clocked as it fits; idling counts for the whole period.
    """
    from tvm_hetero.planning.power import least_energy, most_throughput
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.report.planning.power import power_dict, power_text
    from tvm_hetero.solvers import Options
    from tvm_hetero.util.units import parse_seconds
    from tvm_hetero.util.untrusted_names import printable

    if (watts is None) == (period is None):
        raise UsageError("expected --watts or --period, one of them")
    options.check_writable(output)
    seconds = None if period is None else parse_seconds(period, "--period")
    steps = Steps(quiet=json_output)
    loaded = Problem.load(problem)
    with steps.step("Plan", time_limit) as step:
        asked = Options(time_limit=time_limit, seed=seed)
        if watts is not None:
            plan = most_throughput(loaded, watts, asked)
        else:
            assert seconds is not None
            plan = least_energy(loaded, seconds, asked)
        step.note = f"{len(loaded.tasks)} tasks, {len(loaded.platform.devices)} devices"
    if output is not None:
        plan.schedule.save(output)
    if json_output:
        typer.echo(json.dumps(power_dict(plan, energy=watts is None)))
        return
    steps.say()
    steps.say(power_text(plan, energy=watts is None))
    if output is not None:
        steps.say(f"wrote {printable(output, limit=None)}", "green")
