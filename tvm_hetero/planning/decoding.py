"""A plan for decoding: the partition, and what it is worth in tokens.

An element is a sequence, a batch of B sequences takes one step together: B tokens. Let L be the
seconds of one step of a batch through the whole plan, and T those of the busiest device (or
exclusive link) of it. With G batches in flight, each with keys and values of its own,

    tokens a second            B / max(T, L / G)
    seconds a token            max(L, G T)          of every sequence, while all batches are full

at best: batches also wait for each other where their ways cross. What is left is found by playing
the plan with all batches full (`tvm_hetero.planning.service.steady_rate`)              -> `_played`

For latency L is minimised, and G is 1 unless asked for. For throughput T is, and G grows from the
least number with G T >= L until what is played comes near B / T. Caches of G B sequences have to
be in memory, so G changes the problem and the plan changes G: plan, play, plan again   -> `_filled`
Where memory ends this, it is the G that fits and makes most tokens.

Solvers are asked in turn until the gap is small enough: counting devices that are alike, which
closes most clusters within seconds; shares of a batch; then everything that suits      -> `_solved`
The time limit is one deadline for all of them, which is handed on: each is told what is left as its
clock, while its work is counted from a limit that does not depend on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tvm_hetero import zoo
from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.objective import loads, makespan
from tvm_hetero.planning.route import in_order, route_of
from tvm_hetero.planning.service import Service, steady_rate
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.schedule import Schedule
from tvm_hetero.solvers import Options, solve

# Times that a plan is made again because it needs more batches in flight than it was made for, the
# gap that is good enough for counting them, and the part of the time that each may take.
_ROUNDS = 8
_ROUGH = 0.1
_PART = 0.3
_STEP = 1.6
_MOST_IN_FLIGHT = 4096
# How far what is played may be behind before more batches are wanted.
_NEAR = 1.02
# Legs of batches that are played, about ten microseconds each, and rounds of all batches.
_WORK = 300_000
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 12
# Seconds that a solver is given as long as there is no plan: those that count devices do their
# counted work in fewer.
_LEAST = 3.0
# A step of the climb that is too fine to find another number of batches in flight.
_FINE = 1.02


@dataclass(frozen=True)
class Wish:
    """What is to be planned.

    Attributes
    ----------
    model : a network of the zoo; `parameters` of it, such as ``context`` and ``shards``.
    kind : ``latency`` of a step, or ``throughput`` of many.
    batch : sequences that take a step together.
    in_flight : batches under way together; None: 1 for latency, as many as it takes for throughput.
    """

    model: str
    platform: Platform
    kind: Literal["latency", "throughput"] = "latency"
    batch: int = 1
    in_flight: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def problem(self, in_flight: int, **changes: Any) -> Problem:
        """The scheduling problem, with caches for so many batches."""
        return zoo.problem(
            self.model,
            self.platform,
            Objective(self.kind, self.batch),
            in_flight=in_flight,
            **(dict(self.parameters) | changes),
        )


@dataclass(frozen=True)
class DecoderPlan:
    """A wish and its plan.

    Attributes
    ----------
    in_flight : batches whose caches have a place.
    pass_seconds : one step of one batch through the plan; period : of the busiest device (or
        exclusive link).
    played : tokens a second of a simulation with all batches full; None where it would take long,
        and for a single batch, which waits for nobody.
    seconds : that planning took.
    """

    wish: Wish
    problem: Problem
    schedule: Schedule
    in_flight: int
    pass_seconds: float
    period: float
    played: float | None = None
    seconds: float = 0.0

    @property
    def needed(self) -> int:
        """Batches in flight with which the busiest device need not wait, the least number."""
        return batches_to_fill(self.pass_seconds, self.period)

    @property
    def at_best(self) -> float:
        """Tokens a second if batches in flight waited for the busiest device only."""
        return self.wish.batch / max(self.period, self.pass_seconds / self.in_flight)

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all sequences together, all batches full."""
        return self.at_best if self.played is None else self.played

    @property
    def seconds_per_token(self) -> float:
        """From one token of a sequence to its next, all batches full."""
        return self.sequences / self.tokens_per_second

    @property
    def sequences(self) -> int:
        """Sequences that have a place at once."""
        return self.wish.batch * self.in_flight


