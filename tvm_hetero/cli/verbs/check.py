"""``tvm-hetero check``: is this schedule a valid answer to this problem?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps

INVALID = 1


def check(
    problem: options.ProblemFile,
    schedule: Annotated[
        Path, typer.Argument(metavar="SCHEDULE.json", help="The schedule to judge.")
    ],
    retimed: Annotated[
        Path | None,
        typer.Option(
            "--retime",
            metavar="OUT.json",
            help="Judge, and write, what the schedule's placement and order make: times, copies "
            "and value are computed anew. For schedules that were edited by hand.",
        ),
    ] = None,
) -> None:
    """Say whether a schedule is valid.

    Lists every rule that it breaks; the exit status is then 1.
    """
    options.check_writable(retimed, "--retime")
    from tvm_hetero.check.checker import check_schedule
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.retime import retime
    from tvm_hetero.problem.schedule import Schedule
    from tvm_hetero.report.schedule.text import summary_text
    from tvm_hetero.util.text_tables import count_noun
    from tvm_hetero.util.untrusted_names import printable

    steps = Steps()
    with steps.live("Check", of=schedule):
        answer, loaded = Schedule.load(schedule), Problem.load(problem)
        if retimed is not None:
            answer = retime(loaded, answer)
        violations = check_schedule(loaded, answer)
    if violations:
        for violation in violations:
            steps.say(f"rule {violation.rule}: {printable(violation.text, limit=None)}")
        steps.say(f"invalid: {count_noun(len(violations), 'violation')}", "red", bold=True)
        raise typer.Exit(INVALID)
    steps.say(summary_text(answer))
    steps.say("valid: every rule of the execution model is kept", "green", bold=True)
    if retimed is not None:
        answer.save(retimed)
        steps.say(f"wrote {printable(retimed, limit=None)}")
