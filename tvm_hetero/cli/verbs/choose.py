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
    time_limit: options.TimeLimit = 10.0,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="CHOICE.html", help="Write a page with the front, drawn."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """Choose what to run a model on (without TVM).

    The answer has a proof of how good it is, and is given only if its SLO holds when it is played.
    """
    from tvm_hetero.planning.choosing import choose as answer_request
    from tvm_hetero.planning.choosing import load_choice_request
    from tvm_hetero.report.planning.choice import choice_dict, choice_text, describe_search
    from tvm_hetero.report.planning.choice_page import choice_page
    from tvm_hetero.report.schedule.html import report_html
    from tvm_hetero.solvers import Options
    from tvm_hetero.util.documents import write_atomic
    from tvm_hetero.util.untrusted_names import printable

    options.check_writable(html, "--html")
    steps = Steps(quiet=json_output)
    given = load_choice_request(request)
    with steps.step("Choose") as step:
        program = Options(time_limit=time_limit, seed=given.seed)
        answer = answer_request(given, program=program, tell=step.tell)
        step.note = describe_search(answer)
    if html is not None:
        write_atomic(html, report_html(choice_page(answer)))
    if json_output:
        typer.echo(json.dumps(choice_dict(answer), allow_nan=False))
        return
    steps.say()
    steps.say(printable_lines(choice_text(answer)))
    if html is not None:
        steps.say(f"wrote {printable(html, limit=None)}", "green")


def printable_lines(text: str) -> str:
    """The lines of a text whose names are of a document, as a terminal may show them."""
    from tvm_hetero.util.untrusted_names import printable

    return "\n".join(printable(line, limit=None) for line in text.split("\n"))
