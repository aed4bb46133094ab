"""The codes of Relay's ``reshape``, as plain arithmetic.

 n   this many                     0   as the input has here (with ``allowzero``: none at all)
-1   what is left over            -2   all dimensions that are left
-3   the product of the next two  -4   the next is split in the two numbers that follow
"""

from __future__ import annotations

import math


def new_shape(
    shape: list[int], codes: list[int], allow_zero: bool = False, reverse: bool = False
) -> list[int]:
    """Return the shape that `codes` make of `shape`.

    Raises
    ------
    ValueError
        The codes do not fit; the text says why.
    """
    total = math.prod(shape)
    if reverse:
        if -4 in codes:
            raise ValueError("newshape with -4 cannot be read from the right")
        shape, codes = shape[::-1], codes[::-1]
    result = _resolved(shape, codes, allow_zero)
    if result.count(None) > 1:
        raise ValueError(f"newshape={codes} leaves more than one dimension open")
    known = math.prod(n for n in result if n is not None)
    if None in result and (known == 0 or total % known):
        raise ValueError(f"{shape} cannot be reshaped with newshape={codes}")
    filled = [total // known if n is None else n for n in result]
    if math.prod(filled) != total:
        raise ValueError(f"{shape} cannot be reshaped with newshape={codes}")
    return filled[::-1] if reverse else filled


def _resolved(shape: list[int], codes: list[int], allow_zero: bool) -> list[int | None]:
    """The dimensions, None for the one that is what is left over."""
    result: list[int | None] = []
    source = iter(shape)
    pending = iter(codes)
    for code in pending:
        if code > 0 or (code == 0 and allow_zero):
            result.append(code)
            next(source, None)
        elif code == 0:
            result.append(_next(source, codes))
        elif code == -1:
            result.append(None)
            next(source, None)
        elif code == -2:
            result.extend(source)
        elif code == -3:
            result.append(_next(source, codes) * _next(source, codes))
        elif code == -4:
            result.extend(
                _halves(_next(source, codes), _next(pending, codes), _next(pending, codes))
            )
        else:
            raise ValueError(f"newshape={codes}: {code} means nothing")
    return result


def _next(numbers: object, codes: list[int]) -> int:
    found = next(numbers, None)  # type: ignore[call-overload]
    if found is None:
        raise ValueError(f"newshape={codes} asks for more dimensions than there are")
    return int(found)


def _halves(extent: int, first: int, second: int) -> list[int]:
    """One dimension as two, of which one may be left open."""
    if first == -1 and second > 0:
        first = extent // second
    elif second == -1 and first > 0:
        second = extent // first
    if first * second != extent or min(first, second) < 0:
        raise ValueError(f"{extent} cannot be split into {first} and {second}")
    return [first, second]
