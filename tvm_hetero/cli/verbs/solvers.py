"""``tvm-hetero solvers``: who can be asked, and what each of them is."""

from __future__ import annotations

import typer


def solvers() -> None:
    """List the solvers."""
    from tvm_hetero.solvers.registry import describe, is_baseline, names
    from tvm_hetero.util.text_tables import format_table

    rows = [[name, "baseline" if is_baseline(name) else "", describe(name)] for name in names()]
    typer.echo(format_table(["solver", "", "what it is"], rows))
    typer.echo("\nbaseline: there to be compared with; auto never asks it")
