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
from tvm_hetero.planning.requests import MOST, Lengths, ServiceRequest

# Shares are counted in these parts of a class's requests.
UNITS = 100_000
_GOLDEN = (5**0.5 - 1) / 2
_ONE = Lengths("fixed", 1.0)


@dataclass(frozen=True)
class Bursts:
    """`length` s in every `every` s have a rate that is `factor` times as high."""

    factor: float
    every: float
    length: float


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
    factor = bursts.factor if bursts else 1.0
    if not (rate > 0 and seconds > 0 and rate * factor * seconds <= MOST):
        raise UsageError(
            f"expected a rate and seconds above 0 and at most {MOST} requests, got {rate:g} "
            f"requests a second (bursts: times {factor:g}) for {seconds:g} s"
        )
    if bursts and not seconds <= bursts.every * MOST:
        raise UsageError(
            f"expected at most {MOST} bursts in {seconds:g} s, got one every {bursts.every:g} s"
        )
    streams = [np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(4)]
    highest = rate * max(1.0, factor)
    count = streams[0].poisson(highest * seconds)
    moments = np.sort(streams[0].uniform(0.0, seconds, count))
    rates = np.full(count, rate)
    if bursts:
        rates[_within_bursts(moments, seconds, bursts, streams[1])] = rate * factor
    moments = moments[streams[0].uniform(0.0, highest, count) < rates]
    if not len(moments):
        raise UsageError(f"no request arrives in {seconds:g} s at {rate:g} a second; take longer")
    prompts = prompt.draw(len(moments), streams[2]).tolist()
    outputs = output.draw(len(moments), streams[3]).tolist()
    rows = zip(moments.tolist(), prompts, outputs, strict=True)
    return tuple(ServiceRequest(*row) for row in rows)


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
