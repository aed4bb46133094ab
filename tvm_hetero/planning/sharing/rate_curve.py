"""The rate of Poisson arrivals that a machine takes of a model within its SLO.

It is the largest of some rates, each a hundredth below the one before, at which a machine that
does nothing else keeps every limit in `_STREAMS` streams of `_DRAWN` requests. These are the same
for all rates, faster or slower, and are played as an hour is (`replay`: a lone model's batches are
those of `tvm_hetero.planning.choosing.rate.serve_batches`). No more than `_MOST_LOAD` of what full
batches answer is claimed: to see the queues nearer to it longer streams would be needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.planning.choosing.rate import reached, serve_batches
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.sharing.problem import RATE
from tvm_hetero.planning.sharing.request import SharedModel

# Streams that are drawn to rate a model, and the requests of each.
_STREAMS, _DRAWN = 3, 10_000
# The most of what full batches answer that is claimed, and the rates below it that are tried: each
# a hundredth below the one before, down to less than a thousandth; which is tried first.
_MOST_LOAD, _STEP, _STEPS, _FIRST = 0.95, 0.99, 700, 16


class RateCurve:
    """What a model's limits need on a machine at rates `_STEP` apart; each is played once."""

    def __init__(
        self, option: ReplicaOption, model: SharedModel, streams: Sequence[NDArray[np.float64]]
    ) -> None:
        self.option, self.model, self.streams = option, model, streams
        self.most = _MOST_LOAD * option.batch / option.seconds[option.batch]
        self.known: dict[int, list[float]] = {}

    def carried(self, quantum: float, least: int = 0) -> int:
        """Requests a second within an SLO that is `quantum` shorter, in parts of `RATE`.

        0 where it is no more than `least`.
        """
        slo = [limit.seconds - quantum for limit in self.model.slo]
        if min(slo) < self.option.seconds[1]:
            return 0

        def carries(k: int) -> bool:
            return all(a <= b for a, b in zip(self._needed(k), slo, strict=True))

        # The rate falls with k: `high` keeps the SLO, `low` does not. High rates are played first:
        # their batches are large, and fewer.
        low, high = -1, _FIRST
        if least:
            high = max(0, math.ceil(math.log(least / RATE / self.most) / math.log(_STEP)))
            if high > _STEPS or not carries(high):
                return 0
        while not carries(high):
            if high == _STEPS:
                return 0
            low, high = high, min(4 * high, _STEPS)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if carries(middle) else (middle, high)
        found = math.floor(self._rate(high) * RATE)
        return found if found > least else 0

    def _rate(self, k: int) -> float:
        return self.most * _STEP**k

    def _needed(self, k: int) -> list[float]:
        """What each limit would have to be, s: the most of all streams."""
        if k not in self.known:
            every = []
            for stream in self.streams:
                arrivals = (stream / self._rate(k)).tolist()
                times, _, _ = serve_batches(arrivals, self.option.seconds)
                every.append([reached(each, {each.figure: times}) for each in self.model.slo])
            self.known[k] = [max(own) for own in zip(*every, strict=True)]
        return self.known[k]


def draw_streams(name: str, seed: int) -> list[NDArray[np.float64]]:
    """Poisson arrivals of a model at one request a second; divided by a rate they have that one."""
    random = np.random.default_rng((seed, 0, *name.encode()))
    return [np.cumsum(random.exponential(1.0, _DRAWN)) for _ in range(_STREAMS)]
