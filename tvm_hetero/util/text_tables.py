"""Plain text for terminals and logs: safe names and aligned tables.

Names come from model files and are attacker's text: `printable` makes control characters (which
could move the cursor or recolour the terminal) and invisible direction marks visible. Everything
here applies it to what it is given.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_FIGURE = re.compile(r"[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?%?( \S+)?")


def printable(text: object, limit: int = 0) -> str:
    """`text` with control, format and line-breaking characters escaped (``\\x1b``).

    With a `limit`, the middle of longer text gives way to an ellipsis: models' names often
    differ in their ends only.
    """
    result = "".join(_escape(character) for character in str(text))
    if limit and len(result) > limit:
        head = (limit - 1) // 2
        result = result[:head] + "…" + result[len(result) - (limit - 1 - head) :]
    return result


def _escape(character: str) -> str:
    if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
        return character.encode("unicode_escape").decode("ascii")
    return character


def counted(count: int, one: str, many: str = "") -> str:
    """``1 task``, ``2 tasks``: a number and its noun; `many` where adding an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under headers, columns aligned: text to the left, a column of figures to the right.

    A column counts as figures if each of its cells is a number, perhaps with a unit, or ``-``.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    grid = [[printable(header) for header in headers], *cells]
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
