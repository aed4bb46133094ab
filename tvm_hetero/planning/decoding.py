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
Where memory ends this, it is the G that fits and makes most tokens. Then L / G is what counts, not
T, and the plan of the least L for that G may be the better one                        ->
`_add_batches`

Solvers are asked in turn until the gap is small enough: counting devices that are alike, which
closes most clusters within seconds; shares of a batch; then everything that suits
(`ask_in_turn`).
The time limit is one deadline for all of them, which is handed on: each is told what is left as its
clock, while its work is counted from a limit that does not depend on the machine.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm_hetero.check.checker import verified
from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.ask_in_turn import LEAST, solve_in_turn
from tvm_hetero.planning.decoder_plan import DecoderPlan, DecoderRequest, one_pass
from tvm_hetero.planning.route import route_of
from tvm_hetero.planning.service import Service, steady_rate
from tvm_hetero.planning.told_progress import say_number, say_why, without_stops
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import loads
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import placement_of, write_period
from tvm_hetero.views.instance import instance_of

# Times that a plan is made again because it needs more batches in flight than it was made for, the
# gap that is good enough for counting them, and the part of the time that each may take.
_ROUNDS = 8
_ROUGH = 0.1
_PART = 0.3
# The part of the time that a climb leaves to the solvers that come after it, if its best plan is
# not proven.
_LAST = 0.4
_STEP = 1.6
_MOST_IN_FLIGHT = 4096
# How far what is played may be behind before more batches are wanted.
_NEAR = 1.02
# Legs of batches that are played, about ten microseconds each, and rounds of all batches.
_WORK = 300_000
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 12
# Batches in flight are far too few where it would take so many times their number.
_FEW = 2
# A step of the climb that is too fine to find another number of batches in flight.
_FINE = 1.02


