"""``tvm-hetero choose``: what to run a model on, for a load, an SLO and a goal. Without TVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps


def choose(
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST.yaml", help="Variants, machines, load, SLO, goal.")
    ],
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            help="Seconds that all of it may take: plans, simulations, the choice and its "
            "neighbours.",
        ),
    ] = 120.0,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="CHOICE.html", help="Write a page with the front, drawn."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """Choose what to run a model on (without TVM).

    The answer has a proof of how good it is, and is given only if its SLO holds when it is played.
    """
    from tvm_hetero.cli.shared.pages import write_page
    from tvm_hetero.planning.choosing import choose as answer_request
    from tvm_hetero.planning.choosing import load_choice_request
    from tvm_hetero.report.planning.choice import choice_dict, choice_text, describe_search
    from tvm_hetero.report.planning.choice_page import choice_page
    from tvm_hetero.solvers import Deadline
    from tvm_hetero.solvers.core.deadline import check_left
    from tvm_hetero.solvers.core.options import check_seconds

    check_seconds(time_limit, f"--time-limit {time_limit:g}: ")
    ends = Deadline.after(time_limit)
    options.check_writable(html, "--html")
    steps = Steps(quiet=json_output)
    given = load_choice_request(request)
    check_left(ends, "choose", "before anything is planned: the load took that long to draw")
    with steps.step("Choose", time_limit) as step:
        answer = answer_request(given, tell=step.tell, ends=ends)
        step.note = describe_search(answer)
    if json_output:
        typer.echo(json.dumps(choice_dict(answer), allow_nan=False))
    else:
        steps.say()
        steps.say(choice_text(answer))
    write_page(steps, html, "--html", lambda: choice_page(answer))
