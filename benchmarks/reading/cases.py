"""A small problem with one thing wrong, or odd, and what a reader makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from benchmarks.reading.readers import ABSENT, READERS, installed
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

# Of what a reader says, so much is kept: more than any line of ours has.
LONGEST = 160

_TEXT = """{"format": "tvm-hetero/problem/1", "name": "net",
"platform": {"format": "tvm-hetero/platform/1", "devices": [
  {"name": "big", "target": {"kind": "llvm"}}], "links": []},
"tasks": [{"id": "conv1", "cost": {"big": 0.5}, "weight_bytes": 8, "sizes": {"big": [1]}}],
"edges": [], "objective": {"kind": "throughput", "batch": 4}}"""
_COST, _WEIGHTS = ("tasks", 0, "cost", "big"), ("tasks", 0, "weight_bytes")
_BATCH = ("objective", "batch")

# A case's name: what is replaced, by what, and where the value then is.
CASES: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "nothing wrong": ("0.5", "0.5", _COST),
    "path to a name that is made up": ("0.5", '"fast"', _COST),
    "value that is there": ('"conv1"', '["conv", 1]', ("tasks", 0, "id")),
    "unknown key": ('"weight_bytes"', '"weight_byte"', ("tasks", 0)),
    "key given twice": ('"weight_bytes": 8', '"weight_bytes": 8, "weight_bytes": 9', _WEIGHTS),
    "`NaN`": ("0.5", "NaN", _COST),
    "`1e999`": ("0.5", "1e999", _COST),
    "integer of 5000 digits": (": 8", f": {'8' * 5000}", _WEIGHTS),
    "integer of 40 digits": (": 8", f": {'8' * 40}", _WEIGHTS),
    "`true` for an integer": (": 4", ": true", _BATCH),
    "`1.7` for an integer": (": 4", ": 1.7", _BATCH),
    '`"5"` for an integer': (": 4", ': "5"', _BATCH),
    "hostile key": ('"weight_bytes"', f'"\\u001b]0;{"x" * 3000}"', ("tasks", 0)),
    "sizes on a device without a cost": (
        '{"big": [1]}', '{"little": [1]}', ("tasks", 0, "sizes"),
    ),
    "`8GiB` for bytes": (": 8", ': "8GiB"', _WEIGHTS),
}  # fmt: skip


def answers() -> Iterator[dict[str, Any]]:
    """A row for each case and reader."""
    for case in CASES:
        for reader, (_, library) in READERS.items():
            row = {"measure": "case", "case": case, "reader": reader}
            yield row | (answer(case, reader) if installed(library) else {"says": ABSENT})


def answer(case: str, name: str) -> dict[str, Any]:
    """What a reader says in a case: cut and made printable, and whether that was necessary."""
    old, new, place = CASES[case]
    if _TEXT.count(old) != 1:
        raise AssertionError(f"{case}: {old!r} stands {_TEXT.count(old)} times in the problem")
    reader = READERS[name][0]()
    try:
        found = reader.plain(reader.text(_TEXT.replace(old, new)))
    except Exception as error:  # of any library: that it refuses is what is asked
        text = reader.reason(error)
    else:
        value = reduce(lambda inner, key: inner[key], place, found)
        return {"refused": False, "says": f"read as {quote(value)}"}
    shown = printable(text[:LONGEST], None) + ("..." if len(text) > LONGEST else "")
    return {
        "refused": True,
        "says": f"refused: {shown}",
        "characters": len(text),
        "printable": text.isprintable(),
    }
