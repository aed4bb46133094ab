"""Disturbed pipelines: LLS, ODIN and `resolve` beside what no policy can beat.

As ODIN's authors evaluate, as far as that is remembered (docs/online.md): places of eight cores;
every `period` requests a disturbance comes, of a random scenario on a random place, and stays for
`duration` requests or until the next one comes. In the mode ``paper`` a policy learns of every
request before the next one enters, and the requests of trials go one at a time; in the mode
``flowing`` it learns of a request when that has ended, and nothing is held back.

Tables are computed from layer shapes, or recorded (`tvm-hetero record`, benchmarks/recordings):
then places are single cores, native ones and x86-64-v2 in turns, and scenarios are those of the
recording.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.pipelines.tables import computed_table
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.simulator import StreamReplay, best_throughput, replay_stream
from tvm_hetero.online.stream import Disturbance, Stream
from tvm_hetero.online.table import ALONE, Recording

Row = dict[str, Any]
GRID = (2, 10, 100)
RECORDINGS = Path(__file__).parent.parent / "recordings"
NATIVE_AND_OLD = ("native", "x86-64-v2")
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
# Between the seeds of two draws of one cell.
_NEXT_DRAW = 1_000_003
# When the disturbance comes that stays.
_ONSET = 10


@dataclass(frozen=True)
class Table:
    """A recording and the places on which it is replayed: of these kinds in turns, of one width.

    `prefix` stands before the measure in the rows.
    """

    recording: Recording
    kinds: tuple[str, ...]
    width: int
    prefix: str = ""

    def places(self, count: int) -> tuple[Place, ...]:
        """So many of them."""
        cores = (range(self.width * i, self.width * (i + 1)) for i in range(count))
        return tuple(
            Place(f"ep{i}", self.kinds[i % len(self.kinds)], tuple(own))
            for i, own in enumerate(cores)
        )

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Those that disturb."""
        return tuple(name for name in self.recording.scenarios if name != ALONE)


def computed(network: str) -> Table:
    """Eight-core places, as computed."""
    return Table(computed_table(network, "core8"), ("core8",), 8)


def recorded(network: str) -> Table:
    """Single cores of two kinds, as recorded here."""
    return Table(Recording.load(RECORDINGS / f"{network}.json"), NATIVE_AND_OLD, 1, "recorded-")


def setting_of(table: Table, count: int) -> Setting:
    """The best configuration in quiet, which each request may change."""
    recording, places = table.recording, table.places(count)
    seconds = recording.seconds_on(places)
    static = find_optimum(seconds, places).configuration
    return Setting(
        places, recording.weights, static, seconds, (), recording.bounds,
        window=1, trial=1, patience=1, rest=256, deviation=0.03,
    )  # fmt: skip


def disturbances(
    names: Sequence[str], count: int, requests: int, period: int, duration: int, seed: int = 0
) -> tuple[Disturbance, ...]:
    """One after the other, each on a random place with a random scenario."""
    draw = random.Random(seed)
    return tuple(
        Disturbance(draw.choice(names), draw.randrange(count), q, q + min(period, duration))
        for q in range(period, requests, period)
    )


def grid_rows(
    table: Table, count: int, requests: int, cells: Sequence[tuple[int, int]]
) -> Iterator[Row]:
    """A row for each mode, period, duration and policy."""
    for period, duration in cells:
        seed = period * 1000 + duration
        events = disturbances(table.scenarios, count, requests, period, duration, seed)
        for mode, options in MODES.items():
            stream = Stream(
                table.recording,
                table.places(count),
                requests,
                events,
                **options,  # type: ignore[arg-type]
            )
            yield from stream_rows(table, stream, mode, period, duration)


def drawn_rows(
    table: Table, count: int, requests: int, cells: Sequence[tuple[int, int]], draws: int
) -> Iterator[Row]:
    """Of each cell, flowing: throughput over that of `static`, mean over other random streams.

    A stream is one draw of places and scenarios. Which of two equal places a stage is on, which
    no policy can decide, changes the throughput of one stream by up to 3 %.
    """
    quiet, places = setting_of(table, count), table.places(count)
    for period, duration in cells:
        rates: dict[str, list[float]] = {name: [] for name in POLICIES}
        for draw in range(1, draws + 1):
            seed = period * 1000 + duration + draw * _NEXT_DRAW
            events = disturbances(table.scenarios, count, requests, period, duration, seed)
            stream = Stream(table.recording, places, requests, events)
            for name, (policy, options) in POLICIES.items():
                found = replay_stream(make_policy(policy), replace(quiet, **options), stream)
                rates[name].append(found.throughput)
        yield {
            "measure": "draws", "network": table.recording.name, "places": count,
            "period": period, "duration": duration, "draws": draws,
            **{name: statistics.fmean(of) / statistics.fmean(rates["static"])
               for name, of in rates.items()},
        }  # fmt: skip


def stream_rows(
    table: Table, stream: Stream, mode: str, period: int, duration: int
) -> Iterator[Row]:
    """All policies on one stream."""
    count = len(stream.places)
    quiet = setting_of(table, count)
    assert quiet.seconds is not None
    peak = 1 / bottleneck(quiet.seconds, quiet.static)
    best = best_throughput(stream)
    bound = len(best) / sum(1 / rate for rate in best)  # NaN where the best is not proven
    for name, (policy, options) in POLICIES.items():
        found = replay_stream(make_policy(policy), replace(quiet, **options), stream)
        yield {
            "measure": f"{table.prefix}grid", "network": table.recording.name, "places": count,
            "mode": mode, "period": period, "duration": duration, "policy": name,
            **figures(found, peak),
            "of_best": None if math.isnan(bound) else found.throughput / bound,
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


def lasting_rows(table: Table, count: int) -> Iterator[Row]:
    """One disturbance that stays: what `resolve` reaches, with how many trials, for each."""
    recording = table.recording
    setting = setting_of(table, count)
    for scenario in table.scenarios:
        for place in range(count):
            event = Disturbance(scenario, place, _ONSET, 200)
            stream = Stream(recording, setting.places, 200, (event,), instant=True)
            seconds = recording.seconds_on(setting.places, {place: scenario})
            best = find_optimum(seconds, setting.places).bottleneck
            row: Row = {
                "measure": f"{table.prefix}lasting", "network": recording.name, "places": count,
                "scenario": scenario, "place": place,
            }  # fmt: skip
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


def scaling_rows(table: Table, counts: Sequence[int], requests: int) -> Iterator[Row]:
    """The same on more and more places, disturbed half of the time for a hundred requests."""
    for count in counts:
        events = disturbances(table.scenarios, count, requests, 200, 100, seed=count)
        stream = Stream(table.recording, table.places(count), requests, events)
        for row in stream_rows(table, stream, "flowing", 200, 100):
            yield row | {"measure": f"{table.prefix}scaling"}
