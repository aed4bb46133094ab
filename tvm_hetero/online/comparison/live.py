"""Policies compared live: one stream after the other, each disturbed at the same requests.

A stream is as fast as it goes: an input is there whenever the pipeline takes one. `NO_POLICY` is
the plan of the artifact as it is, with equal cores that help each other: what every policy has to
be better than.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.chain import places_of
from tvm_hetero.online.comparison.disturber import SpanDisturber
from tvm_hetero.online.comparison.outcome import PlanChange, StreamOutcome
from tvm_hetero.online.comparison.spans import DisturbedSpans
from tvm_hetero.online.configuration import Place
from tvm_hetero.online.live.adapter import AdaptationEvent
from tvm_hetero.online.live.adaptive_executor import AdaptiveExecutor
from tvm_hetero.online.policies import policy_names
from tvm_hetero.util.nearest import nearest

NO_POLICY = "none"


@dataclass(frozen=True)
class LiveTrial:
    """What runs: a model that was built to be adapted, one of whose places is disturbed.

    Attributes
    ----------
    kind : ``busy``, ``stream`` or ``thrash``, on the last core of place number `place`.
    alpha : see `tvm_hetero.online.policy.Setting`.
    """

    executable: Executable
    inputs: Mapping[str, Any]
    kind: str
    place: int
    spans: DisturbedSpans
    alpha: int = 10

    @property
    def places(self) -> tuple[Place, ...]:
        """The model's places."""
        return places_of(self.executable.problem.platform)

    @property
    def core(self) -> int:
        """The core that is disturbed."""
        if not 0 <= self.place < len(self.places):
            raise UsageError(
                f"there is no place {self.place} to be disturbed; there are "
                f"{', '.join(f'{i} ({p.name})' for i, p in enumerate(self.places))}"
            )
        return max(self.places[self.place].cores)


def stream_policy(
    trial: LiveTrial, name: str, progress: Callable[[int], None] = lambda _: None
) -> StreamOutcome:
    """Run the stream under a policy, or under none (`NO_POLICY`).

    Parameters
    ----------
    progress : told how many requests have ended.

    Raises
    ------
    UsageError
        If there is no such policy, or the model was not built to be adapted.
    ProfileError
        If the disturbance could not be started.
    """
    known = (*policy_names(), NO_POLICY)
    if name not in known:
        raise UsageError(f"there is no policy {name!r}{nearest(name, known)}")
    events: list[AdaptationEvent] = []
    with _executor(trial, name, events.append) as executor:
        begun = time.monotonic()
        entered, ended = _run_disturbed(executor, trial, progress)
        note = _note(executor)
    last = ended[-1]
    seen = [event for event in events if event.at - begun <= last]
    return StreamOutcome(
        policy=name,
        entered=tuple(entered),
        ended=tuple(ended),
        trials=sum(event.phase == "try" for event in seen),
        changes=tuple(_changes(seen, begun, ended)),
        note=note,
    )


def _executor(trial: LiveTrial, name: str, tell: Callable[[AdaptationEvent], None]) -> Executor:
    if name == NO_POLICY:
        return Executor(trial.executable)
    return AdaptiveExecutor(trial.executable, name, alpha=trial.alpha, on_event=tell)


def _run_disturbed(
    executor: Executor, trial: LiveTrial, progress: Callable[[int], None]
) -> tuple[list[float], list[float]]:
    """Run the requests of a trial, disturbed; when each entered and ended, s since the begin."""
    entered: list[float] = []
    ended: list[float] = []
    begun = time.monotonic()

    def requests() -> Iterator[Mapping[str, Any]]:
        for _ in range(trial.spans.requests):
            entered.append(time.monotonic() - begun)
            yield trial.inputs

    with SpanDisturber(trial.kind, trial.core, trial.spans) as disturber:
        for count, _ in enumerate(executor.map(requests()), 1):
            ended.append(time.monotonic() - begun)
            disturber.tell(count)
            progress(count)
    return entered, ended


def _note(executor: Executor) -> str:
    """What has to be said of how it was adapted."""
    if not isinstance(executor, AdaptiveExecutor):
        return "the artifact's own plan"
    if executor.idle:
        return f"nothing is adapted: {executor.idle}"
    return f"gave up: {executor.failure}" if executor.failure is not None else ""


def _changes(
    events: list[AdaptationEvent], begun: float, ended: list[float]
) -> Iterator[PlanChange]:
    for event in events:
        if event.switched or event.phase == "settled":
            at = event.at - begun
            request = bisect_left(ended, at)
            yield PlanChange(
                request, at, event.configuration, event.switched, event.why, event.cause
            )


def measure_pace(trial: LiveTrial, seconds: float = 1.0) -> float:
    """Requests/s of the artifact's own plan, in quiet."""
    with Executor(trial.executable) as executor:
        executor.run(trial.inputs)
        begun = time.monotonic()

        def requests() -> Iterator[Mapping[str, Any]]:
            while time.monotonic() < begun + seconds:
                yield trial.inputs

        count = sum(1 for _ in executor.map(requests()))
        return count / (time.monotonic() - begun)
