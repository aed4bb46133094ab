"""Seconds, bytes and bytes per second: read from text with a unit, written for people.

Inside the package every time is a float in seconds, every size an int in bytes and every rate
a float in bytes per second; text with units exists only at the edges (files and reports).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from tvm_hetero.errors import FormatError
from tvm_hetero.util.quote import quote

_SIZES = {"B": 1.0}
for _power, _letter in enumerate("kMGTP", start=1):
    _SIZES[f"{_letter}B"] = 1000.0**_power
    _SIZES[f"{_letter.upper()}iB"] = 1024.0**_power
_SIZES["KB"] = _SIZES["kB"]
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
# What a quantity other than 0 may be. Beyond, sums and products of a schedule leave what floats and
# 64-bit integers hold: times become infinite, or 0 and "optimal".
LEAST, MOST = 1e-30, 1e30
# What sums of such quantities stay below; sums of these are finite still.
LARGEST = 1e100
# Of a size, and of all that a problem has: sums of such fit 64 bits (1 EiB).
MOST_BYTES = 2**60
# From here on three digits are those of the next unit: 0.9996 s is 1.00 s, not 1000 ms.
_NEARLY = 0.9995
# Seconds that are written without an exponent.
_FEWEST, _HIGHEST = 1e-12, 1e15
# Of a number's digits no more than some twenty count.
_LONGEST = 1000
_NUMBER = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*")


def _parse(value: object, units: dict[str, float], what: str, where: str, example: str) -> float:
    """Read a number, or a string of a number and one of `units`; refuse all else by name."""
    if type(value) is float and LEAST <= value <= MOST:
        return value
    result = _parse_any(value, units, what, where, example)
    if result != 0 and not LEAST <= result <= MOST:
        raise FormatError(
            f"{where}: expected a {what} of 0, or from {LEAST:g} to {MOST:g}, got {quote(value)}"
        )
    return result


def _parse_any(
    value: object, units: dict[str, float], what: str, where: str, example: str
) -> float:
    """The same of any finite size."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise FormatError(_wanted(value, what, where, example))
    if isinstance(value, str):
        result = _parse_text(value, units, what, where, example)
    else:
        try:
            result = float(value)
        except OverflowError:
            result = math.inf
    if not math.isfinite(result) or result < 0:
        raise FormatError(f"{where}: expected a finite {what} of at least 0, got {quote(value)}")
    return result


def _parse_text(value: str, units: dict[str, float], what: str, where: str, example: str) -> float:
    match = _NUMBER.fullmatch(value) if len(value) <= _LONGEST else None
    if match is None:
        raise FormatError(_wanted(value, what, where, example))
    number, unit = match.groups()
    if unit and unit not in units:
        known = ", ".join(units)
        raise FormatError(f"{_wanted(value, what, where, example)}; the units are {known}")
    try:
        # In decimals: as floats, 200 times 1e-6 is 0.00019999999999999998.
        return float(Decimal(number) * Decimal(repr(units[unit] if unit else 1.0)))
    except ArithmeticError:
        raise FormatError(_wanted(value, what, where, example)) from None


def _wanted(value: object, what: str, where: str, example: str) -> str:
    return f"{where}: expected {what} such as {example}, got {quote(value)}"


def parse_bytes(value: object, where: str = "size") -> int:
    """Read a size in bytes: ``4096``, ``"8GiB"``, ``"1.5 MB"``.

    Raises
    ------
    FormatError
        If `value` is neither a number nor a number with a unit of size, is negative, or above
        `MOST_BYTES`.
    """
    size = _parse(value, _SIZES, "size", where, "8GiB")
    # An integer stays what it is: above 2**53 the float would be another one.
    exact = value if isinstance(value, int) else round(size)
    if exact > MOST_BYTES:
        raise FormatError(f"{where}: expected a size of at most 1 EiB, got {quote(value)}")
    return exact


def parse_rate(value: object, where: str = "rate") -> float:
    """Read a rate in bytes per second: ``2e10``, ``"20GB/s"``."""
    return _parse(value, {f"{u}/s": f for u, f in _SIZES.items()}, "rate", where, "20GB/s")


def parse_seconds(value: object, where: str = "time") -> float:
    """Read a duration in seconds: ``5e-6``, ``"5us"``."""
    return _parse(value, _TIMES, "time", where, "5us")


def parse_quantity(value: object, where: str = "number") -> float:
    """Read a plain number that a problem is made of: 0, or from `LEAST` to `MOST`."""
    return _parse(value, {}, "number", where, "1.0e12")


def parse_number(value: object, where: str = "number") -> float:
    """Read a plain finite number of at least 0, as sums and differences are."""
    result = _parse_any(value, {}, "number", where, "1.0e12")
    if result > LARGEST:
        raise FormatError(f"{where}: expected a number of at most {LARGEST:g}, got {quote(value)}")
    return result


def format_seconds(seconds: float) -> str:
    """Write a duration with three significant digits: ``12.3 ms``."""
    if not _FEWEST <= abs(seconds) < _HIGHEST:  # an exponent is easier to read than thirty zeros
        return f"{seconds:.3g} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= _NEARLY * factor:
            return f"{_three_digits(seconds / factor)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def _three_digits(value: float) -> str:
    """Three significant digits without an exponent (``%g`` would print 1234 as 1.23e+03)."""
    decimals = max(0, 2 - math.floor(math.log10(abs(value) / _NEARLY)))
    return f"{value:.{decimals}f}"


def format_bytes(size: float) -> str:
    """Write a size with three significant digits in binary units: ``1.50 MiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if abs(size) >= _SIZES[unit]:
            return f"{_three_digits(size / _SIZES[unit])} {unit}"
    return f"{size:.0f} B"
