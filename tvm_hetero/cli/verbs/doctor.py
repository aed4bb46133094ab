"""``tvm-hetero doctor``: what of this machine is used, and what to change."""

from __future__ import annotations

import json

import typer

from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.options import AsJson

UNFIT = 1
_ABOUT = 18  # columns for what a line is about


def doctor(json_output: AsJson = False) -> None:
    """Say what of this machine is used, and what to change.

    The exit status is 1 if something does not work at all until it is changed.
    """
    from tvm_hetero.doctor.examine import examine
    from tvm_hetero.doctor.finding import finding_rows
    from tvm_hetero.util.text_tables import count_noun
    from tvm_hetero.util.untrusted_names import printable

    steps = Steps(quiet=json_output)
    with steps.live("Look around"):
        findings = examine()
    faults = [finding for finding in findings if finding.is_fault]
    if json_output:
        typer.echo(json.dumps(finding_rows(findings)))
    else:
        for finding in findings:
            dots = "." * max(2, _ABOUT - len(finding.about))
            steps.say(f"{finding.about} {dots} {printable(finding.found, limit=None)}")
            if finding.advice:
                colour = "red" if finding.is_fault else "yellow"
                steps.say(f"  change: {printable(finding.advice, limit=None)}", colour)
        advised = sum(bool(finding.advice) for finding in findings)
        steps.say()
        if faults:
            names = ", ".join(finding.about for finding in faults)
            steps.say(f"does not work until it is changed: {names}", "red", bold=True)
        else:
            left = (
                f"{count_noun(advised, 'thing')} could be better" if advised else "change nothing"
            )
            steps.say(f"all works; {left}", "green", bold=True)
    if faults:
        raise typer.Exit(UNFIT)