def plan_decoder(wish: Wish, options: Options = Options(time_limit=10.0, gap=0.01)) -> DecoderPlan:
    """Plan a decoder's steps.

    Parameters
    ----------
    options : time limit (s) for all of it, the gap that is good enough, seed, workers.

    Raises
    ------
    UsageError
        If the model or a parameter is unknown, or a number makes no sense.
    InfeasibleError
        If the model does not fit, even with one batch in flight; says how much is missing.
    SolverError
        If no plan was found in the time.
    """
    if wish.kind not in ("latency", "throughput"):
        raise UsageError(f"a decoder is planned for latency or throughput, not {wish.kind!r}")
    if wish.in_flight is not None and wish.in_flight < 1:
        raise UsageError(f"batches in flight: expected at least 1, got {wish.in_flight}")
    began = time.monotonic()
    deadline = began + options.time_limit
    found = None
    if wish.kind == "throughput" and wish.in_flight is None:
        found = _filled(wish, options, deadline)
    if found is None or not _enough(found, options, deadline):
        in_flight = found.in_flight if found else wish.in_flight or 1
        left = max(_LEAST, deadline - time.monotonic())
        made = _made(wish, in_flight, replace(options, time_limit=left), deadline, found)
        found = _better(found, made)
    return replace(found, seconds=time.monotonic() - began)


def batches_to_fill(pass_seconds: float, period: float) -> int:
    """The least G with G x period >= pass_seconds, but for rounding."""
    return max(1, math.ceil(pass_seconds / period * (1 - 1e-9))) if period > 0 else 1


def one_pass(problem: Problem, schedule: Schedule) -> float:
    """Seconds that one batch takes through a schedule, alone (L at the head of this file)."""
    if problem.objective.kind == "latency":
        return schedule.value
    steps = [(e.task, e.device, e.elements) for e in schedule.executions]
    return makespan(in_order(problem, steps).executions)


def _enough(plan: DecoderPlan, options: Options, deadline: float) -> bool:
    """Whether a plan is good enough, or the time is up."""
    schedule = plan.schedule
    return options.closes(schedule.value, schedule.lower_bound) or time.monotonic() >= deadline


def _better(one: DecoderPlan | None, other: DecoderPlan) -> DecoderPlan:
    if one is not None and one.tokens_per_second > other.tokens_per_second:
        return one
    return other


def _made(
    wish: Wish,
    in_flight: int,
    options: Options,
    deadline: float,
    start: DecoderPlan | None = None,
    *,
    quickly: bool = False,
) -> DecoderPlan:
    problem = wish.problem(in_flight)
    if start is not None:
        options = replace(options, start=start.schedule)
    schedule = _solved(problem, options, deadline, quickly=quickly)
    busy = loads(problem, schedule.executions, schedule.copies)
    found = DecoderPlan(
        wish, problem, schedule, in_flight, one_pass(problem, schedule), max(busy.values())
    )
    return replace(found, played=_played(found))


def _played(plan: DecoderPlan) -> float | None:
    """What a plan makes with all batches full: some rounds of all of them, after some others."""
    if plan.in_flight == 1:
        return None
    route = route_of(plan.problem, plan.schedule)
    rounds = int(_WORK / (plan.in_flight * len(route.legs)))
    if rounds < _LEAST_ROUNDS:
        return None
    each = plan.sequences / plan.at_best
    warmup, window = (min(rounds, most) / 3 * each for most in (_MOST_ROUNDS, 2 * _MOST_ROUNDS))
    service = Service(route, plan.in_flight, plan.wish.batch)
    return steady_rate(service, warmup + window, warmup)


