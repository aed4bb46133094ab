"""The load of every hour, played on the machines of a plan.

In each hour so many seconds of requests are drawn, Poisson with the hour's rate, and divided among
the machines where a model gets time: each request at random, in proportion to what each machine
carries of it, so that each machine's arrivals are Poisson, as those are by which it was rated
(splitting: J. Kingman, Poisson Processes, 1993, section 5.1). A machine computes one batch at a
time. When it is free it takes the model whose oldest request has to be done first: that request's
arrival and the shortest limit of its SLO (earliest deadline first; C. Liu, J. Layland, J. ACM 20,
1973, doi:10.1145/321738.321743, there with preemption). Of that model it takes as many as wait, up
to the batch of the machine's mode. Batches take what their plans take. That weights are loaded for
the next hour is not felt: they come over another way than requests do, and are paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.planning.choosing.rate import reached
from tvm_hetero.planning.choosing.request import SloLimit
from tvm_hetero.planning.requests import Lengths, poisson
from tvm_hetero.planning.sharing.problem import DayPlan, MachineHour
from tvm_hetero.planning.sharing.rating import RatedSharing
from tvm_hetero.solvers.core.deadline import Deadline, check_left

_ONE = Lengths("fixed", 1.0)


@dataclass(frozen=True)
class PlayedModel:
    """What became of a model's requests in an hour."""

    hour: int
    model: int
    requests: int
    reached: Mapping[SloLimit, float]

    @property
    def strain(self) -> float:
        """The largest part of a limit that was needed: above 1 the SLO is broken."""
        return max(seconds / limit.seconds for limit, seconds in self.reached.items())

    @property
    def holds(self) -> bool:
        """Whether every limit is kept."""
        return all(seconds <= limit.seconds for limit, seconds in self.reached.items())


def replay_day(
    case: RatedSharing, plan: DayPlan, ends: Deadline | None = None
) -> tuple[PlayedModel, ...]:
    """Each model's requests of each hour in which it is asked.

    Raises
    ------
    UsageError
        If an hour has more requests than one simulation takes.
    SolverError
        If `ends` has passed.
    """
    found: list[PlayedModel] = []
    for t, hour in enumerate(plan):
        check_left(ends, "share", f"while hour {t} is played")
        found += _play_hour(case, t, hour)
    return tuple(found)


def _play_hour(case: RatedSharing, t: int, hour: Sequence[MachineHour]) -> list[PlayedModel]:
    request = case.request
    queues: list[dict[int, list[float]]] = [{} for _ in hour]
    asked = [i for i, model in enumerate(request.models) if model.rates[t] > 0]
    for i in asked:
        name = request.models[i].name.encode()
        seed = (request.seed, 1, t, *name)
        drawn = poisson(request.models[i].rates[t], request.seconds, _ONE, _ONE, seed)
        arrivals = [each.arrival for each in drawn]
        for n, own in _divide(case, t, i, hour, arrivals).items():
            queues[n][i] = own
    times: dict[int, list[float]] = {i: [] for i in asked}
    for each, queue in zip(hour, queues, strict=True):
        kind = case.problem.machines[each.machine]
        tables = {i: case.used[kind, each.mode, i].seconds for i in queue}
        patience = {i: request.models[i].patience for i in queue}
        for i, own in serve_machine(queue, tables, patience).items():
            times[i] += own
    return [
        PlayedModel(t, i, len(times[i]),
                    {limit: reached(limit, {limit.figure: times[i]})
                     for limit in request.models[i].slo})
        for i in asked
    ]  # fmt: skip


def _divide(
    case: RatedSharing, t: int, i: int, hour: Sequence[MachineHour], arrivals: Sequence[float]
) -> dict[int, list[float]]:
    """Arrivals of a model by the position of the machine that gets them."""
    carried = {}
    for n, each in enumerate(hour):
        mode = case.problem.kinds[case.problem.machines[each.machine]].modes[each.mode]
        if each.parts.get(i):
            carried[n] = mode.carries[i] * each.parts[i]
    found: dict[int, list[float]] = {n: [] for n in carried}
    seed = (case.request.seed, 2, t, *case.request.models[i].name.encode())
    ends, places = np.cumsum(list(carried.values())), list(carried)
    drawn = np.random.default_rng(seed).uniform(0.0, ends[-1], len(arrivals))
    for arrival, k in zip(arrivals, np.searchsorted(ends, drawn, side="right"), strict=True):
        found[places[k]].append(arrival)
    return found


def serve_machine(
    queues: Mapping[int, Sequence[float]],
    tables: Mapping[int, Sequence[float]],
    patience: Mapping[int, float],
) -> dict[int, list[float]]:
    """How long each request of each model takes on one machine (see the head of this file)."""
    left = {i: 0 for i, arrivals in queues.items() if arrivals}
    times: dict[int, list[float]] = {i: [] for i in queues}
    now = 0.0
    while left:
        now = max(now, min(queues[i][k] for i, k in left.items()))
        waiting = [i for i, k in left.items() if queues[i][k] <= now]
        i = min(waiting, key=lambda each: (queues[each][left[each]] + patience[each], each))
        first = last = left[i]
        most = first + len(tables[i]) - 1
        while last < min(most, len(queues[i])) and queues[i][last] <= now:
            last += 1
        now += tables[i][last - first]
        times[i] += [now - arrival for arrival in queues[i][first:last]]
        left[i] = last
        if last == len(queues[i]):
            del left[i]
    return times
