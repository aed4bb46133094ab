"""Loads of the shape of public traces, drawn.

The Azure Functions trace (M. Shahrad et al., Serverless in the Wild, USENIX ATC 2020) is what
papers on serving models replay ("MAF"). What it looks like, there: invocations are spread very
unevenly (less than a fifth of the applications make 99.6 % of them), many functions are called by
timers, and of the others many come in bursts. So a load here is the sum of `_FUNCTIONS` functions
whose popularity is Zipf's, each called by a timer, at random, or in bursts. No figure of the trace
itself is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.planning.choosing.arrivals import draw_requests
from tvm_hetero.planning.requests import ServiceRequest

LOADS = ("poisson", "maf-like")
_FUNCTIONS = 40
_ZIPF = 1.1
# Shares of functions that are called by timers, and in bursts; how long a burst is, and how many a
# function has in the mean.
_TIMERS, _BURSTY = 0.3, 0.3
_BURST_PART, _BURSTS = 0.08, 3


def draw_load(kind: str, rate: float, seconds: float, seed: int) -> tuple[ServiceRequest, ...]:
    """Requests of one of `LOADS`, `rate` a second in the mean."""
    if kind == "poisson":
        return draw_requests(rate, seconds, seed=seed)
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, _FUNCTIONS + 1) ** _ZIPF
    weights *= rate * seconds / weights.sum()
    moments = np.concatenate([_calls(random, count, seconds) for count in weights])
    return tuple(ServiceRequest(float(t), 1, 1) for t in np.sort(moments))


def _calls(random: np.random.Generator, mean: float, seconds: float) -> NDArray[np.float64]:
    """When one function is called, `mean` times in all."""
    kind = random.random()
    if kind < _TIMERS:
        count = max(1, round(mean))
        return (np.arange(count) + random.random()) * seconds / count
    count = int(random.poisson(mean))
    if kind < 1 - _BURSTY:
        return random.uniform(0.0, seconds, count)
    begins = random.uniform(0.0, seconds * (1 - _BURST_PART), 1 + int(random.poisson(_BURSTS - 1)))
    return random.choice(begins, count) + random.uniform(0.0, seconds * _BURST_PART, count)