def _filled(wish: Wish, options: Options, deadline: float) -> DecoderPlan:
    """A quick plan with caches for as many batches as make most tokens.

    A climb from the least number that could do: up while batches still wait for each other, down
    while caches drive weights to slower places, in steps that shrink.
    """
    # The same work for each, so that a busy machine gives the same plans as far as it comes.
    limit = max(_LEAST, _PART * options.time_limit)
    quick = replace(options, gap=max(options.gap, _ROUGH), time_limit=limit)
    first = _made(wish, 1, quick, deadline, quickly=True)
    most = _most_batches(wish, first.problem)
    tried = {1}
    best, wanted, step, longest = first, min(first.needed, most), _STEP, 0.0
    for _ in range(_ROUNDS):
        began = time.monotonic()
        late = len(tried) > 1 and began + longest >= deadline  # one batch alone is no plan for many
        if wanted in tried or late:
            break
        tried.add(wanted)
        found = _fitting(wish, wanted, quick, deadline)
        longest = max(longest, time.monotonic() - began)
        if found is None:
            most = wanted - 1
        if found is not None and found.tokens_per_second > best.tokens_per_second:
            best = found
        else:
            step **= 0.5
        near: list[int] = []
        while not near and step > _FINE:
            near = [n for n in _neighbours(best, first, step, most) if n not in tried]
            step = step if near else step**0.5
        wanted = near[0] if near else best.in_flight
    return best


def _fitting(wish: Wish, in_flight: int, options: Options, deadline: float) -> DecoderPlan | None:
    """A quick plan; None if so many batches do not fit."""
    try:
        return _made(wish, in_flight, options, deadline, quickly=True)
    except (InfeasibleError, SolverError):
        return None


def _neighbours(best: DecoderPlan, first: DecoderPlan, step: float, most: int) -> list[int]:
    """Numbers of batches that may make more tokens than `best`, the likeliest first."""
    if best is first:
        return [(1 + most) // 2]
    found = []
    if best.in_flight < best.needed or best.tokens_per_second * _NEAR < best.at_best:
        found.append(min(most, math.ceil(best.in_flight * step)))
    if best.period > _NEAR * first.period:
        found.append(math.floor(best.in_flight / step))
    # Enough of them, on places that are slower than they had to be: fewer first.
    return found[::-1] if best.in_flight > best.needed else found


def _most_batches(wish: Wish, one: Problem) -> int:
    """Batches whose caches fit if memory were in one piece; `one` is the problem of one batch."""
    weights = [sum(task.weight_bytes for task in p.tasks) for p in (one, wish.problem(2))]
    sizes = [device.memory for device in wish.platform.devices]
    each = weights[1] - weights[0]
    if each == 0 or None in sizes:
        return _MOST_IN_FLIGHT
    room = sum(size for size in sizes if size is not None) - (weights[0] - each)
    return max(1, min(_MOST_IN_FLIGHT, room // each))


def _solved(
    problem: Problem, options: Options, deadline: float, *, quickly: bool = False
) -> Schedule:
    """The best schedule of the solvers that are asked in turn; `quickly`: until there is one.

    Each is told what is left until the deadline; the first ones are given `_LEAST` s all the same.
    """
    best = options.start
    shared = problem.batch > 1 and problem.objective.kind == "throughput"
    for name in ("count-dp", *(["shares"] if shared else []), "auto"):
        left = deadline - time.monotonic()
        enough = left <= 0 or (quickly and name == "auto")
        if best is not None and (enough or options.closes(best.value, best.lower_bound)):
            break
        asked = replace(options, start=best, clock=max(left, _LEAST) if best is None else left)
        if name == "auto":
            best = solve(problem, name, asked)
            continue
        with suppress(SolverError):
            best = solve(problem, name, asked)
    assert best is not None, "auto finds a schedule, or says why not"
    return best
