"""Names and texts that come out of a file belong to whoever wrote the file.

A node, tensor or device may be called anything: a megabyte of text, a terminal escape sequence that
moves the cursor or recolours the screen, a right-to-left override that turns a path around. All
that is shown, on a terminal, in a table, a page or an error, goes through `printable`; all that
becomes an identifier in TVM goes through `identifier`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SHOWN = 80
"""Longest name that is shown, in characters; longer ones are cut."""


def printable(text: object, limit: int | None = SHOWN) -> str:
    """Return `text` safe to show on a terminal: one line, no invisible characters but spaces.

    Parameters
    ----------
    text : object
        Any text from a file, or an exception that quotes some.
    limit : int, optional
        Longest result in characters, at least 1. In what is longer an ellipsis stands for the
        middle: names in a model often differ in their ends only. None cuts nothing.

    Returns
    -------
    str
        Characters of the Unicode categories C (control, format such as direction marks, surrogate,
        private, unassigned) and Z (separators, the plain space aside) as backslash escapes, all
        others as they are.
    """
    raw = str(text)
    if (limit is None or len(raw) <= limit) and raw.isprintable():  # the common case, at once
        return raw
    if limit is not None and len(raw) > 2 * limit:
        raw = raw[:limit] + raw[-limit:]  # both ends are all that can be shown
    shown = "".join(c if c.isprintable() else _escape(c) for c in raw)
    if limit is None or len(shown) <= limit:
        return shown
    head = (limit - 1) // 2
    return shown[:head] + "…" + shown[len(shown) - (limit - 1 - head) :]


def printable_lines(lines: Iterable[str], limit: int | None = None) -> str:
    """Lines of ours, each safe to show (see `printable`), as one text."""
    return "\n".join(printable(line, limit) for line in lines)


def _escape(character: str) -> str:
    # Lone surrogates have no UTF-8 form, yet unicode_escape writes them all right.
    return character.encode("unicode_escape").decode("ascii")


def identifier(name: str, taken: Iterable[str] = ()) -> str:
    """Return a short identifier made from `name` that is not among `taken`.

    Letters, digits and underscores stay; runs of anything else become one
    underscore, so ``gpu_0/data_0`` becomes ``gpu_0_data_0``.

    Parameters
    ----------
    name : str
        A name from a model or a file.
    taken : iterable of str
        Names that are in use; a number is added until the result is none of them.

    Returns
    -------
    str
        Matches ``[A-Za-z_][A-Za-z0-9_]*``.
    """
    base = re.sub(r"[^A-Za-z0-9_]+", "_", name)[:SHOWN]
    base = base if re.match(r"[A-Za-z_]", base) else f"input_{base}"
    used = set(taken)
    result, count = base, 1
    while result in used:
        result, count = f"{base}_{count}", count + 1
    return result
