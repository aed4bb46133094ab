"""What was watched of requests, as an observation of a configuration's stages.

With s a stage, r a request, and the steps of s those that the plan runs on its place:

    seconds[s]     mean over r of  last end - first begin  of the steps of s in r; of the artifact's
                   own plan, whose stages wait for one another, the sum of what the steps take
    cpu, delay     mean over r of the sums over the steps of s
    throughput     (m - 1) / (last end - first end) of the m requests of the window, if some stage
                   was at work for nearly all of that time; else it says nothing of the
                   configuration, since there was not always something to do

Means, since a core that is shared is taken away for some milliseconds at a time: of short stages
few requests meet that, and a median would not see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_hetero.executor.watching import WatchedRequests
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.own_plan import Arrangement
from tvm_hetero.plan.model import Plan

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

# The standard deviation of normal noise over its median absolute deviation.
_NORMAL = 1.4826
# A stage that is at work for so much of a window had always something to do.
_SATURATED = 0.9
# Fewer ends than this tell no rate.
_LEAST_ENDS = 3


def steps_by_stage(
    plan: Plan, arrangement: Arrangement, places: Sequence[Place]
) -> list[list[int]]:
    """The steps of each stage: those that run on its place."""
    names = [places[p].name for p in arrangement.places]
    found: list[list[int]] = [[] for _ in names]
    for number, step in enumerate(plan.steps):
        worker = plan.workers[step.worker].name
        if worker in names:
            found[names.index(worker)].append(number)
    return found


def observe(
    watched: WatchedRequests, arrangement: Arrangement, places: Sequence[Place]
) -> Observation | None:
    """What the requests tell of what they ran by; None: too little.

    Requests of which a step was skipped (they failed, or were given up) do not count, nor do those
    of which one ended before it began: a clock that jumped tells nothing.
    """
    steps = steps_by_stage(watched.plan, arrangement, places)
    whole = _whole(watched)
    if whole.sum() < _LEAST_ENDS or not all(steps):
        return None
    stages, loads = [], []
    for own in steps:
        starts, ends = watched.starts[whole][:, own], watched.ends[whole][:, own]
        seconds = work = (ends - starts).sum(axis=1)
        if isinstance(arrangement, Configuration):
            seconds = ends.max(axis=1) - starts.min(axis=1)
        loads.append(float(work.sum()))
        stages.append(
            _stage_time(seconds, watched.on_core[whole][:, own], watched.in_queue[whole][:, own])
        )
    ends = np.sort(watched.ended[whole])
    window = float(ends[-1] - ends[0])
    saturated = window > 0 and max(loads) * (len(ends) - 1) / len(ends) >= _SATURATED * window
    rate = (len(ends) - 1) / window if saturated else None
    return Observation(arrangement, len(ends), window, rate, tuple(stages))


def _whole(watched: WatchedRequests) -> Flags:
    """Which requests ran all steps, by a clock that did not jump."""
    with np.errstate(invalid="ignore"):
        forward = (watched.ends >= watched.starts).all(axis=1)  # False where one was skipped: NaN
    return forward & np.isfinite(watched.ends).all(axis=1) & (watched.ended >= watched.begun)


def _stage_time(seconds: FloatArray, on_core: FloatArray, in_queue: FloatArray) -> StageTime:
    spread = _NORMAL * float(np.median(np.abs(seconds - np.median(seconds))))
    return StageTime(max(float(seconds.mean()), 1e-9), spread, _total(on_core), _total(in_queue))


def _total(parts: FloatArray) -> float | None:
    """The mean over requests of what their steps had; None where nobody measured it."""
    sums = parts.sum(axis=1)
    return None if np.isnan(sums).any() else float(sums.mean())
