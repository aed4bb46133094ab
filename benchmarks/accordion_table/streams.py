"""Streams of the table: intensities, SLO levels, and a row for each policy on them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.accordion_table.profiles import instances, pipelines
from tvm_hetero.serve.scheduling.arrivals import (
    SLO_LEVELS,
    QueryMix,
    draw_bursts,
    draw_poisson,
    mean_work,
    slo_rule,
)
from tvm_hetero.serve.scheduling.outcome import figures_of
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.fixed_partitions import FixedPartitions
from tvm_hetero.serve.scheduling.policies.in_turn import InTurn
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.policies.packrat import Packrat
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Query
from tvm_hetero.serve.scheduling.replay import Deviation, replay_queries
from tvm_hetero.serve.scheduling.scheduler import Scheduler

Row = dict[str, Any]
MODELS = ("squeezenet", "inception_v1", "resnet50", "densenet121")
MIX = QueryMix(MODELS)
# Offered load: place-seconds on one place each, over those of the pool.
INTENSITIES = {"low": 0.4, "middle": 0.8, "high": 1.2}
# Measures: all as predicted; bursts; true times 10 % off, and twice as long for a while.
MEASURES = ("poisson", "bursts", "off")
OURS = {
    "accordion": AccordionOptions(),
    "accordion-even": AccordionOptions(weigh=False),
    "accordion-rigid": AccordionOptions(weigh=False, shrink=False, widen=False, guard=False),
}
BASELINES = tuple(name for name in SHARE_POLICIES if name != "accordion")
Maker = Callable[[], Scheduler]


def makers(places: int) -> dict[str, Maker]:
    """How to make each policy; of a baseline one that drops what is late and one that does not."""
    profile = pipelines(MODELS, places)
    found: dict[str, Maker] = {}
    for name, options in OURS.items():
        found[name] = lambda options=options: Accordion(  # type: ignore[misc]
            pipelines(MODELS, places), places, options
        )
    for name in BASELINES:
        for drop in (True, False):
            label = name if drop else f"{name}, no drop"
            found[label] = _baseline(name, profile, places, drop)
    return found


def _baseline(name: str, profile: ServiceProfile, places: int, drop: bool) -> Maker:
    kind = SHARE_POLICIES[name]
    if issubclass(kind, FixedPartitions):
        table = instances(MODELS, places, MIX.items) if kind is Packrat else profile
        return lambda: kind(table, places, loads(profile), drop_late=drop)
    assert issubclass(kind, InTurn)
    return lambda: kind(profile, places, drop_late=drop)


def loads(profile: ServiceProfile) -> Mapping[str, float]:
    """The work of each model's queries, in the mean."""
    return {m: statistics.fmean(profile.latency(m, n, 1) for n in MIX.items) for m in MODELS}


def stream(
    measure: str, places: int, intensity: str, level: str, count: int, seed: int
) -> list[Query]:
    """The queries of a cell."""
    profile = pipelines(MODELS, places)
    slo = slo_rule(profile, SLO_LEVELS[level])
    rate = INTENSITIES[intensity] * places / mean_work(profile, MIX)
    if measure == "bursts":
        return draw_bursts(MIX, slo, rate, count, seed, period=40 / rate, duty=0.5)
    return draw_poisson(MIX, slo, rate, count, seed)


def deviation_of(measure: str, queries: Sequence[Query], seed: int) -> Deviation:
    """How true times differ: not at all, or by noise and a slow third in the middle."""
    if measure != "off":
        return Deviation()
    last = queries[-1].arrival
    return Deviation(spread=0.1, seed=seed, slowdown=2.0, begin=last / 3, end=last / 2)


def cell_rows(
    measure: str, places: int, intensity: str, level: str, count: int, seeds: Sequence[int]
) -> Iterator[Row]:
    """A row for each policy, figures as means over the seeds."""
    for name, make in makers(places).items():
        found = []
        for seed in seeds:
            queries = stream(measure, places, intensity, level, count, seed)
            scheduler = make()
            outcomes = replay_queries(
                scheduler,
                queries,
                truth=truth_of(scheduler, places),
                deviation=deviation_of(measure, queries, seed),
                learn=measure == "off",
            )
            found.append(asdict(figures_of(outcomes, places)))
        figures = {key: _mean([each[key] for each in found]) for key in found[0]}
        yield {
            "measure": measure, "places": places, "intensity": intensity, "level": level,
            "policy": name, **figures,
        }  # fmt: skip


def _mean(values: Sequence[float]) -> float | None:
    """None where a policy served nothing, so that there is no latency."""
    mean = statistics.fmean(values)
    return None if math.isnan(mean) else mean


def stream_rows(queries: Sequence[Query], places: int) -> Iterator[Row]:
    """A row for each policy on one stream, as predicted."""
    for name, make in makers(places).items():
        figures = figures_of(replay_queries(make(), queries), places)
        yield {"places": places, "policy": name, **asdict(figures)}


def truth_of(scheduler: Scheduler, places: int) -> ServiceProfile:
    """What queries really take: a table of its own, of the kind that the policy has."""
    if isinstance(scheduler, Packrat):
        return instances(MODELS, places, MIX.items)
    return pipelines(MODELS, places)
