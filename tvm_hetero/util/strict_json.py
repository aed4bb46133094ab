"""JSON from files that may come from anywhere: RFC 8259, within limits, and not ambiguous.

`src/support/strict_json.cc` is the same in C++ but for how it counts: here commas and brackets are
counted, also those inside of texts (``tests/fuzz/documents.py`` lets the two disagree). Beyond the
grammar both refuse a key that is given twice in one object, numbers that no float can hold, halves
of surrogate pairs, and what is nested deeper or has more values than any document of ours.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from tvm_hetero.errors import FormatError
from tvm_hetero.util.quote import quote
from tvm_hetero.util.repeated_objects import GAP, fold_repeats

# How deep lists and objects may stand in each other.
MAX_DEPTH = 64
# How many values a document may have: those of 100,000 tasks on 50 devices. An empty list is 3
# bytes in a file, and 64 in memory.
MAX_VALUES = 8_000_000

# What may be no float: an exponent of three digits, or so many digits that one of two does.
_LARGE_EXPONENT = re.compile(r"[eE](?<=[0-9][eE])\+?[0-9]{3}")
_WINDOW = 100
_MAYBE_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> Any:
    """Parse a text that is JSON, and nothing that only resembles it.

    Raises
    ------
    FormatError
        If it is beyond a limit, or means nothing or two things.
    ValueError, RecursionError
        If it is no JSON.
    """
    if text.count(",") + text.count("[") + text.count("{") > MAX_VALUES:
        raise FormatError(f"has more than {MAX_VALUES} values")
    try:
        data = _parse_folded(text)
    except (FormatError, ValueError, RecursionError):
        data = None  # of an error the whole text says where, and which is the first
    return _parse(text) if data is None else data


def _parse(text: str, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Parse a text that has few enough values, wholly; `parse_constant` is told of each NaN."""
    # A hook for every number would take as long as all the rest, so only where one is needed.
    hooks: dict[str, Any] = {"parse_constant": parse_constant or _refuse_constant}
    if _may_hold_no_float(text):
        hooks |= {"parse_float": _float, "parse_int": _int}
    data = json.loads(text, object_pairs_hook=_object_without_repeats, **hooks)
    check_depth(data, shared=parse_constant is not None)
    check_pairs(text, data)
    return data


def _parse_folded(text: str) -> Any:
    """The value of a text in which long objects stand again and again; None of other texts."""
    folded = fold_repeats(text, _parse_at)
    if folded is None:
        return None
    objects = iter(folded.objects)
    return _parse(
        folded.text, lambda name: next(objects) if name == GAP else _refuse_constant(name)
    )


def _parse_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    value, end = _DECODER.raw_decode(text, start)
    own = text[start:end]
    if _may_hold_no_float(own) or _MAYBE_HALF_A_PAIR.search(own):
        value = _parse(own)
    return value, end


def _may_hold_no_float(text: str) -> bool:
    """Whether some number in a text may be one that no float can hold.

    With an exponent of two digits it has 200 digits at least, and fills a window. Most of a large
    problem is digits; a pattern that began at each of them took half of the time of reading it.
    """
    if _LARGE_EXPONENT.search(text):
        return True
    return any(text[at : at + _WINDOW].isdigit() for at in range(0, len(text), _WINDOW))


def check_depth(data: Any, *, shared: bool = False) -> None:
    """Refuse what is nested deeper than `MAX_DEPTH`.

    Parameters
    ----------
    shared : whether one object may stand in many places, and is then looked at once a level.

    Raises
    ------
    FormatError
        If it is.
    """
    level, depth, nested = [data], 0, (dict, list)
    while level := [each for each in level if isinstance(each, nested)]:
        if shared:
            level = list({id(each): each for each in level}.values())
        depth += 1
        if depth > MAX_DEPTH:
            raise FormatError(f"is nested more than {MAX_DEPTH} levels deep")
        children: list[Any] = []
        for each in level:
            children += each.values() if isinstance(each, dict) else each
        level = children


def check_pairs(text: str, data: Any) -> None:
    """Refuse halves of surrogate pairs in what was parsed of a text; most texts hold no surrogate.

    Raises
    ------
    FormatError
        If there is one.
    """
    if _MAYBE_HALF_A_PAIR.search(text):
        check_encodable(data)


def check_encodable(data: Any) -> None:
    """Refuse texts that are none: a half of a surrogate pair cannot be written anywhere.

    Raises
    ------
    FormatError
        If there is one.
    """
    try:
        json.dumps(data, ensure_ascii=False, default=repr, skipkeys=True).encode("utf-8")
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise FormatError(f"holds half a surrogate pair, {quote(half)}, which is no text") from None


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_constant(text)


def _int(text: str) -> int:
    return int(text) if math.isfinite(float(text)) else int(_refuse_constant(text))


def _refuse_constant(text: str) -> NoReturn:
    raise FormatError(f"expected plain finite numbers, got {quote(text)[1:-1]}")


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; a key that is given twice would silently lose one value."""
    result = dict(pairs)
    if len(result) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise FormatError(f"key {quote(key)} is given twice in one object")
            seen.add(key)
    return result


# For values within a text; how deep they are is seen where they stand.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, object_pairs_hook=_object_without_repeats
)
