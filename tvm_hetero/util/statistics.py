"""Order statistics of measured times: what benchmark tables print.

Latencies on a shared machine have a long right tail, so the mean says little: the minimum is what
the program can do, the median what a user meets, p90 and p99 what they complain about.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from tvm_hetero.errors import UsageError


@dataclass(frozen=True)
class Statistics:
    """Order statistics of `count` samples, in the samples' own unit (seconds everywhere here)."""

    count: int
    min: float
    median: float
    p90: float
    p99: float
    max: float
    mean: float

    def as_dict(self) -> dict[str, float]:
        """The figures under the names that ``--json`` prints."""
        return asdict(self)


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """The `fraction` quantile (0 to 1) of rising samples, linear between neighbours.

    This is type 7 of Hyndman and Fan (1996, doi:10.2307/2684934), the default of NumPy and R.
    """
    position = (len(ordered) - 1) * fraction
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def summarize(samples: Iterable[float]) -> Statistics:
    """Order statistics of the samples.

    Raises
    ------
    UsageError
        If there are no samples, or one is not finite.
    """
    ordered = sorted(samples)
    if not ordered:
        raise UsageError("no samples to summarize; expected at least one measured time")
    if not all(math.isfinite(sample) for sample in ordered):
        raise UsageError(f"samples must be finite, got {ordered[0]!r} to {ordered[-1]!r}")
    return Statistics(
        count=len(ordered),
        min=ordered[0],
        median=quantile(ordered, 0.5),
        p90=quantile(ordered, 0.9),
        p99=quantile(ordered, 0.99),
        max=ordered[-1],
        mean=math.fsum(ordered) / len(ordered),
    )
