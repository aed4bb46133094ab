"""What each step of each request takes while requests come: the measurements of a running pipeline.

`Executor.watch` lets workers note, for each step that they run, when it began and ended, how long
their thread had a core meanwhile, and how long it wanted one and had none. So it can be told why a
step is slow (``src/executor/thread_clock.h``):

    in_queue grows   another program runs on the core
    on_core grows    another one uses up the cache or the memory's bandwidth, or the clock is slower
    neither          it waits for something else: a page, a copy

A step of several cores is told by the thread that runs it; what its helpers had is not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.plan.model import Plan

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

_OF_REQUEST = 2
_OF_STEP = 6


@dataclass(frozen=True)
class WatchedRequests:
    """Requests that have ended, the oldest first; moments in seconds of `time.monotonic`.

    Attributes
    ----------
    plan : by which they ran.
    begun, ended : [requests].
    starts, ends : of each step; NaN where it was skipped. [requests, steps].
    waited : how long the step's worker had nothing else to do right before it.
    workers : who ran it: mostly the plan's, -1 where it was skipped.
    on_core, in_queue : how long the thread that ran it had a core, and how long it wanted one.
    """

    plan: Plan
    begun: FloatArray
    ended: FloatArray
    starts: FloatArray
    ends: FloatArray
    waited: FloatArray
    workers: FloatArray
    on_core: FloatArray
    in_queue: FloatArray

    def __len__(self) -> int:
        """How many there are."""
        return len(self.begun)


def watched_requests(plan: Plan, table: FloatArray) -> WatchedRequests:
    """The rows of `NativeExecutor.take_watched`, by what they mean."""
    steps = table[:, _OF_REQUEST:].reshape(len(table), len(plan.steps), _OF_STEP)
    columns = (np.ascontiguousarray(steps[:, :, k]) for k in range(_OF_STEP))
    return WatchedRequests(plan, table[:, 0].copy(), table[:, 1].copy(), *columns)
