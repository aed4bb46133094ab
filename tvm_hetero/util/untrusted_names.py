"""Names that come out of a model file are somebody else's text.

A node or tensor may be called anything: a megabyte of text, a terminal escape
sequence, a right-to-left override that turns a path around.  Everything that
is shown goes through :func:`printable`; everything that becomes an identifier
in TVM goes through :func:`identifier`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

SHOWN = 80
"""Longest name that is shown, in characters; longer ones are cut."""


def printable(text: object, limit: int = SHOWN) -> str:
    """Return `text` safe to show on a terminal: one line, no control characters.

    Parameters
    ----------
    text : object
        Any text from a model, or an exception that quotes some.
    limit : int
        Longest result in characters; what is longer ends in ``...``.

    Returns
    -------
    str
        Printable characters as they are, all others as backslash escapes.
    """
    raw = str(text)[: limit + 1]
    if len(raw) <= limit and raw.isprintable():  # the common case, at once
        return raw
    shown = "".join(c if c.isprintable() else _escape(c) for c in raw)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


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


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown `name`: the nearest known one, or all there are."""
    choices = list(known)
    close = difflib.get_close_matches(name[:SHOWN], [c[:SHOWN] for c in choices], 1, 0.5)
    if close:
        return f"did you mean '{printable(close[0])}'?"
    listed = ", ".join(f"'{printable(c)}'" for c in choices[:5])
    return f"there is {listed}" + (" and more" if len(choices) > 5 else "") + "."
