"""``tvm-hetero simulate``: play a service on a plan, request by request. Without TVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared import decoder_options as decoder
from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.planning.requests import ServiceRequest
    from tvm_hetero.planning.service import Service

_SECONDS = 600.0


def simulate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A decoder of the zoo, or a folder that 'partition' made of one."
        ),
    ],
    platform: decoder.PlatformName = "gpt3-6node",
    objective: decoder.Goal = "throughput",
    batch: decoder.SequencesInBatch = 1,
    in_flight: decoder.InFlight = None,
    context: decoder.Context = None,
    shards: decoder.Shards = None,
    weights: decoder.Weights = None,
    grain: decoder.Grain = None,
    settings: decoder.Settings = None,
    time_limit: options.TimeLimit = 10.0,
    gap: options.Gap = 0.01,
    schedule: Annotated[
        Path | None,
        typer.Option(
            "--schedule", metavar="SCHEDULE.json", help="What 'plan -o' wrote. [default: plan now]"
        ),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option("--arrivals", metavar="RATE|TRACE.json", help="Requests a second, or a file."),
    ] = "1",
    prompt: Annotated[
        str,
        typer.Option("--prompt", help="Tokens: 512, uniform:100:900 or lognormal:MEAN:SIGMA."),
    ] = "256",
    output: Annotated[str, typer.Option("--output", help="Tokens to generate, likewise.")] = "64",
    chunk: Annotated[
        int, typer.Option("--chunk", min=1, help="Tokens of a prompt that are prefilled at once.")
    ] = 256,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", help="How long requests arrive. [default: 600, or as the trace does]"
        ),
    ] = None,
    warmup: Annotated[
        float | None,
        typer.Option("--warmup", help="Seconds before rates are taken. [default: a tenth]"),
    ] = None,
    padded: Annotated[
        bool, typer.Option("--padded", help="A step costs as much as one of all slots.")
    ] = False,
    seed: options.Seed = 0,
    json_output: options.AsJson = False,
) -> None:
    """Play a service on a plan (without TVM).

    Says throughput, latencies, and what is saturated.
    """
    from tvm_hetero.planning.requests import truncate_requests
    from tvm_hetero.planning.service import play
    from tvm_hetero.report.planning.service import service_dict, service_text

    requests = _requests(arrivals, prompt, output, _SECONDS if seconds is None else seconds, seed)
    if seconds is None:
        seconds = _SECONDS if _rate(arrivals) else requests[-1].arrival or 1.0
    steps = Steps(quiet=json_output)
    if Path(model).is_dir():
        from tvm_hetero.planning.services import folder_service

        service, rows = folder_service(Path(model))
    else:
        given = {"context": context, "shards": shards, "weights": weights, "grain": grain}
        request = decoder.read_request(
            model, platform, objective, batch, in_flight, given, settings
        )
        service, rows = _planned(steps, request, schedule, chunk, padded, (time_limit, gap, seed))
    fitting, too_long = truncate_requests(requests, rows)
    with steps.step("Simulate") as step:
        until = seconds / 10 if warmup is None else warmup
        outcome = play(service, fitting, seconds, until, step.counter("tokens"))
        step.note = f"{len(fitting)} requests"
    if json_output:
        typer.echo(json.dumps(service_dict(service, outcome, too_long)))
        return
    steps.say()
    steps.say(service_text(service, outcome, too_long))


def _planned(
    steps: Steps,
    request: object,
    schedule: Path | None,
    chunk: int,
    padded: bool,
    chosen: tuple[float, float, int],
) -> tuple[Service, int]:
    """A service on a plan that was made before, or is made now; and the length of its caches."""
    from tvm_hetero.planning import DecoderRequest, plan_decoder
    from tvm_hetero.planning.services import adopt_schedule, context_of, service_of
    from tvm_hetero.platform.host import cores_at_once
    from tvm_hetero.problem.schedule import Schedule
    from tvm_hetero.solvers import Options

    assert isinstance(request, DecoderRequest)
    time_limit, gap, seed = chosen
    with steps.step("Plan", time_limit) if schedule is None else steps.step("Load") as step:
        if schedule is not None:
            plan = adopt_schedule(request, Schedule.load(schedule))
        else:
            cores = cores_at_once()
            plan = plan_decoder(request, Options(time_limit, seed, gap=gap, workers=cores))
        step.note = (
            f"{plan.in_flight} x {request.batch} sequences, {plan.tokens_per_second:.4g} tokens a "
            "second"
        )
    return service_of(plan, min(chunk, context_of(request)), padded=padded), context_of(request)


def _rate(text: str) -> float:
    """Requests a second; 0 if `text` is the name of a trace."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _requests(
    arrivals: str, prompt: str, output: str, seconds: float, seed: int
) -> tuple[ServiceRequest, ...]:
    """Requests from a trace, or drawn.

    Raises
    ------
    UsageError
        If `arrivals` is neither a rate above 0 nor a file, or a number makes no sense.
    """
    from tvm_hetero.planning.requests import load_trace, parse_lengths, poisson

    rate = _rate(arrivals)
    if rate:
        lengths = parse_lengths(prompt, "--prompt"), parse_lengths(output, "--output")
        return poisson(rate, seconds, *lengths, seed)
    if Path(arrivals).suffix != ".json":
        raise UsageError(
            f"--arrivals {arrivals!r}: expected requests a second above 0, or TRACE.json"
        )
    return load_trace(arrivals)
