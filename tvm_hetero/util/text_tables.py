"""Plain text for terminals and logs: aligned tables, of cells that are made printable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tvm_hetero.util.untrusted_names import printable

_FIGURE = re.compile(r"[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?%?( \S+)?")


def count_noun(count: int, one: str, many: str = "") -> str:
    """``1 task``, ``2 tasks``: a number and its noun; `many` where adding an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under headers, columns aligned: text to the left, a column of figures to the right.

    A column counts as figures if each of its cells is a number, perhaps with a unit, or ``-``.
    """
    cells = [[printable(cell, limit=None) for cell in row] for row in rows]
    grid = [[printable(header, limit=None) for header in headers], *cells]
    widths = [max(len(row[i]) for row in grid) for i in range(len(headers))]
    right = [bool(cells) and all(_is_figure(row[i]) for row in cells) for i in range(len(headers))]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in grid
    ]
    rule = "  ".join("─" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:]])


def _is_figure(cell: str) -> bool:
    return cell == "-" or _FIGURE.fullmatch(cell) is not None
