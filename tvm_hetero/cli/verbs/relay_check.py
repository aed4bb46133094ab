"""``tvm-hetero relay-check``: can this saved Relay program be imported, and if not, why not?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps

UNSUPPORTED = 1


def relay_check(
    program: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="What tvm.ir.save_json(mod) or mod.astext() of an old TVM gave."
        ),
    ],
    json_output: options.AsJson = False,
) -> None:
    """List what of a saved Relay program cannot be imported.

    Everything at once, each with its place; the exit status is then 1.
    """
    from tvm_hetero.frontends.relay.check import relay_check as look
    from tvm_hetero.util.text_tables import count_noun
    from tvm_hetero.util.untrusted_names import printable

    steps = Steps(quiet=json_output)
    with steps.live("Check", of=program):
        report = look(program)
    if json_output:
        typer.echo(json.dumps({"operators": report.operators, "problems": report.problems}))
    else:
        listed = ", ".join(f"{name} x{count}" for name, count in report.operators.items())
        steps.say(printable(listed, limit=None))
        for problem in report.problems:
            steps.say(printable(problem, limit=None), "red")
        if not report.problems:
            steps.say("every operator can be imported", "green", bold=True)
        else:
            steps.say(count_noun(len(report.problems), "problem"), "red", bold=True)
    if report.problems:
        raise typer.Exit(UNSUPPORTED)
