"""Values of a config: of the type and in the range that they must have, or an error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.names import printable

# More than any model has, and little enough that sizes stay below 2^63.
_MOST = 1 << 24


def whole(data: Mapping[str, Any], key: str, default: int) -> int:
    """A whole number from 1 on; ``default`` where it is missing or null."""
    value = default if data.get(key) is None else data[key]
    if type(value) is not int or not 1 <= value <= _MOST:
        raise ModelError(f"{key} is {printable(value)}; expected a whole number from 1 to {_MOST}")
    return value


def number(data: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """A finite number above 0; ``default`` where it is missing or null."""
    value: Any = default if data.get(key) is None else data[key]
    if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
        raise ModelError(f"{key} is {printable(value)}; expected a finite number above 0")
    return float(value)


def switch(data: Mapping[str, Any], key: str, default: bool) -> bool:
    """True or false; ``default`` where it is missing or null."""
    value = default if data.get(key) is None else data[key]
    if type(value) is not bool:
        raise ModelError(f"{key} is {printable(value)}; expected true or false")
    return value
