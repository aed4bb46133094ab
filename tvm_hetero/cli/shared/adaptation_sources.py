"""What ``tvm-hetero adapt`` compares policies on: a recording, or an artifact that runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.cli.shared.adaptation import PolicyComparison
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.errors import UsageError
from tvm_hetero.util.nearest import nearest

if TYPE_CHECKING:
    from tvm_hetero.online.comparison.spans import DisturbedSpans
    from tvm_hetero.online.table import Recording

# What people call a disturbance, and its name here.
_ALSO = {"memory": "stream", "cache": "thrash"}
# Requests that are replayed, places of a recording, and seconds of a live stream, if none are said.
_REQUESTS, _PLACES, _SECONDS = 3000, 4, 12.0
_RECORDED = ("resolve", "odin", "lls", "static")
_LIVE = ("resolve", "odin", "static", "none")


@dataclass(frozen=True)
class AdaptWish:
    """What the command line asked for; None: nothing was said.

    `begin` and `end` of one disturbance, or `period` and `duration` of many; all in requests.
    """

    policies: str | None = None
    alpha: int = 10
    places: int | None = None
    disturb: str = "busy"
    place: int = 0
    begin: int | None = None
    end: int | None = None
    period: int | None = None
    duration: int | None = None
    requests: int | None = None
    seed: int = 0
    input_file: Path | None = None
    best_of: int | None = None

    def names(self, usual: tuple[str, ...], more: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The policies' names.

        Raises
        ------
        UsageError
            If one is unknown, or there is none, or one twice.
        """
        from tvm_hetero.online.policies import policy_names

        if self.policies is None:
            return usual
        known = (*policy_names(), *more)
        names = tuple(name.strip() for name in self.policies.split(","))
        for name in names:
            if name not in known:
                raise UsageError(f"--policies: there is no policy {name!r}{nearest(name, known)}")
        if len(set(names)) < len(names):
            raise UsageError(f"--policies {self.policies}: one is given twice")
        return names

    def spans(self, requests: int) -> DisturbedSpans:
        """Which requests are disturbed.

        Raises
        ------
        UsageError
            If the options contradict each other, or nothing would be disturbed.
        """
        from tvm_hetero.online.comparison.spans import disturbed_often, disturbed_once

        if self.period is None and self.duration is None:
            return disturbed_once(requests, self.begin, self.end)
        if self.begin is not None or self.end is not None:
            raise UsageError(
                "give --begin and --end for one disturbance, or --period and --duration for many"
            )
        if self.period is None or self.duration is None:
            raise UsageError("--period and --duration go together: give both")
        return disturbed_often(requests, self.period, self.duration)


def compare_recorded(steps: Steps, path: Path, wish: AdaptWish) -> PolicyComparison:
    """Steps: replay the recording under each policy.

    Raises
    ------
    FormatError
        If the file is no recording.
    UsageError
        If a policy, place or disturbance is unknown.
    """
    from tvm_hetero.online.comparison.recorded import (
        RecordedTrial,
        best_rates,
        recorded_places,
        replay_policy,
    )
    from tvm_hetero.online.table import Recording

    if wish.input_file is not None:
        raise UsageError("--input is for an artifact; a recording has no inputs")
    if wish.best_of is not None:
        raise UsageError("--best-of is for an artifact; of a recording the best is exact")
    names = wish.names(_RECORDED)
    recording = Recording.load(path)
    places = recorded_places(recording, wish.places or _PLACES)
    if wish.place >= len(places):
        raise UsageError(
            f"--place {wish.place}: there are {len(places)} places, 0 to {len(places) - 1}; "
            "give another number, or more --places"
        )
    trial = RecordedTrial(
        recording,
        places,
        _scenario(recording, wish.disturb),
        wish.place,
        wish.spans(wish.requests or _REQUESTS),
        wish.alpha,
        wish.seed,
    )
    outcomes = []
    for name in names:
        with steps.step(f"Replay {name}") as step:
            outcomes.append(replay_policy(trial, name, step.counter("requests")))
            step.note = f"{outcomes[-1].trials} trials, {outcomes[-1].switches} switches"
    disturbed = trial.places[trial.place].name
    title = f"{recording.name}, {len(trial.places)} places, {trial.scenario} on {disturbed}"
    with steps.live("Look for the best", of=path):
        best = best_rates(trial)
    return PolicyComparison(title, trial.spans, best, outcomes)


