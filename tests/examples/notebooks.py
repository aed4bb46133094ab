"""Runs a notebook without Jupyter, and keeps what its cells show as Jupyter would.

    python -m tests.examples.notebooks examples/explore_a_plan.ipynb    # writes the outputs

A cell's last expression is its result: shown as SVG where it has `_repr_svg_`, else as text, but
for None; what is printed stands before it. The format is nbformat 4.5's.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def load_notebook(path: Path) -> dict[str, Any]:
    """A notebook as it is stored."""
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def outputs_of(cells: list[Cell]) -> list[list[Cell]]:
    """Run cells in order, in one namespace; what each one shows (texts show nothing)."""
    space: dict[str, Any] = {"__name__": "__main__"}
    shown, count = [], 0
    for cell in cells:
        if cell["cell_type"] != "code":
            shown.append([])
            continue
        count += 1
        shown.append(_run("".join(cell["source"]), space, count))
    return shown


def _run(source: str, space: dict[str, Any], count: int) -> list[Cell]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), space)
    found: list[Cell] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        found.append(
            {"data": _shown(value), "execution_count": count, "metadata": {},
             "output_type": "execute_result"}
        )  # fmt: skip
    return found


def _shown(value: Any) -> dict[str, list[str]]:
    if hasattr(value, "_repr_svg_"):
        return {"image/svg+xml": _lines(value._repr_svg_())}
    return {"text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(path: Path) -> None:
    """Run a notebook and write its outputs into it."""
    notebook = load_notebook(path)
    count = 0
    for cell, shown in zip(notebook["cells"], outputs_of(notebook["cells"]), strict=True):
        if cell["cell_type"] == "code":
            count += 1
            cell["outputs"], cell["execution_count"] = shown, count
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
