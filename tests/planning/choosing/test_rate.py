"""What a replica carries: the short simulation, the long one, and the bound that needs neither."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

import pytest

from tests.planning.choosing.questions import WATTS, load, planned, question
from tvm_hetero.planning.choosing.arrivals import UNITS, marks_of, members_of
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.rate import (
    capacity_of,
    holds,
    most_share,
    play_share,
    repeat_share,
    serve,
    serve_batches,
)
from tvm_hetero.planning.choosing.replica_plan import joules_above_idle, pass_route
from tvm_hetero.planning.choosing.request import RequestClass, SloLimit
from tvm_hetero.planning.choosing.steady import steady_rate, use_of
from tvm_hetero.planning.requests import ServiceRequest


@pytest.mark.parametrize("seed", range(4))
def test_the_short_simulation_is_the_one_of_events(seed: int) -> None:
    requests = load("a", 40.0 + 60 * seed, 1.0, seed=seed).requests
    for option in planned():
        short, long = serve(option, requests), play_share(option, requests)
        assert short.figures["latency"] == pytest.approx(long.figures["latency"], abs=1e-9)
        assert short.joules == pytest.approx(long.joules, rel=1e-9)
        assert short.end == pytest.approx(long.end)
        assert short.figures["ttft"] == pytest.approx(long.figures["ttft"], abs=1e-9)


def test_batches_are_what_waits_and_at_most_what_fits() -> None:
    seconds = (0.0, 1.0, 1.5, 2.0)
    arrivals = [0.0, 0.0, 0.2, 0.5, 0.9, 9.0]
    times, sizes, end = serve_batches(arrivals, seconds)
    assert sizes == [1, 3, 1, 1]  # the first goes alone, though another comes at the same moment
    assert times == pytest.approx([1.0, 3.0, 2.8, 2.5, 3.1, 1.0]) and end == 10.0
    assert serve_batches([], seconds, 1.0)[:2] == ([], [])


@pytest.mark.parametrize("seed", range(6))
def test_no_option_carries_more_than_its_bound(seed: int) -> None:
    served = load("a", 150.0, 0.02 * (seed + 1), seed=seed)
    found = 0
    for option in planned():
        bound = most_share(option, served, 4.0)
        capacity, _ = capacity_of(option, served, 4.0)  # bisected from all of the class
        assert capacity <= bound
        found += capacity > 0
    assert found > 1


def test_a_share_that_is_claimed_holds_and_twice_as_much_does_not() -> None:
    served = load("a", 150.0, 0.06)
    option = next(each for each in planned() if each.name == "small on slow, batches of 4")
    capacity, watts = capacity_of(option, served, 4.0)
    marks = marks_of(len(served.requests))
    kept = [
        all(holds(limit, serve(option, [served.requests[i] for i in chosen]).figures)
            for limit in served.slo)
        for chosen in (members_of(marks, 0, capacity), members_of(marks, 0, 2 * capacity))
    ]  # fmt: skip
    assert kept == [True, False]
    assert 10.0 < watts < 60.0


def test_what_takes_no_time_carries_everything() -> None:
    """A rate of requests without end was taken for none at all."""
    request = question((load("a", 60.0, 0.3),))
    free = replace(planned()[0], seconds=(0.0, 0.0))
    assert most_share(free, request.classes[0], request.seconds) == UNITS
    assert capacity_of(free, request.classes[0], request.seconds, UNITS)[0] == UNITS


def test_every_request_is_in_one_interval_and_intervals_are_alike() -> None:
    marks = marks_of(1000)
    parts = [members_of(marks, begin, UNITS // 4) for begin in range(0, UNITS, UNITS // 4)]
    assert sorted(i for part in parts for i in part) == list(range(1000))
    assert {len(part) for part in parts} <= {249, 250, 251}
    steps = {b - a for part in parts for a, b in pairwise(part)}
    assert len(steps) <= 3  # the three-gap theorem


@pytest.mark.parametrize("seconds", [1.0, 8.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_short_load_hides_no_overload(seconds: float, seed: int) -> None:
    served = load("a", 1000.0, 1.0, seconds=seconds, seed=seed)
    for option in planned():
        capacity, _ = capacity_of(option, served, seconds)
        rate = capacity / UNITS * len(served.requests) / seconds
        assert 0 < rate < option.batch / option.seconds[option.batch]
        assert capacity <= most_share(option, served, seconds)


def test_watts_do_not_depend_on_how_long_the_question_says_that_a_trace_is() -> None:
    trace = tuple(ServiceRequest(5.0 + 0.02 * i, 1, 1) for i in range(1500))
    served = RequestClass("t", trace, (SloLimit("latency", 99, 0.5),), seconds=30.0)
    option = next(each for each in planned() if each.name == "small on slow, batches of 1")
    found = [capacity_of(option, served, seconds) for seconds in (0.5, 30.0, 300.0)]
    assert found[0] == found[1] == found[2]
    idle, busy = WATTS["slow"]
    assert idle < found[0][1] <= busy
    request = question((served,), seconds=0.5)
    (played,) = ChoicePlayer(request).play(((RatedOption(option, 0, UNITS, 0.0), 1),))
    assert played.watts == pytest.approx(idle + (busy - idle) * 1500 * 0.015 / 30)


def test_machine_watts_are_drawn_while_a_batch_is_under_way() -> None:
    option = next(each for each in planned() if each.name == "small on slow, batches of 4")
    whole = replace(option.machine, idle_watts=10.0, busy_watts=60.0)
    passes = [pass_route(option.service.step, n) for n in range(5)]
    joules = tuple(joules_above_idle(whole, each.busy, each.now) for each in passes)
    own = replace(option, machine=whole, joules=joules)
    requests = load("a", 40.0, 1.0).requests
    assert serve(own, requests).joules == pytest.approx(play_share(own, requests).joules)


def late_load(seed: int) -> RequestClass:
    """A load of 2 s with bursts, one of them at its end, so that a queue is left."""
    draw = random.Random(seed)
    served = load("a", draw.uniform(30, 200), draw.choice([0.3, 0.5, 1.0]), seconds=2.0, seed=seed)
    begins = [draw.uniform(0.8, 1.9), 1.9]
    bursts = [ServiceRequest(b + 0.0002 * i, 1, 1) for b in begins for i in range(90)]
    both = sorted([*served.requests, *bursts], key=attrgetter("arrival"))
    return replace(served, requests=tuple(both))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_claimed_holds_in_every_repetition_of_the_load(seed: int) -> None:
    served, often, stood_in_the_way = late_load(seed), 12, 0
    marks = marks_of(len(served.requests))
    for option in planned():
        capacity, _ = capacity_of(option, served, 2.0)
        members = [served.requests[i] for i in members_of(marks, 0, capacity)]
        every = [replace(e, arrival=e.arrival + 2.0 * i) for i in range(often) for e in members]
        times = serve(option, every).figures["latency"]
        for i in range(often):
            part = times[i * len(members) : (i + 1) * len(members)]
            assert holds(served.slo[0], {"latency": part})
        # A replica that ends after the next repetition has begun:
        stood_in_the_way += serve(option, members).end > members[0].arrival + 2.0
    assert stood_in_the_way


def test_what_a_repetition_leaves_is_in_the_way_of_the_next() -> None:
    option = next(each for each in planned() if each.name == "small on slow, batches of 1")
    burst = [ServiceRequest(0.9, 1, 1)] * 20  # 0.3 s of work, 0.1 s before the load begins anew
    requests = [ServiceRequest(0.0, 1, 1), *burst]
    for play in (serve, repeat_share):
        once, again = play(option, requests, 9.0), play(option, requests, 1.0)
        assert max(once.figures["latency"]) == pytest.approx(20 * 0.015)
        assert sorted(again.figures["latency"])[14] == pytest.approx(0.2 + 0.015)
        assert min(once.figures["latency"]) == pytest.approx(0.015)
        assert again.joules == pytest.approx(once.joules)
        assert play(option, requests, 1.3).figures == once.figures


@pytest.mark.parametrize("seed", range(3))
def test_short_and_long_simulation_repeat_alike(seed: int) -> None:
    served = late_load(seed)
    for option in planned():
        part = served.requests[:: 1 + seed]
        short, long = serve(option, part, 2.0), repeat_share(option, part, 2.0)
        if steady_rate(option, served) > 1.05 * len(part) / 2.0:
            figures = [sorted(each.figures["latency"]) for each in (short, long)]
            assert figures[0] == pytest.approx(figures[1], abs=1e-9)
            assert short.joules == pytest.approx(long.joules, rel=0.05)


def test_the_rate_that_was_asked_for_counts_where_fewer_came() -> None:
    served = load("a", 1000.0, 1.0, seconds=1.0)
    option = next(each for each in planned() if each.name == "small on slow, batches of 4")
    few = replace(served, requests=served.requests[::2])
    capacity, _ = capacity_of(option, replace(few, rate=1000.0), 1.0)
    assert capacity <= capacity_of(option, served, 1.0)[0] * 1.04
    assert capacity < 0.6 * capacity_of(option, few, 1.0)[0]
    assert use_of(steady_rate(option, few), capacity, replace(few, rate=1000.0), 1.0) < 1


def test_a_share_without_a_request_is_not_claimed() -> None:
    requests = tuple(ServiceRequest(0.4 * i, 1, 1) for i in range(5))
    served = RequestClass("a", requests, (SloLimit("latency", 50, 0.001),))
    assert all(capacity_of(option, served, 2.0)[0] == 0 for option in planned())
