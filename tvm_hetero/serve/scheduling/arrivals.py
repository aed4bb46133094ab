"""Streams of queries: Poisson, in bursts, or from a trace. All are drawn from a seed.

SLOs are multiples of the least latency (the query alone, on all places). The paper has three levels
and does not say which multiples: ours are `SLO_LEVELS`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority, Query

SLO_LEVELS = {"strict": 1.5, "moderate": 3.0, "relaxed": 6.0}
# Model and items -> seconds.
SloRule = Callable[[str, int], float]


@dataclass(frozen=True)
class QueryMix:
    """Of what queries are drawn: any model, any of `items`, a share of them high."""

    models: tuple[str, ...]
    items: tuple[int, ...] = (1, 2, 4, 8, 16)
    high: float = 0.5

    def __post_init__(self) -> None:
        if not self.models or not self.items or min(self.items) < 1 or not 0 <= self.high <= 1:
            raise UsageError(f"expected models, items of 1 at least and 0 <= high <= 1, got {self}")


def slo_rule(profile: ServiceProfile, multiple: float) -> SloRule:
    """A multiple of the least latency."""
    return lambda model, items: multiple * profile.least_latency(model, items)


def mean_work(profile: ServiceProfile, mix: QueryMix) -> float:
    """Place-seconds that a query of a mix takes on one place, where nothing is lost."""
    works = [profile.latency(model, n, 1) for model in mix.models for n in mix.items]
    return math.fsum(works) / len(works)


def draw_poisson(mix: QueryMix, slo: SloRule, rate: float, count: int, seed: int) -> list[Query]:
    """`count` queries, `rate` a second."""
    draw = random.Random(seed)
    return _queries(mix, slo, _steps(draw, rate, count), draw)


def draw_bursts(
    mix: QueryMix,
    slo: SloRule,
    rate: float,
    count: int,
    seed: int,
    *,
    period: float,
    duty: float = 0.25,
) -> list[Query]:
    """`count` queries, `rate` a second in the mean, all in the first part of every period.

    Parameters
    ----------
    period : seconds from the beginning of a burst to that of the next one.
    duty : the part of a period that a burst takes, 0 to 1.
    """
    if not 0 < duty <= 1 or not period > 0:
        raise UsageError(f"expected a period > 0 and 0 < duty <= 1, got {period} and {duty}")
    draw = random.Random(seed)
    busy = _steps(draw, rate / duty, count)
    burst = period * duty
    return _queries(mix, slo, (t // burst * period + t % burst for t in busy), draw)


def _steps(draw: random.Random, rate: float, count: int) -> Iterator[float]:
    if not rate > 0:
        raise UsageError(f"expected a rate above 0 queries a second, got {rate}")
    time = 0.0
    for _ in range(count):
        time += draw.expovariate(rate)
        yield time


def _queries(
    mix: QueryMix, slo: SloRule, times: Iterator[float], draw: random.Random
) -> list[Query]:
    found = []
    for number, time in enumerate(times):
        model, items = draw.choice(mix.models), draw.choice(mix.items)
        priority = Priority.HIGH if draw.random() < mix.high else Priority.LOW
        found.append(Query(number, model, items, time, time + slo(model, items), priority))
    return found


def parse_trace(lines: Sequence[str]) -> list[Query]:
    """Queries of a trace: a line ``seconds model items high|low slo_seconds|-`` each.

    Empty lines and those that begin with ``#`` are passed over.

    Raises
    ------
    FormatError
        If a line is anything else, or an arrival is before the last one.
    """
    found: list[Query] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            query = _parse_line(line, number, len(found))
            if found and query.arrival < found[-1].arrival:
                raise FormatError(f"trace, line {number}: arrives before the line above it")
            found.append(query)
    return found


def _parse_line(line: str, number: int, index: int) -> Query:
    try:
        seconds, model, items, priority, slo = line.split()
        arrival = float(seconds)
        deadline = math.inf if slo == "-" else arrival + float(slo)
        if not 0 <= arrival < math.inf:
            raise ValueError(seconds)
        return Query(index, model, int(items), arrival, deadline, Priority[priority.upper()])
    except (ValueError, KeyError, UsageError) as error:
        raise FormatError(
            f"trace, line {number}: expected 'seconds model items high|low slo_seconds|-', "
            f"got {line.strip()[:80]!r}"
        ) from error
