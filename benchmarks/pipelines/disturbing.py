"""Disturbed pipelines: LLS, ODIN and `resolve` beside what no policy can beat.

As ODIN's authors evaluate, as far as that is remembered (docs/online.md): places of eight cores;
every `period` requests a disturbance comes, of a random scenario on a random place, and stays for
`duration` requests or until the next one comes. In the mode ``paper`` a policy learns of every
request before the next one enters, and the requests of trials go one at a time; in the mode
``flowing`` it learns of a request when that has ended, and nothing is held back.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.pipelines.tables import SCENARIOS, computed_table
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.simulator import (
    Disturbance,
    Stream,
    StreamReplay,
    best_throughput,
    replay_stream,
)
from tvm_hetero.online.table import Recording

Row = dict[str, Any]
GRID = (2, 10, 100)
# Policy, alpha and the longest rest (the papers' policies have none) under the names of the tables.
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "static": ("static", {}),
    "lls": ("lls", {"rest": 0}),
    "odin-2": ("odin", {"alpha": 2, "rest": 0}),
    "odin-10": ("odin", {"alpha": 10, "rest": 0}),
    "resolve": ("resolve", {}),
}
MODES = {"paper": {"instant": True, "serial": True}, "flowing": {}}
LEVELS = tuple(range(50, 101, 5))
_WINDOW = 10
# When the disturbance comes that stays.
_ONSET = 10


def eight_core_places(count: int) -> tuple[Place, ...]:
    """Alike places of eight cores each."""
    return tuple(Place(f"ep{i}", "core8", tuple(range(8 * i, 8 * i + 8))) for i in range(count))


def setting_of(recording: Recording, count: int) -> Setting:
    """The best configuration in quiet, which each request may change."""
    places = eight_core_places(count)
    seconds = recording.seconds_on(places)
    static = find_optimum(seconds, places).configuration
    return Setting(
        places, recording.weights, static, seconds, (), recording.bounds,
        window=1, trial=1, patience=1, rest=256, deviation=0.03,
    )  # fmt: skip


def disturbances(
    count: int, requests: int, period: int, duration: int, seed: int = 0
) -> tuple[Disturbance, ...]:
    """One after the other, each on a random place with a random scenario."""
    draw = random.Random(seed)
    names = [name for name in SCENARIOS if name != "alone"]
    return tuple(
        Disturbance(draw.choice(names), draw.randrange(count), q, q + min(period, duration))
        for q in range(period, requests, period)
    )


def grid_rows(
    network: str, count: int, requests: int, cells: Sequence[tuple[int, int]]
) -> Iterator[Row]:
    """A row for each mode, period, duration and policy."""
    recording = computed_table(network, "core8")
    for period, duration in cells:
        events = disturbances(count, requests, period, duration, seed=period * 1000 + duration)
        for mode, options in MODES.items():
            stream = Stream(
                recording,
                eight_core_places(count),
                requests,
                events,
                **options,  # type: ignore[arg-type]
            )
            yield from stream_rows(recording, stream, mode, period, duration)


def stream_rows(
    recording: Recording, stream: Stream, mode: str, period: int, duration: int
) -> Iterator[Row]:
    """All policies on one stream."""
    count = len(stream.places)
    quiet = setting_of(recording, count)
    assert quiet.seconds is not None
    peak = 1 / bottleneck(quiet.seconds, quiet.static)
    best = best_throughput(stream)
    bound = len(best) / sum(1 / rate for rate in best)
    for name, (policy, options) in POLICIES.items():
        found = replay_stream(make_policy(policy), replace(quiet, **options), stream)
        yield {
            "measure": "grid", "network": recording.name, "places": count, "mode": mode,
            "period": period, "duration": duration, "policy": name,
            **figures(found, peak), "of_best": found.throughput / bound,
        }  # fmt: skip


def figures(found: StreamReplay, peak: float) -> Row:
    """Latency and throughput of a stream, and the share of windows below levels of the peak."""
    rates = found.rates(_WINDOW)
    below = {str(n): sum(rate < n / 100 * peak for rate in rates) / len(rates) for n in LEVELS}
    paces = [1 / time for time in found.bottlenecks]
    slower = {str(n): sum(pace < n / 100 * peak for pace in paces) / len(paces) for n in LEVELS}
    return {
        "latency": statistics.fmean(found.latencies), "p99": found.latency_quantile(0.99),
        "throughput": found.throughput, "of_peak": found.throughput / peak,
        "trials": found.trials, "searches": found.searches,
        "windows_below": below, "requests_below": slower,
    }  # fmt: skip


def lasting_rows(network: str, count: int) -> Iterator[Row]:
    """One disturbance that stays: what `resolve` reaches, with how many trials, for each."""
    recording = computed_table(network, "core8")
    setting = setting_of(recording, count)
    for scenario in list(SCENARIOS)[1:]:
        for place in range(count):
            event = Disturbance(scenario, place, _ONSET, 200)
            stream = Stream(recording, setting.places, 200, (event,), instant=True)
            seconds = recording.seconds_on(setting.places, {place: scenario})
            best = find_optimum(seconds, setting.places).bottleneck
            row: Row = {"measure": "lasting", "network": network, "places": count,
                        "scenario": scenario, "place": place}  # fmt: skip
            for name, (policy, options) in POLICIES.items():
                found = replay_stream(make_policy(policy), replace(setting, **options), stream)
                row[name] = best / bottleneck(seconds, first_settled(found, setting.static))
                if name == "resolve":
                    tried = first_trials(found)
                    two = [setting.static, *tried[:2]]
                    row["trials"] = len(tried)
                    row["two_trials"] = best / min(bottleneck(seconds, c) for c in two)
            yield row


def first_settled(found: StreamReplay, static: Configuration) -> Configuration:
    """What the first search after the disturbance settled on."""
    for turnover in found.turnovers:
        if turnover.request > _ONSET and turnover.proposal.phase == "settled":
            return turnover.proposal.configuration
    return static


def first_trials(found: StreamReplay) -> list[Configuration]:
    """What that search tried."""
    tried = []
    for turnover in found.turnovers:
        if turnover.request > _ONSET and turnover.proposal.phase == "settled":
            break
        if turnover.request > _ONSET and turnover.proposal.searching:
            tried.append(turnover.proposal.configuration)
    return tried


def scaling_rows(network: str, counts: Sequence[int], requests: int) -> Iterator[Row]:
    """The same on more and more places, disturbed half of the time for a hundred requests."""
    recording = computed_table(network, "core8")
    for count in counts:
        events = disturbances(count, requests, 200, 100, seed=count)
        stream = Stream(recording, eight_core_places(count), requests, events)
        for row in stream_rows(recording, stream, "flowing", 200, 100):
            yield row | {"measure": "scaling"}
