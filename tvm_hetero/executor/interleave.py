"""Measure several things that are to be compared: a few runs of each at a time, in turns.

The machine's speed drifts (other programs, the clock frequency); in turns, each runner meets the
same drift.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tvm_hetero.util.statistics import Statistics, summarize

# Takes a number of runs, returns the seconds of each.
Runner = Callable[[int], list[float]]
# Told how many runs are done, of how many.
CountTold = Callable[[int, int], None]
_TURN = 5  # runs of one runner before the next one's turn
# Threads of ONNX Runtime spin for a while after a run (for the next one), on cores that the next
# runner wants: without a pause it ran up to twice as long, with this one it did not.
_PAUSE = 0.05


def measure_in_turns(
    runners: Mapping[str, Runner],
    repeat: int,
    warmup: int,
    tell: CountTold = lambda _done, _total: None,
) -> dict[str, Statistics]:
    """Measure several runners `repeat` times each, after `warmup` runs that do not count.

    `tell` is called between turns, with the runs that count.
    """
    for run in runners.values():
        if warmup:
            run(warmup)
    samples: dict[str, list[float]] = {name: [] for name in runners}
    while (left := repeat - min(map(len, samples.values()))) > 0:
        for name, run in runners.items():
            time.sleep(_PAUSE)
            run(1)  # not counted: its caches are another runner's
            samples[name].extend(run(min(_TURN, left)))
            tell(sum(map(len, samples.values())), repeat * len(runners))
    return {name: summarize(seconds) for name, seconds in samples.items()}