def _scenario(recording: Recording, wanted: str) -> str:
    """The scenario of a disturbance: by its name, or by what people call it."""
    from tvm_hetero.online.table import ALONE

    there = [scenario for scenario in recording.scenarios if scenario != ALONE]
    kind = _ALSO.get(wanted, wanted)
    for candidate in (wanted, kind, f"{kind}@own", f"{kind}@beside"):
        if candidate in there:
            return candidate
    more = nearest(wanted, there) if there else "; record the model again, with --disturb"
    raise UsageError(f"--disturb {wanted!r}: nothing like it was recorded{more}")


def compare_live(steps: Steps, path: Path, wish: AdaptWish) -> PolicyComparison:
    """Steps: run a stream of the artifact under each policy, one after the other.

    Raises
    ------
    ArtifactError
        If the folder is none.
    UsageError
        If it was not built to be adapted, or a policy, place or disturbance is unknown.
    """
    from dataclasses import replace

    from tvm_hetero.artifact.read import load_artifact
    from tvm_hetero.compiler.plan_factory import PlanFactory
    from tvm_hetero.online.comparison.live import NO_POLICY, LiveTrial, measure_pace, stream_policy
    from tvm_hetero.online.comparison.live_best import TRIED, measure_best
    from tvm_hetero.online.comparison.spans import DisturbedSpans
    from tvm_hetero.processes.disturbers import check_disturbance

    if wish.places is not None:
        raise UsageError("--places is for a recording; an artifact has the places of its platform")
    names = wish.names(_LIVE, (NO_POLICY,))
    _refuse_what_never_adapts(path)
    with steps.step("Load artifact", of=path) as step:
        executable = load_artifact(path)
        PlanFactory(executable)  # refuses what was not built for it
        step.note = str(path)
    kind = _ALSO.get(wish.disturb, wish.disturb)
    some = DisturbedSpans(1, ())
    trial = LiveTrial(executable, _inputs(path, wish), kind, wish.place, some, wish.alpha)
    check_disturbance(kind, trial.core)
    with steps.step("Measure in quiet", of=path) as step:
        pace = measure_pace(trial)
        step.note = f"{pace:.4g} requests a second"
    trial = replace(trial, spans=wish.spans(wish.requests or math.ceil(_SECONDS * pace)))
    outcomes = []
    for name in names:
        with steps.step(f"Stream {name}") as step:
            tell = _progress(step.progress, trial.spans.requests)
            outcomes.append(stream_policy(trial, name, tell))
            step.note = f"{outcomes[-1].trials} trials, {outcomes[-1].switches} switches"
    with steps.step("Look for the best") as step:
        tried = TRIED if wish.best_of is None else wish.best_of
        best = measure_best(trial, tried, step.counter("configurations"))
    place = trial.places[trial.place].name
    title = f"{executable.problem.name}, {len(trial.places)} places, {kind} on {place}, live"
    return PolicyComparison(title, trial.spans, best, outcomes)


def _refuse_what_never_adapts(path: Path) -> None:
    from tvm_hetero.artifact.kinds import has_sizes, is_decoder

    if has_sizes(path) or is_decoder(path):
        raise UsageError(f"{path}: decoders and models of open dimensions are not adapted")


def _inputs(path: Path, wish: AdaptWish) -> dict[str, object]:
    """Those of a file, or random ones."""
    from tvm_hetero.cli.shared.measure import read_inputs
    from tvm_hetero.executor.executor import load

    if wish.input_file is not None:
        return dict(read_inputs(wish.input_file))
    with load(path) as executor:
        return dict(executor.inputs_that_run(wish.seed))


def _progress(tell: Callable[[str, int, int], None], requests: int) -> Callable[[int], None]:
    """Tell of every hundredth part."""
    every = max(1, requests // 100)

    def told(count: int) -> None:
        if count % every == 0:
            tell("requests", count, requests)

    return told
