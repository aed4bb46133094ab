"""Run the command line in this process, as a shell would see it."""

from __future__ import annotations

from dataclasses import dataclass

from typer.testing import CliRunner

from tvm_hetero.cli.main import app


@dataclass(frozen=True)
class Outcome:
    """Exit status and what was written."""

    status: int
    out: str
    err: str


def tvm_hetero(*args: object) -> Outcome:
    """Run ``tvm-hetero args...``; an exception that is no `HeteroError` is raised (a bug)."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)
