"""Policies compared on a recording: the same stream replayed for each, in seconds, without TVM."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise

from tvm_hetero.errors import UsageError
from tvm_hetero.online.comparison.outcome import BestRates, PlanChange, StreamOutcome
from tvm_hetero.online.comparison.spans import DisturbedSpans
from tvm_hetero.online.configuration import Place
from tvm_hetero.online.optimum import find_optimum
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.simulator import StreamReplay, replay_stream
from tvm_hetero.online.stream import Disturbance, Stream
from tvm_hetero.online.table import Recording


@dataclass(frozen=True)
class RecordedTrial:
    """What is replayed: a recording on places, one of them disturbed in these spans.

    Attributes
    ----------
    scenario : of the recording, on place number `place`.
    alpha, seed : see `tvm_hetero.online.policy.Setting`; the seed is that of the noise too, if the
        recording has any.
    """

    recording: Recording
    places: tuple[Place, ...]
    scenario: str
    place: int
    spans: DisturbedSpans
    alpha: int = 10
    seed: int = 0
    stream: Stream = field(init=False)

    def __post_init__(self) -> None:
        disturbances = (Disturbance(self.scenario, self.place, a, b) for a, b in self.spans.spans)
        noise = self.seed if self.recording.noise else None
        stream = Stream(
            self.recording, self.places, self.spans.requests, tuple(disturbances), noise_seed=noise
        )
        object.__setattr__(self, "stream", stream)


def recorded_places(recording: Recording, count: int) -> tuple[Place, ...]:
    """So many places of the least width of each kind, the kinds in turns; no two share a core.

    Raises
    ------
    UsageError
        If the count is below 1.
    """
    if count < 1:
        raise UsageError(f"expected at least one place, got {count}")
    kinds = [(kind, min(widths)) for kind, widths in recording.kinds.items()]
    found: list[Place] = []
    core = 0
    for number, (kind, width) in enumerate(islice(cycle(kinds), count)):
        found.append(Place(f"{kind}.{number}", kind, tuple(range(core, core + width))))
        core += width
    return tuple(found)


def replay_policy(
    trial: RecordedTrial,
    name: str,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> StreamOutcome:
    """Replay the stream under a policy; `tell` hears how many requests have entered.

    Raises
    ------
    UsageError
        If there is no such policy.
    """
    setting = recorded_setting(trial)
    replay = replay_stream(make_policy(name), setting, trial.stream, tell)
    return StreamOutcome(
        policy=name,
        entered=tuple(replay.entered),
        ended=tuple(replay.ended),
        trials=replay.trials,
        changes=tuple(_changes(replay, trial.places)),
    )


def recorded_setting(trial: RecordedTrial) -> Setting:
    """What policies know before: seconds in quiet, and the best stages by them."""
    recording, places = trial.recording, trial.places
    seconds = recording.seconds_on(places)
    return Setting(
        places,
        recording.weights,
        static=find_optimum(seconds, places).configuration,
        seconds=seconds,
        speeds=tuple(1.0 / math.fsum(column) for column in zip(*seconds, strict=True)),
        classes=recording.bounds,
        alpha=trial.alpha,
        seed=trial.seed,
    )


def _changes(replay: StreamReplay, places: tuple[Place, ...]) -> list[PlanChange]:
    found = []
    for before, turnover in pairwise(replay.turnovers):
        proposal = turnover.proposal
        found.append(
            PlanChange(
                turnover.request,
                turnover.seconds,
                proposal.configuration.text(places),
                switched=proposal.configuration != before.proposal.configuration,
                why=proposal.why,
            )
        )
    return found


def best_rates(trial: RecordedTrial) -> BestRates:
    """What an exhaustive search would find, in quiet and under the disturbance, without noise.

    Where places are too many to prove it, there is none.
    """
    quiet, disturbed = _best_rate(trial, None), _best_rate(trial, trial.scenario)
    if quiet is None or disturbed is None:
        return BestRates(None, None, "there are too many places to prove it")
    return BestRates(quiet, disturbed, "the exact best of all configurations, of recorded times")


def _best_rate(trial: RecordedTrial, scenario: str | None) -> float | None:
    disturbed = {} if scenario is None else {trial.place: scenario}
    optimum = find_optimum(trial.recording.seconds_on(trial.places, disturbed), trial.places)
    return 1.0 / optimum.bottleneck if optimum.proven else None
