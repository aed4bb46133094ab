"""How large a share of a class's requests one replica takes within the SLO.

c(k, o) is the largest share s (in `UNITS`) whose mean rate is below what a replica of o can go on
answering for ever (`tvm_hetero.planning.choosing.steady`), and for which a replica that gets an
interval of length s (`tvm_hetero.planning.choosing.arrivals`) keeps every limit of k, at each of
`_BEGINS` where the interval begins. It is found by bisection of what a simulation says; shares
between those that were simulated are not claimed, nor those without a request.

The load goes on
A class's requests come again and again. What a repetition leaves in the queue stands in the way of
the next one, so that a burst at the end of the load is no better than one in its middle. Where a
replica is idle at the same request of two repetitions, what is between goes on for ever. Else the
last but one of `_REPEATS` counts: below the steady rate what is left over grows no more after the
first one (a queue that is never empty shrinks in a repetition, and the more was left the more is
left); and who comes after a repetition is in its last batches, and makes them slower.

A bound that needs no simulation                                                  -> `most_share`
Let a limit say that q % of the requests are done within S. Those arrive within D, so they are done
within D + S after the first one came; a batch with one of them takes L(n) <= S; batches of one
replica follow each other. With theta = max n / L(n) over n with L(n) <= S, at most (D + S) theta
requests are in time, whatever the dispatcher does, and so at most (D + S) theta / (q / 100) are
asked. A decoder's bound is what it can go on answering, which takes one simulation. An option whose
bound is below what another one of the same variant and machine was shown to carry is dominated, and
not simulated: see `tvm_hetero.planning.choosing.options`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_hetero.planning.choosing.arrivals import UNITS, marks_of, members_of
from tvm_hetero.planning.choosing.replica_plan import (
    ReplicaOption,
    idle_watts,
    joules_above_idle,
)
from tvm_hetero.planning.choosing.request import RequestClass, SloLimit
from tvm_hetero.planning.choosing.steady import arrival_seconds, steady_rate, steady_share
from tvm_hetero.planning.requests import ServiceRequest
from tvm_hetero.planning.service import Served, play
from tvm_hetero.solvers.core.deadline import Deadline, check_left

# Where the intervals begin with which a share is tried.
_BEGINS = (0, UNITS * 3 // 8)
# How often a load is played that does not end in time.
_REPEATS = 3
# Bisection ends at this part of the share.
_FINE = 200
# Longer than any queue that is left is worked off, s.
_ALL = 1e7


@dataclass(frozen=True)
class ShareOutcome:
    """What became of a replica's requests: seconds of each figure, and joules above idling.

    `joules` is NaN where watts are not known; `end` is when the last batch was done, s. Of requests
    that come again and again both are those of one repetition.
    """

    figures: Mapping[str, Sequence[float]]
    joules: float
    end: float = 0.0


def capacity_of(
    option: ReplicaOption,
    served: RequestClass,
    seconds: float,
    most: int = UNITS,
    ends: Deadline | None = None,
) -> tuple[int, float]:
    """c(k, o), at most `most`, and the watts of a replica with that share (NaN: not known).

    Raises
    ------
    SolverError
        If `ends` has passed.
    """
    marks = marks_of(len(served.requests))
    period, steady = arrival_seconds(served, seconds), steady_rate(option, served)
    outcomes: dict[int, list[ShareOutcome]] = {}

    def carries(share: int) -> bool:
        tried = outcomes.setdefault(share, [])
        for begin in _BEGINS:
            check_left(ends, "choose", f"while the shares of {served.name!r} are simulated")
            chosen = [served.requests[i] for i in members_of(marks, begin, share)]
            # An interval may have a request more than its share.
            if not 0 < len(chosen) < steady * period:
                return False
            tried.append(serve(option, chosen, period))
            if not all(holds(limit, tried[-1].figures) for limit in served.slo):
                return False
        return True

    low, high = 0, min(most, steady_share(steady, served, seconds))
    if high and carries(high):
        low = high
    while high - low > max(1, low // _FINE):
        middle = (low + high) // 2
        low, high = (middle, high) if carries(middle) else (low, middle)
    if not low:
        return 0, math.nan
    return low, max(mean_watts(option, each, served, seconds) for each in outcomes[low])


def mean_watts(
    option: ReplicaOption, outcome: ShareOutcome, served: RequestClass, seconds: float
) -> float:
    """What a replica draws in the mean while its class arrives, again and again; NaN: not known."""
    idle = idle_watts(option.machine)
    if idle is None:
        return math.nan
    return idle + outcome.joules / arrival_seconds(served, seconds)


def most_share(option: ReplicaOption, served: RequestClass, seconds: float) -> int:
    """What c(k, o) is at most (see the head of this file), in `UNITS`."""
    steady = steady_share(steady_rate(option, served), served, seconds)
    if not option.seconds:
        return steady
    requests = served.requests
    length = requests[-1].arrival - requests[0].arrival
    fewest = math.inf
    for limit in served.slo:
        batches = [(n, s) for n, s in enumerate(option.seconds) if n and s <= limit.seconds]
        rates = [n / s if s else math.inf for n, s in batches]
        in_time = (length + limit.seconds) * max(rates, default=0.0)
        fewest = min(fewest, in_time * 100 / limit.percentile)
    count = int(min(fewest, len(requests)) * (1 + 1e-9))
    if count >= len(requests):
        return steady
    # The first interval: what has more than `count` marks in it is too long.
    return min(steady, int(np.sort(marks_of(len(requests)))[count]))


def serve(
    option: ReplicaOption, requests: Sequence[ServiceRequest], period: float = math.inf
) -> ShareOutcome:
    """One replica alone with its requests, which come again every `period` s.

    In short for a network, else by `repeat_share`.
    """
    if not option.seconds:
        return repeat_share(option, requests, period)
    arrivals = [each.arrival for each in requests]
    times, sizes, end = serve_batches(arrivals, option.seconds, period)
    joules = math.fsum(option.joules[n] for n in sizes) if option.joules else math.nan
    return ShareOutcome(_figures(times, times, []), joules, end)


def serve_batches(
    arrivals: Sequence[float], seconds: Sequence[float], period: float = math.inf
) -> tuple[list[float], list[int], float]:
    """How long each request takes, and the sizes of batches, of a replica with one at a time.

    The rules of `tvm_hetero.planning.service` where one answer is all of a request: whoever waits
    when a batch ends goes into the next, first come first; who comes to an idle replica goes alone.

    A request that finds it idle in two repetitions one after the other divides them: what is
    between is alike for ever, and is what is returned, with the end of its last batch. That may
    begin in the middle of the first repetition and end in the next one.
    """
    count, most = len(arrivals), len(seconds) - 1
    every, times, sizes, starts = list(arrivals), list[float](), list[int](), list[int]()
    now, i, idle = -math.inf, 0, set[int]()
    while count and i < _REPEATS * count:
        while i + most >= len(every):
            shift = len(every) // count * period
            every += [each + shift for each in arrivals]
        n = 1
        if every[i] > now:
            if i - count in idle:
                break
            idle.add(i)
            now = every[i]
        else:
            while n < most and every[i + n] <= now:
                n += 1
        now += seconds[n]
        times += [now - each for each in every[i : i + n]]
        sizes.append(n)
        starts.append(i)
        i += n
    # Where it is never idle, the repetition before the last one: who comes later is in its batches.
    until = i if i < _REPEATS * count else (_REPEATS - 1) * count
    own = slice(bisect_left(starts, until - count), bisect_left(starts, until))
    return times[until - count : until], sizes[own], now


def repeat_share(
    option: ReplicaOption, requests: Sequence[ServiceRequest], period: float
) -> ShareOutcome:
    """What `play_share` makes of requests that come again every `period` s.

    `joules` and `end` are of a repetition in the mean.
    """
    lone = option.seconds[1] if option.seconds else 0.0
    if not requests or requests[-1].arrival + lone <= requests[0].arrival + period:
        once = play_share(option, requests)
        if not requests or once.end <= requests[0].arrival + period:
            return once
    every = [
        replace(each, arrival=each.arrival + i * period)
        for i in range(_REPEATS)
        for each in requests
    ]
    whole = play_share(option, every)
    counted = slice((_REPEATS - 2) * len(requests), (_REPEATS - 1) * len(requests))
    return ShareOutcome(
        {name: values[counted] for name, values in whole.figures.items()},
        whole.joules / _REPEATS,
        whole.end - (_REPEATS - 1) * period,
    )


def play_share(option: ReplicaOption, requests: Sequence[ServiceRequest]) -> ShareOutcome:
    """The same, event by event, by the simulator of ``tvm-hetero simulate``."""
    if not requests:
        return ShareOutcome(_figures([], [], []), 0.0)
    # What is looked at is everything, the queue that is left after the last arrival too.
    outcome = play(option.service, requests, _ALL + requests[-1].arrival)
    busy = {resource: share * outcome.seconds for resource, share in outcome.busy.items()}
    joules = joules_above_idle(option.machine, busy, _working(outcome.served))
    firsts = [each.to_first for each in outcome.served]
    gaps = [each.each for each in outcome.served]
    figures = _figures([each.in_system for each in outcome.served], firsts, gaps)
    return ShareOutcome(figures, joules, outcome.end)


def _working(every: Sequence[Served]) -> float:
    """Seconds in which some request has a slot, and so is worked on."""
    total, until = 0.0, -math.inf
    for begin, end in sorted((each.admitted, each.last) for each in every):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _figures(
    latency: list[float], ttft: list[float], tpot: list[float]
) -> dict[str, Sequence[float]]:
    return {"latency": latency, "ttft": ttft, "tpot": tpot}


def holds(limit: SloLimit, figures: Mapping[str, Sequence[float]]) -> bool:
    """Whether so many requests are within a limit; none at all are."""
    return reached(limit, figures) <= limit.seconds


def reached(limit: SloLimit, figures: Mapping[str, Sequence[float]]) -> float:
    """The least number of seconds that so many percent of the requests are within.

    Requests without such a figure (NaN: a single token has no `tpot`) do not count.
    """
    values = sorted(each for each in figures[limit.figure] if not math.isnan(each))
    if not values:
        return 0.0
    return values[-(-len(values) * limit.percentile // 100) - 1]
