"""``tvm-hetero plan``: a decoder on machines that are not here. TVM is not needed or imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import decoder_options as decoder
from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps


def plan(
    model: decoder.Model,
    platform: decoder.PlatformName = "gpt3-6node",
    objective: decoder.Goal = "latency",
    batch: decoder.SequencesInBatch = 1,
    in_flight: decoder.InFlight = None,
    context: decoder.Context = None,
    shards: decoder.Shards = None,
    weights: decoder.Weights = None,
    grain: decoder.Grain = None,
    settings: decoder.Settings = None,
    time_limit: options.TimeLimit = 10.0,
    gap: options.Gap = 0.01,
    seed: options.Seed = 0,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Cores. [default: all that are ours]")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="SCHEDULE.json", help="The schedule to write."),
    ] = None,
    problem: Annotated[
        Path | None,
        typer.Option("--problem", metavar="PROBLEM.json", help="The problem to write."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PLAN.html", help="A page to write.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List the devices of all nodes.")] = False,
    json_output: options.AsJson = False,
) -> None:
    """Plan a decoder on any platform (without TVM).

    Says which layers go where, and the tokens a second.
    """
    from tvm_hetero.cli.shared.pages import write_page
    from tvm_hetero.planning import plan_decoder
    from tvm_hetero.platform.host import cores_at_once
    from tvm_hetero.report.planning.decoder import (
        decoder_plan_dict,
        decoder_plan_page,
        decoder_plan_text,
    )
    from tvm_hetero.solvers import Options
    from tvm_hetero.util.untrusted_names import printable

    for path, option in ((output, "-o"), (problem, "--problem"), (html, "--html")):
        options.check_writable(path, option)
    given = {"context": context, "shards": shards, "weights": weights, "grain": grain}
    request = decoder.read_request(model, platform, objective, batch, in_flight, given, settings)
    steps = Steps(quiet=json_output)
    with steps.step("Plan", time_limit) as step:
        cores = workers or cores_at_once()
        told = Options(time_limit, seed, gap=gap, workers=cores, tell=step.tell)
        found = plan_decoder(request, told)
        size = f"{len(found.problem.tasks)} tasks, {len(request.platform.devices)} devices"
        step.note = f"{size}, {found.schedule.solver}"
    if output is not None:
        found.schedule.save(output)
    if problem is not None:
        found.problem.save(problem)
    if json_output:
        typer.echo(json.dumps(decoder_plan_dict(found)))
    else:
        steps.say()
        steps.say(decoder_plan_text(found, every=every))
        for path in (output, problem):
            if path is not None:
                steps.say(f"wrote {printable(path, limit=None)}", "green")
    write_page(steps, html, "--html", lambda: decoder_plan_page(found))
