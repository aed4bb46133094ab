"""Watched requests made by hand: two stages of two steps each, on places ``big`` and ``little``."""

from __future__ import annotations

import numpy as np

from tests.online.settings import single_cores
from tvm_hetero.executor.watching import WatchedRequests
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.live.stage_times import observe
from tvm_hetero.online.observation import Observation
from tvm_hetero.plan.model import DevicePlan, Plan, Role, StepKind, StepPlan, WorkerPlan

PLACES = single_cores("big", "little")
CONFIGURATION = Configuration((3, 5), (0, 1))
# Steps 0 and 1 on the first place, 3 and 4 on the second; step 2 copies between them.
OWN = ((0, 1), (3, 4))


def plan() -> Plan:
    """The plan; what it computes does not matter."""
    workers = [WorkerPlan(place.name, 0, place.cores, Role.COMPUTE) for place in PLACES]
    workers.append(WorkerPlan("big0 -> little1", 0, (), Role.COPY))
    steps = [
        StepPlan(StepKind.COPY if worker == 2 else StepKind.KERNELS, f"s{i}", worker, (), ())
        for i, worker in enumerate((0, 0, 2, 1, 1))
    ]
    return Plan(1, (DevicePlan("cpu", 1, 0),), tuple(workers), (), (), (), (), tuple(steps))


def watched(
    seconds: tuple[float, float],
    *,
    cpu: tuple[float, float] | None = None,
    queued: tuple[float, float] = (0.0, 0.0),
    pace: float | None = None,
    requests: int = 20,
) -> WatchedRequests:
    """Requests of which the two stages take so long.

    Parameters
    ----------
    cpu, queued : of each stage, how long its thread had a core, and how long it wanted one; None:
        all of the time.
    pace : seconds from one request to the next; None: as the slower stage admits.
    """
    gap = max(seconds) if pace is None else pace
    begun = gap * np.arange(requests)
    shape = (requests, 5)
    starts, ends, on_core, in_queue = (np.zeros(shape) for _ in range(4))
    now = begun.copy()
    for stage, own in enumerate(OWN):
        for step in own:
            starts[:, step] = now
            now = now + seconds[stage] / 2
            ends[:, step] = now
            on_core[:, step] = (seconds if cpu is None else cpu)[stage] / 2
            in_queue[:, step] = queued[stage] / 2
        starts[:, 2] = ends[:, 2] = ends[:, 1]
    return WatchedRequests(
        plan(), begun, now, starts, ends, np.zeros(shape), np.zeros(shape), on_core, in_queue
    )


def observed(*args: tuple[float, float], **given: tuple[float, float]) -> Observation:
    """The same as an observation."""
    found = observe(watched(*args, **given), CONFIGURATION, PLACES)  # type: ignore[arg-type]
    assert found is not None
    return found
