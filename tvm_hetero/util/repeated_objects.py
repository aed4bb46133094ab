"""Objects that stand many times in a JSON text, taken out of it so that each is parsed once.

On hundreds of devices nearly all of a problem's text is costs, one row of them a task, and few rows
differ: of 726 tasks on 448 devices, 41 MB, some dozens. A JSON value ends where it ends, whatever
follows, so where one text of an object stands again after the same key, it is the same object:

    {"id": "a", "cost": {...}}, {"id": "b", "cost": {...}}
    {"id": "a", "cost": NaN},   {"id": "b", "cost": NaN}       and the two objects, in that order

The pattern of the key begins no earlier than a key does: within a text its quotes are escaped. NaN
is no JSON, and the parser tells of each that it meets, in order (`parse_constant`); a text that has
one of its own is left as it is. So is one in which rows are short or hardly any stands again, and
what does not parse, so that errors name their places in the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

# The key whose objects are long and many.
_KEY = re.compile(r'"cost"\s*:\s*(?=\{)')
# What stands for an object that was taken out.
GAP = "NaN"
# Characters from which on an object is worth being looked for again; different ones that are kept.
_LONG, _MOST_KEPT = 2_000, 128
# Objects that may be short or new, beside one for every two that are met again.
_TRIED = 32


class FoldedText(NamedTuple):
    """A text with gaps, and the objects that belong there, in order; equal ones are one object."""

    text: str
    objects: list[Any]


def fold_repeats(text: str, parse: Callable[[str, int], tuple[Any, int]]) -> FoldedText | None:
    """Take repeated objects out of a JSON text; None where that gains nothing.

    Parameters
    ----------
    parse : makes the value that begins at a place of a text, and says where it ends.

    Raises
    ------
    ValueError, RecursionError
        What `parse` raises.
    """
    if GAP in text:
        return None
    known: dict[str, Any] = {}
    pieces: list[str] = []
    objects: list[Any] = []
    at = end = vain = again = 0
    while found := _KEY.search(text, end):
        start = found.end()
        same = next((each for each in known if text.startswith(each, start)), None)
        if same is None:
            vain += 1
            if vain > _TRIED + again // 2 or len(known) == _MOST_KEPT:
                return None
            value, end = parse(text, start)
            same = text[start:end]
            if len(same) < _LONG:
                continue
            known[same] = value
        else:
            again += 1
        pieces += (text[at:start], GAP)
        objects.append(known[same])
        at = end = start + len(same)
    return FoldedText("".join([*pieces, text[at:]]), objects) if objects else None
