"""When requests come, and which replica gets which.

Arrivals are Poisson, or Poisson with bursts: within a burst, which begins every so many seconds at
a moment of its own, the rate is a factor higher (a Poisson process whose rate is a step function,
by thinning: P. Lewis, G. Shedler, Naval Research Logistics 26, 1979, doi:10.1002/nav.3800260304).

Shares
------
Request number i of a class has the mark u(i) = frac(i g), g the golden ratio, and a replica with
the interval [a, a + s) of the unit circle gets those whose marks are in it: a share s of them.
However a is chosen, the gaps between the numbers of such requests take three values at most (the
three-gap theorem: V. Sós, Annales Univ. Sci. Budapest, Sect. Math. 1, 1958), so a replica sees
nearly the same load whichever interval it has, as evenly spread as a share of the class's can be.
A dispatcher needs nothing but a counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.errors import UsageError
from tvm_hetero.planning.requests import MOST, Lengths, ServiceRequest, poisson

# Shares are counted in these parts of a class's requests.
UNITS = 100_000
_GOLDEN = (5**0.5 - 1) / 2
# Random streams that `poisson` takes of a seed; the next one thins out.
_STREAMS = 3
_ONE = Lengths("fixed", 1.0)


@dataclass(frozen=True)
class Bursts:
    """`length` s in every `every` s have a rate that is `factor` times as high."""

    factor: float
    every: float
    length: float

    @property
    def more(self) -> float:
        """By what the mean rate is higher than outside of bursts."""
        return 1 + (self.factor - 1) * self.length / self.every


def draw_requests(
    rate: float,
    seconds: float,
    bursts: Bursts | None = None,
    prompt: Lengths = _ONE,
    output: Lengths = _ONE,
    seed: int | Sequence[int] = 0,
) -> tuple[ServiceRequest, ...]:
    """Requests that arrive in [0, seconds), `rate` a second in the mean outside of bursts.

    Raises
    ------
    UsageError
        If a number makes no sense, more than a million requests or bursts are to be expected, or
        no request comes.
    """
    if not bursts:
        return _some(poisson(rate, seconds, prompt, output, seed), rate, seconds)
    if not seconds <= bursts.every * MOST:
        raise UsageError(
            f"expected at most {MOST} bursts in {seconds:g} s, got one every {bursts.every:g} s"
        )
    highest = rate * max(1.0, bursts.factor)
    drawn = poisson(highest, seconds, prompt, output, seed)
    moments = np.array([each.arrival for each in drawn])
    random = np.random.default_rng(np.random.SeedSequence(seed).spawn(_STREAMS + 1)[-1])
    inside = _within_bursts(moments, seconds, bursts, random)
    kept = random.uniform(0.0, highest, len(drawn)) < np.where(inside, rate * bursts.factor, rate)
    return _some(tuple(each for each, keep in zip(drawn, kept, strict=True) if keep), rate, seconds)


def _some(
    requests: tuple[ServiceRequest, ...], rate: float, seconds: float
) -> tuple[ServiceRequest, ...]:
    if not requests:
        raise UsageError(f"no request arrives in {seconds:g} s at {rate:g} a second; take longer")
    return requests


def _within_bursts(
    moments: NDArray[np.float64], seconds: float, bursts: Bursts, random: np.random.Generator
) -> NDArray[np.bool_]:
    """Which moments are in a burst: one in each period, somewhere in it."""
    periods = int(seconds // bursts.every) + 1
    begins = random.uniform(0.0, max(0.0, bursts.every - bursts.length), periods)
    number = (moments // bursts.every).astype(int)
    since = moments - number * bursts.every - begins[number]
    inside: NDArray[np.bool_] = (since >= 0) & (since < bursts.length)
    return inside


def marks_of(count: int) -> NDArray[np.int64]:
    """The marks of so many requests, in units of the circle (see the head of this file)."""
    marks: NDArray[np.int64] = np.floor(np.arange(count) * _GOLDEN % 1.0 * UNITS).astype(np.int64)
    return marks


def members_of(marks: NDArray[np.int64], begin: int, length: int) -> Sequence[int]:
    """Numbers of the requests that an interval of the circle gets, in the order of arrival."""
    found: list[int] = np.flatnonzero((marks - begin) % UNITS < length).tolist()
    return found
