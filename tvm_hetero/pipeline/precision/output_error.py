"""How far outputs are from those of float32: one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_hetero.errors import UsageError

Arrays = Sequence["np.ndarray[Any, Any]"]
# (outputs in float32, outputs otherwise) -> error, from 0 on; both in the model's order
Metric = Callable[[Arrays, Arrays], float]


def largest_relative_error(expected: Arrays, found: Arrays) -> float:
    """The largest difference in an output, as a share of that output's largest value.

    Of whole numbers and truth values the share of those that differ. Infinite where one is a number
    and the other is not, and where anything differs from an output of zeros.
    """
    pairs = zip(expected, found, strict=True)
    return max((_error(one, other) for one, other in pairs), default=0.0)


def _error(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    if one.dtype.kind in "iub":
        return float(np.mean(one != other)) if one.size else 0.0
    a, b = (np.asarray(x, np.float64) for x in (one, other))
    finite = np.isfinite(a)
    odd = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    if not odd or not np.isfinite(b[finite]).all():
        return math.inf
    off = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0))
    largest = float(np.max(np.abs(a[finite]), initial=0.0))
    return off / largest if largest else math.inf if off else 0.0


def metric_name(metric: Metric | None) -> str:
    """What an error is called."""
    if metric is None:
        return "largest relative error"
    return str(getattr(metric, "__qualname__", type(metric).__qualname__))


def error_by(metric: Metric | None, expected: Arrays, found: Arrays) -> float:
    """The error by a metric; by default `largest_relative_error`.

    Raises
    ------
    UsageError
        If the metric gives no number from 0 on.
    """
    if metric is None:
        return largest_relative_error(expected, found)
    value = metric(expected, found)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number >= 0:
        raise UsageError(
            f"the metric {metric_name(metric)!r} gave {value!r:.80}; expected a number from 0 (as "
            "good as float32) on, the larger the worse"
        )
    return number
