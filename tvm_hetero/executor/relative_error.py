"""How far outputs are from those that are expected: one number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Arrays = Sequence["np.ndarray[Any, Any]"]
# Values that are looked at together: some copies of them are made.
_PART = 1 << 20


def largest_relative_error(expected: Arrays, found: Arrays) -> float:
    """The largest difference in an output, as a share of that output's largest value.

    Of whole numbers and truth values the share of those that differ. Infinite where one is a number
    and the other is not, where anything differs from an output of zeros, and between shapes.
    """
    pairs = zip(expected, found, strict=True)
    return max((_error(one, other) for one, other in pairs), default=0.0)


def _error(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    if one.shape != other.shape:
        return math.inf
    if one.dtype.kind in "iub":
        return float(np.mean(one != other)) if one.size else 0.0
    off, largest = 0.0, 0.0
    flat, others = one.reshape(-1), other.reshape(-1)
    for start in range(0, flat.size, _PART):
        a, b = (np.asarray(x[start : start + _PART], np.float64) for x in (flat, others))
        finite = np.isfinite(a)
        odd = np.array_equal(a[~finite], b[~finite], equal_nan=True)
        if not odd or not np.isfinite(b[finite]).all():
            return math.inf
        off = max(off, float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)))
        largest = max(largest, float(np.max(np.abs(a[finite]), initial=0.0)))
    return off / largest if largest else math.inf if off else 0.0
