"""``--shape`` with open dimensions: ``x=1x3x48x160..640/32``, ``x=1x3x48x160,320,640``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tvm_hetero.errors import UsageError

_OPEN = re.compile(r"(?P<name>.+)=(?P<dims>[0-9x,./]+)")
_DIMENSION = re.compile(
    r"(?P<first>[0-9]+)\.\.(?P<last>[0-9]+)(?:/(?P<step>[0-9]+))?|(?P<list>[0-9]+(?:,[0-9]+)*)"
)
_EXAMPLE = "expected numbers, ranges and lists, such as x=1x3x48x160..640/32 or x=1x3x48x160,320"


def parse_open_shapes(texts: list[str] | None) -> dict[str, tuple[int | Sequence[int], ...]] | None:
    """Read shapes of which a dimension has several sizes; None if there is none.

    A range is ``FROM..TO`` or ``FROM..TO/STEP``, both ends in it; a list is ``160,320``, where
    dimensions are divided by ``x`` (``1,3,8`` is a shape of three).

    Raises
    ------
    UsageError
        If a text is not of that form, or names an input twice.
    """
    if not any(map(_is_open, texts or [])):
        return None
    shapes: dict[str, tuple[int | Sequence[int], ...]] = {}
    for text in texts or []:
        match = _OPEN.fullmatch(text)
        if match is None:
            raise UsageError(f"--shape {text!r}: {_EXAMPLE}")
        if match["name"] in shapes:
            raise UsageError(f"--shape: input {match['name']!r} is given twice")
        dims = match["dims"]
        parts = dims.split("x") if _is_open(text) else re.split("[x,]", dims)
        shapes[match["name"]] = tuple(_dimension(part, text) for part in parts)
    return shapes


def _is_open(text: str) -> bool:
    match = _OPEN.fullmatch(text)
    return match is not None and (
        ".." in match["dims"] or ("x" in match["dims"] and "," in match["dims"])
    )


def _dimension(part: str, text: str) -> int | Sequence[int]:
    match = _DIMENSION.fullmatch(part)
    if match is None:
        raise UsageError(f"--shape {text!r}: {part!r}: {_EXAMPLE}")
    if match["list"] is not None:
        listed = tuple(int(n) for n in part.split(","))
        return listed if len(listed) > 1 else listed[0]
    first, last, step = int(match["first"]), int(match["last"]), int(match["step"] or 1)
    if step < 1 or not 1 <= first <= last:
        raise UsageError(
            f"--shape {text!r}: {part!r}: expected FROM..TO/STEP with 1 <= FROM <= TO, STEP >= 1"
        )
    if (last - first) % step:
        raise UsageError(
            f"--shape {text!r}: {part!r} does not end at {last}, but at "
            f"{last - (last - first) % step}; write that"
        )
    return range(first, last + 1, step)
