"""Configurations of an executor that runs: switch to one, and watch some requests go through it.

The executor serves whoever it serves meanwhile; here is only looked at what it does. Each
configuration's plan is made once, from the module that the artifact keeps; none is compiled. The
artifact's own plan is there already: it is run as it is, but that no place helps another one, since
then nobody could tell how quick either of them is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tvm_hetero.artifact.executable import PARTITION, Executable, Variant
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.watching import WatchedRequests
from tvm_hetero.online.chain import (
    Chain,
    arrangement_of_schedule,
    chain_of,
    places_of,
    schedule_of,
)
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.live.own_threads import OwnSeconds, without_own
from tvm_hetero.online.live.stage_times import observe
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.own_plan import Arrangement, contiguous
from tvm_hetero.plan.model import Role

# Requests that are kept until they are looked at.
_KEPT = 4096
# And of looks at what our own thread has had.
_LOOKS = 1024
# Between two looks, s.
_LEAST_NAP, _NAP, _MOST_NAP = 0.002, 0.02, 0.1


class LivePipeline:
    """An executor whose configuration can be changed while it runs.

    Parameters
    ----------
    executor : of `executable`.
    executable : a model that was built to be adapted.
    helping : whether equal places run each other's steps while they have none of their own.
    places : those that may be used; None: one for each device of the platform.
    own_seconds : CPU seconds so far of a thread of ours that shares the cores (`own_threads`).

    Attributes
    ----------
    chain : the model's blocks.
    places : one for each device, or those that may be used.
    own : the artifact's own plan, by which the executor ran at first; None: it is of a kind that
        cannot be compared with configurations.
    """

    def __init__(
        self,
        executor: Executor,
        executable: Executable,
        *,
        helping: bool = False,
        places: Sequence[Place] | None = None,
        own_seconds: OwnSeconds = lambda: 0.0,
    ) -> None:
        self._executor = executor
        self._factory = PlanFactory(executable, helping=helping)
        self.chain: Chain = chain_of(executable.problem)
        self.places: tuple[Place, ...] = tuple(
            places_of(executable.problem.platform) if places is None else places
        )
        self._own_seconds = own_seconds
        # When our own thread had had how much: kept, as requests begin between two observations.
        self._looks: deque[tuple[float, float]] = deque(maxlen=_LOOKS)
        self.own = _own_arrangement(executable, self.chain, self.places)
        self._own_variant = _own_variant(executable, helping=helping)
        self._own_schedule = executable.schedule
        self._current: Arrangement | None = None
        self._is_filling = True
        self._ended = threading.Event()
        executor.watch(_KEPT)

    def switch(self, configuration: Arrangement) -> bool:
        """Let a configuration, or the own plan, take what comes; False if it does already.

        Raises
        ------
        UsageError
            If it is none of the model's, or nothing was compiled for a place.
        InfeasibleError
            If it breaks a limit.
        """
        if configuration == self._current:
            return False
        if configuration == self.own:
            self._executor.switch(self._own_variant, self._own_schedule)
        else:
            schedule = schedule_of(self.chain, contiguous(configuration), self.places)
            self._executor.switch(self._factory.variant(schedule), schedule)
        self._current = configuration
        self._is_filling = True
        return True

    def observe(self, requests: int, seconds: float = 0.0) -> Observation | None:
        """Watch so many requests, or for so many seconds, whichever is more.

        The first ones after a switch, which filled the pipeline, do not count. Waits as long as it
        takes.

        Returns
        -------
        None if `stop` was called meanwhile.
        """
        if self._current is None:
            raise UsageError("no configuration is there to be watched: switch to one first")
        to_skip = len(self._current) + 1 if self._is_filling else 0
        seen: list[WatchedRequests] = []
        self._look()
        while not self._ended.wait(_nap(seen, requests + to_skip)):
            self._look()
            rows = self._executor.take_watched()
            if len(rows):
                seen.append(rows)
            if sum(map(len, seen)) < requests + to_skip or _window(seen) < seconds:
                continue
            rows = _joined(seen, to_skip)
            found = observe(rows, self._current, self.places)
            if found is not None:
                self._is_filling = False
                return without_own(found, _taken_since(self._looks, float(rows.begun.min())))
            seen.clear()  # too few of them ran: else what fails all the time fills the memory
        return None

    def _look(self) -> None:
        self._looks.append((time.monotonic(), self._own_seconds()))

    def stop(self) -> None:
        """End what watches, now and from now on."""
        self._ended.set()


def _own_arrangement(
    executable: Executable, chain: Chain, places: Sequence[Place]
) -> Arrangement | None:
    """What the plan that runs by default is to a policy: its schedule's, or one device's."""
    if executable.default == PARTITION:
        return arrangement_of_schedule(chain, executable.schedule, places)
    plan = executable.variants[executable.default].plan
    names = {row.name for row in plan.workers if row.role is Role.COMPUTE}
    used = [p for p, place in enumerate(places) if place.name in names]
    return Configuration((len(chain),), (used[0],)) if len(used) == len(names) == 1 else None


def _own_variant(executable: Executable, *, helping: bool) -> Variant:
    """The plan that runs by default, without places that help each other unless they shall."""
    variant = executable.variants[executable.default]
    workers = tuple(row if helping else replace(row, alike=None) for row in variant.plan.workers)
    return replace(variant, plan=replace(variant.plan, workers=workers))


def _taken_since(looks: Sequence[tuple[float, float]], begun: float) -> float:
    """CPU seconds since the last look before a moment, or since the first look."""
    before = [seconds for when, seconds in looks if when <= begun]
    return looks[-1][1] - (before or [looks[0][1]])[-1]


def _nap(seen: Sequence[WatchedRequests], requests: int) -> float:
    """How long to sleep until the rest may have come, s."""
    count = sum(map(len, seen))
    if count < 2:
        return _NAP if count else _MOST_NAP
    ends = np.concatenate([rows.ended for rows in seen])
    pace = float(ends.max() - ends.min()) / (count - 1)
    return float(np.clip(pace * (requests - count), _LEAST_NAP, _MOST_NAP))


def _window(seen: Sequence[WatchedRequests]) -> float:
    """Seconds between the first and the last end."""
    return float(max(p.ended.max() for p in seen) - min(p.ended.min() for p in seen))


def _joined(parts: Sequence[WatchedRequests], skipped: int) -> WatchedRequests:
    """All of them but the first ones."""
    names = ("begun", "ended", "starts", "ends", "waited", "workers", "on_core", "in_queue")
    rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return WatchedRequests(parts[0].plan, **{name: row[skipped:] for name, row in rows.items()})
