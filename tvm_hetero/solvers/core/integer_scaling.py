"""Integers for CP-SAT, such that rounding can make neither a schedule nor a bound wrong.

A duration of s seconds becomes ``ceil(s q - 1e-6)`` ticks, q ticks a second, and at least one
tick if s > 0. Two things follow.

Schedules: only the *order* of the activities is taken from CP-SAT, and `timing.retime` gives it
exact times, so the rounding never reaches a schedule.

Bounds: let an optimal schedule with exact times be given. Its makespan is the longest path
through its order (data, devices, links, memory). With every duration on that path rounded up by
less than e ticks and at most A activities on it, the same order takes at most ``OPT q + A e``
ticks, so the whole-number optimum is no larger, and

    OPT >= (LB - A e) / q        for any bound LB that CP-SAT proves in ticks.

The same holds for the load of a device (a sum of at most A durations). `choose` takes the
coarsest power of ten for which ``A e`` is below `error` (1e-7) of the horizon; costs that are whole
multiples of, say, 0.1 us are then exact. Where none will do, q is as fine as 2^40 ticks allow.
Durations above a known value of the objective cannot be in a better schedule and do not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.views.array_types import FloatArray

# Rounding noise of a float product is no reason to take one tick more.
_NOISE = 1e-6
FINE = 1e-7
COARSE = 1e-4
_MOST_TICKS = 2.0**40


@dataclass(frozen=True)
class Ticks:
    """A resolution: `per_second` ticks a second, and the error `slack` (ticks) of any sum."""

    per_second: float
    slack: float

    def ticks(self, seconds: float) -> int:
        """A duration in ticks, rounded up."""
        if seconds <= 0:
            return 0
        return max(1, math.ceil(seconds * self.per_second - _NOISE))

    def bound(self, ticks: float) -> float:
        """What a lower bound in ticks proves in seconds."""
        return max(0.0, (ticks - self.slack) / self.per_second)


def choose(
    durations: Sequence[float],
    activities: int,
    horizon: float,
    most: float = math.inf,
    error: float = FINE,
    least: float = 0.0,
) -> Ticks:
    """Choose a resolution (see the head of this file).

    Parameters
    ----------
    durations : every duration that can occur, s.
    activities : the most of them that one path or one load can sum up.
    horizon : about the value of the objective, s; a lower bound of it is best.
    most : a value of the objective that is already known, s.
    error : the part of the horizon that all rounding together may make.
    least : no fewer ticks a second than that, as far as 2^40 ticks allow, though few would do.
    """
    counted = {s for s in durations if 0 < s < math.inf and s <= most}
    values = np.array(sorted(counted), dtype=np.float64)
    if len(values) == 0:
        return Ticks(1.0, 0.0)
    size = horizon if horizon > 0 else float(values.max())
    finest = _MOST_TICKS / max(size, min(most, float(values.sum())))
    exponent = math.ceil(-math.log10(float(values.max())))
    if least > 0:
        exponent = max(exponent, math.ceil(math.log10(least)))
    while 10.0**exponent < finest:
        resolution = Ticks(10.0**exponent, activities * _error(values, 10.0**exponent))
        if resolution.slack <= error * size * resolution.per_second:
            return resolution
        exponent += 1
    wanted = min(finest, max(least, activities / (error * size)))
    return Ticks(wanted, activities * _error(values, wanted))


def _error(values: FloatArray, per_second: float) -> float:
    """The most by which `Ticks.ticks` rounds one of `values` up, in ticks."""
    scaled = values * per_second
    rounded = np.maximum(1.0, np.ceil(scaled - _NOISE))
    # The product itself is off by a few units in the last place.
    return max(0.0, float((rounded - scaled).max())) + 1e-12 * float(scaled.max())
