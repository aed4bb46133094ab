"""``tvm-hetero solvers``: who can be asked, and what each of them is."""

from __future__ import annotations

import typer


def solvers() -> None:
    """List the solvers."""
    from tvm_hetero.solvers.registry import describe, names
    from tvm_hetero.util.text_tables import format_table

    typer.echo(format_table(["solver", "what it is"], [[name, describe(name)] for name in names()]))