def plan_decoder(
    wish: DecoderRequest, options: Options = Options(time_limit=10.0, gap=0.01)
) -> DecoderPlan:
    """Plan a decoder's steps.

    Parameters
    ----------
    wish : the request.
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
    began = options.clock()
    deadline = began + options.time_limit
    found = _plan(wish, without_stops(options), deadline)
    few = wish.kind == "throughput" and _needs_more_batches(found)
    say_why(found, options, few_batches=few, late=options.clock() >= deadline)
    return replace(found, seconds=options.clock() - began)


def _plan(wish: DecoderRequest, options: Options, deadline: float) -> DecoderPlan:
    """The best plan by the deadline, of as many batches in flight as are asked for or do best."""
    found = None
    if wish.kind == "throughput":
        if wish.in_flight is None:
            found = _filled(wish, options, deadline)
        else:
            quick = _quick(options)
            found = _made(wish, wish.in_flight, quick, deadline, quickly=True)
            found = _add_batches(found, quick, deadline)
    if found is None or not (
        _needs_more_batches(found) or _is_good_enough(found, options, deadline)
    ):
        in_flight = found.in_flight if found else wish.in_flight or 1
        made = _made(wish, in_flight, _left(options, deadline), deadline, found)
        found = _better(found, made)
    return found


def _quick(options: Options) -> Options:
    """The same work for each plan of a climb, so that a busy machine gives the same plans."""
    limit = max(LEAST, _PART * options.time_limit)
    return replace(options, gap=max(options.gap, _ROUGH), time_limit=limit)


def _needs_more_batches(plan: DecoderPlan) -> bool:
    """Whether batches in flight are far too few: L / G counts, and not T."""
    return plan.in_flight * _FEW < plan.needed


def _left(options: Options, deadline: float) -> Options:
    """The options with work for the time that is left."""
    return replace(options, time_limit=max(LEAST, deadline - options.clock()))


def _closed(plan: DecoderPlan, options: Options) -> bool:
    """Whether a plan is proven to be good enough for its number of batches."""
    return options.within_gap(plan.schedule.value, plan.schedule.lower_bound)


def _is_good_enough(plan: DecoderPlan, options: Options, deadline: float) -> bool:
    """Whether a plan is good enough, or the time is up."""
    return _closed(plan, options) or options.clock() >= deadline


def _better(one: DecoderPlan | None, other: DecoderPlan) -> DecoderPlan:
    if one is not None and one.tokens_per_second > other.tokens_per_second:
        return one
    return other


def _made(
    request: DecoderRequest,
    in_flight: int,
    options: Options,
    deadline: float,
    start: DecoderPlan | None = None,
    *,
    quickly: bool = False,
) -> DecoderPlan:
    problem = request.problem(in_flight)
    say_number(options, in_flight)
    if start is not None:
        options = replace(options, start=start.schedule)
    schedule = solve_in_turn(problem, options, deadline, quickly=quickly)
    busy = loads(problem, schedule.executions, schedule.copies)
    found = DecoderPlan(
        request, problem, schedule, in_flight, one_pass(problem, schedule), max(busy.values())
    )
    return replace(found, played=_played(found))


def _add_batches(plan: DecoderPlan, options: Options, deadline: float) -> DecoderPlan:
    """Where batches are far too few: the plan, or that of the least latency if it makes more.

    The plan comes back with what is proven for a step of one batch.
    """
    if not _needs_more_batches(plan) or options.clock() >= deadline:
        return plan
    request, problem = plan.wish, plan.problem
    alone = replace(request, kind="latency").problem(plan.in_flight)
    try:
        swift = solve_in_turn(alone, options, deadline, quickly=True)
    except (InfeasibleError, SolverError):
        return plan
    plan = replace(plan, pass_bound=swift.lower_bound)
    instance = instance_of(problem)
    placement = placement_of(instance, swift)
    if placement is None or exact_value(instance, placement) == math.inf:
        return plan  # it divides the batch, or what is under way at once does not fit
    steps = write_period(instance, placement)
    made = make_schedule(problem, swift.solver, *steps, seed=options.seed)
    made = replace(made, lower_bound=plan.schedule.lower_bound,
                   best_single_device=plan.schedule.best_single_device)  # fmt: skip
    made = verified(problem, made)
    other = replace(
        plan, schedule=made, pass_seconds=one_pass(problem, made), period=made.value, played=None
    )
    return _better(plan, replace(other, played=_played(other)))


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


def _filled(request: DecoderRequest, options: Options, deadline: float) -> DecoderPlan:
    """A quick plan with caches for as many batches as make most tokens.

    A climb from the least number that could do: up while batches still wait for each other, down
    while caches drive weights to slower places, in steps that shrink.
    """
    quick = _quick(options)
    first = _made(request, 1, quick, deadline, quickly=True)
    most = _most_batches(request, first.problem)
    tried = {1}
    best, wanted, step, since = first, min(first.needed, most), _STEP, options.clock()
    for _ in range(_ROUNDS):
        # One batch alone is no plan for many; another round takes as long as those so far.
        now, rounds = options.clock(), len(tried) - 1
        aside = (
            0.0
            if _needs_more_batches(best) or _closed(best, options)
            else _LAST * options.time_limit
        )
        late = rounds > 0 and now + (now - since) / rounds >= deadline - aside
        if wanted in tried or late:
            break
        tried.add(wanted)
        found = _fitting(request, wanted, quick, deadline)
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


def _fitting(
    request: DecoderRequest, in_flight: int, options: Options, deadline: float
) -> DecoderPlan | None:
    """A quick plan; None if so many batches do not fit."""
    try:
        plan = _made(request, in_flight, options, deadline, quickly=True)
        return _add_batches(plan, options, deadline)
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


def _most_batches(request: DecoderRequest, one: Problem) -> int:
    """Batches whose caches fit if memory were in one piece; `one` is the problem of one batch."""
    weights = [sum(task.weight_bytes for task in p.tasks) for p in (one, request.problem(2))]
    platform = request.platform
    # Teams of a node see one memory.
    sizes = [platform.devices[d].memory for d in sorted(set(platform.memory_of))]
    each = weights[1] - weights[0]
    if each == 0 or None in sizes:
        return _MOST_IN_FLIGHT
    room = sum(size for size in sizes if size is not None) - (weights[0] - each)
    return max(1, min(_MOST_IN_FLIGHT, room // each))
