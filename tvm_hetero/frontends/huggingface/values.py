"""Values of a config: of the type and in the range that they must have, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.util.untrusted_names import printable

# More than any model has, and little enough that sizes stay below 2^63.
_MOST = 1 << 24
_LARGEST = 1e30  # of numbers that become float32


def read_integer(data: Mapping[str, Any], key: str, default: int, most: int = _MOST) -> int:
    """An integer from 1 to ``most``; ``default`` where it is missing or null."""
    value = default if data.get(key) is None else data[key]
    if type(value) is not int or not 1 <= value <= most:
        raise ModelError(f"{key} is {printable(repr(value))}; expected an integer from 1 to {most}")
    return value


def read_number(data: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """A finite number above 0; ``default`` where it is missing or null."""
    value: Any = default if data.get(key) is None else data[key]
    if type(value) not in (int, float) or not 0 < value < _LARGEST:
        raise ModelError(f"{key} is {printable(repr(value))}; expected a finite number above 0")
    return float(value)


def read_flag(data: Mapping[str, Any], key: str, default: bool) -> bool:
    """True or false; ``default`` where it is missing or null."""
    value = default if data.get(key) is None else data[key]
    if type(value) is not bool:
        raise ModelError(f"{key} is {printable(repr(value))}; expected true or false")
    return value
