"""What a replica carries: the short simulation, the long one, and the bound that needs neither."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

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
    serve,
    serve_batches,
)
from tvm_hetero.planning.choosing.replica_plan import joules_of
from tvm_hetero.planning.choosing.request import RequestClass, SloLimit
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
    ends, sizes = serve_batches([0.0, 0.0, 0.2, 0.5, 0.9, 9.0], seconds)
    assert sizes == [1, 3, 1, 1]  # the first goes alone, though another comes at the same moment
    assert ends == [1.0, 3.0, 3.0, 3.0, 4.0, 10.0]


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
    joules = joules_of(whole, option.service.step, option.seconds)
    own = replace(option, machine=whole, joules=joules)
    requests = load("a", 40.0, 1.0).requests
    assert serve(own, requests).joules == pytest.approx(play_share(own, requests).joules)
