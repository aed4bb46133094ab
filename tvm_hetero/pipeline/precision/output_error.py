"""How far outputs are from those of float32: one number."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm_hetero.errors import UsageError
from tvm_hetero.executor.relative_error import Arrays, largest_relative_error

# (outputs in float32, outputs otherwise) -> error, from 0 on; both in the model's order
Metric = Callable[[Arrays, Arrays], float]


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
