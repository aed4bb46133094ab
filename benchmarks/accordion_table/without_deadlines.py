"""Queries without deadline among others: what wider shares for them cost those that have one.

Queries of one item on shares as a server has them (`profiles.served`): all operators on a team, of
which the last core may bring little. Half of the queries have no deadline, or all of them. The
rows are of Accordion: as it is; with `gain` alone, which keeps out what brings next to nothing; and
`whole`, where such a query takes all that ends it soonest.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.accordion_table.profiles import served
from benchmarks.accordion_table.streams import INTENSITIES, MODELS, Row
from tvm_hetero.serve.scheduling.arrivals import (
    SLO_LEVELS,
    QueryMix,
    draw_poisson,
    mean_work,
    slo_rule,
)
from tvm_hetero.serve.scheduling.outcome import QueryOutcome
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.query import Query
from tvm_hetero.serve.scheduling.replay import replay_queries

MEASURES = {"half without": 0.5, "all without": 1.0}
OPTIONS = {
    "accordion": AccordionOptions(),
    "gain alone": AccordionOptions(free_efficiency=0.0),
    "whole": AccordionOptions(free_gain=0.0, free_efficiency=0.0),
}
LEVEL = "moderate"
_MIX = QueryMix(MODELS, items=(1,))
_INTENSITIES = ("low", "middle")  # beyond, queries that nobody refuses wait ever longer


def free_rows(places: Sequence[int], count: int, seeds: Sequence[int]) -> Iterator[Row]:
    """A row for each pool, intensity and option, figures as means over the seeds."""
    for measure, share in MEASURES.items():
        for number in places:
            for intensity in _INTENSITIES:
                for name, options in OPTIONS.items():
                    figures = [
                        _figures(number, _stream(number, intensity, share, count, seed), options)
                        for seed in seeds
                    ]
                    late, slower = zip(*figures, strict=True)
                    yield {
                        "measure": measure, "places": number, "intensity": intensity,
                        "level": LEVEL, "policy": name, "late": _mean(late),
                        "free_latency": _mean(slower),
                    }  # fmt: skip


def _stream(places: int, intensity: str, share: float, count: int, seed: int) -> list[Query]:
    profile = served(MODELS, places)
    rate = INTENSITIES[intensity] * places / mean_work(profile, _MIX)
    queries = draw_poisson(_MIX, slo_rule(profile, SLO_LEVELS[LEVEL]), rate, count, seed)
    draw = random.Random(seed)
    return [replace(q, deadline=math.inf) if draw.random() < share else q for q in queries]


def _figures(
    places: int, queries: Sequence[Query], options: AccordionOptions
) -> tuple[float | None, float]:
    """The share of those with a deadline that were late or refused, and the mean latency of the
    others over what each takes on one place."""
    profile = served(MODELS, places)
    outcomes = replay_queries(Accordion(profile, places, options), queries)

    def slower(each: QueryOutcome) -> float:
        return each.latency / profile.latency(each.query.model, each.query.items, 1)

    due = [each.met for each in outcomes if each.query.deadline < math.inf]
    free = [slower(each) for each in outcomes if each.query.deadline == math.inf]
    return (1 - sum(due) / len(due) if due else None), statistics.fmean(free)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
