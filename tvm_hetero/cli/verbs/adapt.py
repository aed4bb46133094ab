"""``tvm-hetero adapt``: policies that tune a pipeline, compared on a recording or live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.completion import offer_list, online_policies
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.errors import UsageError


def adapt(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RECORDING.json|NET.hetero",
            help="What 'record' wrote (replayed in seconds), or what 'partition --objective "
            "throughput' made (run live).",
        ),
    ],
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            metavar="NAMES",
            help="Separated by commas: resolve, odin, lls, shisha, pipe-search, hill-climbing, "
            "annealing, random-walk, exhaustive, static; live also none (the artifact's plan).",
            autocompletion=offer_list(online_policies),
        ),
    ] = None,
    alpha: Annotated[
        int, typer.Option("--alpha", min=1, help="Trials in vain after which a policy gives up.")
    ] = 10,
    places: Annotated[
        int | None,
        typer.Option(
            "--places", min=1, max=64, help="Of a recording, its kinds in turns. [default: 4]"
        ),
    ] = None,
    disturb: Annotated[
        str,
        typer.Option(
            "--disturb",
            metavar="KIND",
            help="busy (a program on the core), memory (its bandwidth), cache (the last level), or "
            "a scenario of the recording.",
        ),
    ] = "busy",
    place: Annotated[
        int, typer.Option("--place", min=0, help="The number of the place that is disturbed.")
    ] = 0,
    begin: Annotated[
        int | None,
        typer.Option(
            "--begin", min=1, help="The first disturbed request. [default: a third of them]"
        ),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option("--end", min=1, help="The first that is not any more. [default: two thirds]"),
    ] = None,
    period: Annotated[
        int | None,
        typer.Option("--period", min=1, help="Requests from one disturbance to the next one."),
    ] = None,
    duration: Annotated[
        int | None, typer.Option("--duration", min=1, help="Requests of each of them.")
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            min=3,
            max=1_000_000,
            help="Of each stream. [default: 3000; live: 12 s of them]",
        ),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", metavar="X.npz", help="Live: inputs. [default: random ones]"),
    ] = None,
    best_of: Annotated[
        int | None,
        typer.Option(
            "--best-of",
            min=0,
            max=1000,
            help="Live: how many configurations are measured to find the best. [default: 10]",
        ),
    ] = None,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="REPORT.html", help="Write a page, drawn."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """Compare what policies make of a stream that is disturbed."""
    options.check_writable(output)
    from tvm_hetero.cli.shared.adaptation import comparison_dict, comparison_page, comparison_text
    from tvm_hetero.cli.shared.adaptation_sources import AdaptWish, compare_live, compare_recorded
    from tvm_hetero.cli.shared.pages import write_page
    from tvm_hetero.util.untrusted_names import printable

    if not source.exists():
        raise UsageError(
            f"{source}: there is no such file or folder; make a recording with 'tvm-hetero record' "
            "or an artifact with 'tvm-hetero partition --objective throughput'"
        )
    wish = AdaptWish(
        policies, alpha, places, disturb, place, begin, end, period, duration, requests, seed,
        input_file, best_of,
    )  # fmt: skip
    steps = Steps(quiet=json_output)
    compare = compare_live if source.is_dir() else compare_recorded
    compared = compare(steps, source, wish)
    if json_output:
        typer.echo(json.dumps(comparison_dict(compared)))
    else:
        steps.head(printable(compared.title, limit=None))
        steps.say(comparison_text(compared))
    write_page(steps, output, "-o", lambda: comparison_page(compared))
