"""``tvm-hetero share``: which models live together on which machines over a day. Without TVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps


def share(
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST.yaml", help="Models, their load of a day, machines.")
    ],
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit", help="Seconds that all of it may take: plans, programs, simulations."
        ),
    ] = 300.0,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="DAY.html", help="Write a page with the day, drawn."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """Share machines among models over a day (without TVM).

    The answer has a proof of how good it is, and is given only if every SLO holds in every hour
    when it is played.
    """
    from tvm_hetero.cli.shared.pages import write_page
    from tvm_hetero.planning.sharing import load_sharing_request
    from tvm_hetero.planning.sharing import share as answer_request
    from tvm_hetero.report.planning.sharing import describe_day_search, sharing_dict, sharing_text
    from tvm_hetero.report.planning.sharing_page import sharing_page
    from tvm_hetero.solvers import Deadline
    from tvm_hetero.solvers.core.options import check_seconds

    check_seconds(time_limit, f"--time-limit {time_limit:g}: ")
    ends = Deadline.after(time_limit)
    options.check_writable(html, "--html")
    steps = Steps(quiet=json_output)
    given = load_sharing_request(request)
    with steps.step("Share", time_limit) as step:
        answer = answer_request(given, tell=step.tell, ends=ends)
        step.note = describe_day_search(answer)
    if json_output:
        typer.echo(json.dumps(sharing_dict(answer), allow_nan=False))
    else:
        steps.say()
        steps.say(sharing_text(answer))
    write_page(steps, html, "--html", lambda: sharing_page(answer))
