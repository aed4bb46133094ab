"""``tvm-hetero solvers``: who can be asked, and what each of them is."""

from __future__ import annotations

import typer


def solvers() -> None:
    """List the solvers."""
    from tvm_hetero.report.text import table
    from tvm_hetero.solvers.registry import describe, names

    typer.echo(table(["solver", "what it is"], [[name, describe(name)] for name in names()]))
