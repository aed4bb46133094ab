"""Values in error messages: as Python would write them, but never more than a line of it.

``f"{value!r:.80}"`` writes the whole value before it cuts: of a YAML file of 400 bytes whose
aliases stand for 10^8 numbers, that does not end. Here no more is written than is shown.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping

from tvm_hetero.util.untrusted_names import SHOWN


def quote(value: object, limit: int = SHOWN) -> str:
    """`value` as Python writes it, printable, and cut (``...``) after `limit` characters.

    Takes time and space by `limit` alone, however large, deep or cyclic the value is.
    """
    if isinstance(value, str) and len(value) < limit // 2 and value.isprintable():
        return repr(value)  # the common case, at once
    text = ""
    for part in _written(value, limit):
        text += part
        if len(text) > limit:
            return text[: limit - 3] + "..."
    return text


def _written(value: object, limit: int) -> Iterator[str]:
    """The text of a value, bit by bit; each bit is at most some times as long as `limit`."""
    if isinstance(value, str | bytes):
        yield repr(value[: limit + 1])
    elif isinstance(value, Mapping):
        yield "{"
        for i, key in enumerate(value):
            yield ", " if i else ""
            yield from _written(key, limit)
            yield ": "
            yield from _written(value[key], limit)
        yield "}"
    elif isinstance(value, list | tuple | set | frozenset):
        yield from _listed(value, "[]" if isinstance(value, list) else "()", limit)
    elif isinstance(value, int) and value.bit_length() > 4 * limit:
        yield f"a number of {value.bit_length()} bits"  # Python refuses to write very long ones
    elif value is None or isinstance(value, int | float | datetime.date):
        yield repr(value)
    else:
        yield f"a {type(value).__name__}"


def _listed(values: Iterable[object], ends: str, limit: int) -> Iterator[str]:
    yield ends[0]
    for i, value in enumerate(values):
        yield ", " if i else ""
        yield from _written(value, limit)
    yield ends[1]
