"""Whole answers: neighbours, what binds, what is refused, decoders."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.planning.choosing.questions import load, offer, question
from tests.planning.choosing.questions import rated as rate
from tvm_hetero import zoo
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.choosing import (
    ChoiceRequest,
    MachineOffer,
    ModelVariant,
    RequestClass,
    SloLimit,
    SpendingLimit,
    choose,
    front,
)
from tvm_hetero.planning.choosing.binding import binding_limits
from tvm_hetero.planning.choosing.find_choice import RatedRequest, find_choice
from tvm_hetero.planning.choosing.front import best_choice, find_front
from tvm_hetero.planning.choosing.options import check_request, plan_options, rate_options
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer, PlayedClass, divide_circle
from tvm_hetero.planning.choosing.program import ProgramAnswer, Replicas, money
from tvm_hetero.planning.choosing.replica_plan import plan_replica
from tvm_hetero.planning.requests import ServiceRequest
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.solvers import Options

TWO = (load("a", 120.0, 0.06, 75.0), load("b", 90.0, 0.3))
FAST = Options(0.1, deadline=60.0)


def test_an_answer_holds_its_slo_and_knows_its_neighbours() -> None:
    answer = choose(question(TWO), FAST)
    choice = answer.choice
    assert choice.bound <= choice.value == choice.price
    assert all(each.holds and each.strain <= 1 for each in choice.played)
    assert choice.accuracies[0] == 76.0
    assert answer.better is None or answer.better.accuracy > choice.accuracy
    assert answer.cheaper is None or answer.cheaper.price < choice.price
    prices = [each.price for each in answer.front]
    accuracies = [each.accuracy for each in answer.front]
    assert prices == sorted(prices) and accuracies == sorted(accuracies)
    assert len(set(prices)) == len(prices) > 1


def test_a_floor_that_binds_is_named_with_what_it_costs() -> None:
    case = rate(question((load("a", 120.0, 0.06, 75.0),)))
    choice = best_choice(case, "price")
    found = {each.what: each.value for each in binding_limits(case, choice, "price")[0]}
    free = best_choice(rate(question((load("a", 120.0, 0.06),))), "price")
    assert found["accuracy of at least 75 for a"] == free.price < choice.price


def test_a_machine_that_runs_out_binds() -> None:
    classes = (load("a", 65.0, 0.3, 75.0),)
    case = rate(question(classes, available=(1, 3)))
    choice = best_choice(case, "price")
    more = best_choice(rate(question(classes, available=(2, 3))), "price")
    assert more.price < choice.price
    found = {each.what: each.value for each in binding_limits(case, choice, "price")[0]}
    assert found["1 x slow"] == more.price


def test_the_best_accuracy_within_a_budget_and_its_front() -> None:
    case = rate(question(TWO, "accuracy", budget=SpendingLimit(price=100.0)))
    best = best_choice(case, "accuracy")
    assert best.accuracy == best.bound == 76.0
    assert find_front(case, "price")[0][-1].price == best.price
    tight = replace(case.request, budget=SpendingLimit(price=best.price - 0.1))
    less = best_choice(rate(tight), "accuracy")
    assert less.accuracy < 76.0 and less.price <= best.price - 0.1


def test_a_budget_of_watts_holds_when_the_choice_is_played() -> None:
    over = 0
    for seed in (1, 12, 14):
        classes = (load("a", 150.0, 0.06, seed=seed), load("b", 90.0 + seed, 0.3, 75.0, seed=seed))
        request = question(classes, "energy", (4, 4))
        free = best_choice(rate(request), "energy")
        over += free.watts > free.value
        for watts in (free.value, free.watts - 0.001, 1.1 * free.watts):
            try:
                kept = best_choice(
                    rate(replace(request, budget=SpendingLimit(watts=watts))), "energy"
                )
            except InfeasibleError:
                continue
            assert kept.watts <= watts and kept.bound <= kept.value
    assert over  # some draws more than the program says


def many_variants(count: int) -> RatedRequest:
    """A question with as many variants, of which each is slower than the one before."""
    d = offer("slow", 400)
    variants = tuple(
        ModelVariant(
            f"v{i}",
            65.0 + i,
            problems={
                "slow": Problem(
                    TaskGraph([Task("t")], []),
                    {"t": {"d": Cost(((1, 0.01 + 0.006 * i),))}},
                    d.platform,
                    Objective(),
                )
            },
        )
        for i in range(count)
    )
    classes = (load("a", 310.0, 0.3, seconds=1.0), load("b", 170.0, 0.3, seconds=1.0))
    request = ChoiceRequest(variants, (d,), classes, "front", seconds=1.0, batches=(1,))
    options = plan_options(request, FAST)
    kept, cut = rate_options(request, options)
    return RatedRequest(request, options, kept, cut, ChoicePlayer(request), Options(5.0))


def test_a_front_of_many_points_has_both_ends_and_says_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = many_variants(6)
    full, whole = find_front(case, "price")
    assert whole and len(full) > 12 and full[-1].accuracy == 70.0
    monkeypatch.setattr(front, "_WALK", 5)
    monkeypatch.setattr(front, "_BETWEEN", 4)
    few, whole = find_front(case, "price")
    assert not whole and 5 <= len(few) <= 9
    values = {(each.price, each.accuracy) for each in full}
    assert all((each.price, each.accuracy) in values for each in few)
    assert few[0].price == full[0].price and few[-1].accuracy == 70.0
    gaps = [b.accuracy - a.accuracy for a, b in pairwise(few)]
    assert max(gaps) < 0.5 * (70.0 - few[0].accuracy)
    monkeypatch.setattr(front, "_WALK", len(full))
    assert find_front(case, "price")[1]  # cut off where nothing follows


def test_a_point_that_fails_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    case = many_variants(3)
    full, _ = find_front(case, "price")
    failing = full[1].accuracy
    play = ChoicePlayer.play

    def played(self: ChoicePlayer, replicas: Replicas) -> tuple[PlayedClass, ...]:
        """As ever, but one of the points breaks its SLO whatever its margin."""
        found = play(self, replicas)
        counts = [len(each.requests) for each in self.request.classes]
        of = {rated.served: rated.option.variant.accuracy for rated, _ in replicas}
        mean = sum(counts[k] * of[k] for k in of) / sum(counts)
        broken = abs(mean - failing) < 1e-9
        return tuple(replace(each, holds=each.holds and not broken) for each in found)

    monkeypatch.setattr(ChoicePlayer, "play", played)
    left, whole = find_front(case, "price")
    assert not whole
    assert [each.accuracy for each in left] == [e.accuracy for e in full if e.accuracy != failing]


def test_what_breaks_its_slo_when_played_is_not_given() -> None:
    case = rate(question((load("a", 150.0, 0.06),)))
    honest = best_choice(case, "price")
    asked = []

    def pick(need: tuple[int, ...]) -> ProgramAnswer:
        """One replica of the slowest, however much is needed."""
        asked.append(need)
        slow = min(case.rated, key=lambda each: each.capacity)
        return ProgramAnswer(((slow, 1),), money(slow), 0)

    with pytest.raises(InfeasibleError, match="the SLO breaks in the simulation"):
        find_choice(case, pick, "price")
    assert len(asked) > 3 and asked[-1] > asked[0]
    assert all(each.holds for each in honest.played)


def test_a_short_load_is_answered_as_a_long_one_of_the_same_rate() -> None:
    answers = []
    for seconds in (1.0, 6.0):
        classes = (load("x", 600.0, 1.0, seconds=seconds),)
        request = question(classes, available=(0, 6), seconds=seconds)
        answers.append(best_choice(rate(request), "price"))
    assert answers[0].price == answers[1].price == 2 * 3.5
    assert all(0.8 < played.busiest < 1 for each in answers for played in each.played)


def test_replicas_divide_the_circle_without_a_rest() -> None:
    case = rate(question((load("a", 150.0, 0.3),)))
    pool = [(case.rated[0], 2), (case.rated[-1], 1)]
    ends = [(begin, begin + length) for _, begin, length in divide_circle(pool)]
    assert ends[0][0] == 0 and ends[-1][1] == 100_000
    assert [end for _, end in ends[:-1]] == [begin for begin, _ in ends[1:]]


def test_what_cannot_be_answered_is_refused() -> None:
    tokens = (replace(TWO[0], slo=(SloLimit("tpot", 99, 0.1),)),)
    longer = (replace(TWO[0], requests=(ServiceRequest(0.0, 5, 1),)),)
    free = MachineOffer("m", zoo.platform("h200x8"), 1)
    for request, text in (
        (question(TWO, "accuracy"), "give a budget"),
        (question((replace(TWO[0], least_accuracy=99.0),)), "the best variant has 76"),
        (question(tokens), "tpot is of decoders"),
        (question(longer), "a network answers once"),
        (replace(question(TWO), machines=(free,)), "has no price"),
    ):
        with pytest.raises(UsageError, match=text):
            check_request(request)


def test_a_precision_that_nobody_has_figures_for_is_refused() -> None:
    eight = ModelVariant("r18", 69.0, "resnet18", "int8")
    request = replace(question(TWO[1:]), variants=(eight,))
    with pytest.raises(UsageError, match="in int8 has no costs in the zoo"):
        choose(request, FAST)


def test_measured_costs_count_on_the_devices_of_the_machine_alone() -> None:
    both = Platform((Device("cpu", watts=10.0, price=0.1), Device("gpu", watts=300.0, price=9.0)))
    costs = {"t": {"cpu": Cost(((1, 1.0),)), "gpu": Cost(((1, 0.001),))}}
    problem = Problem(TaskGraph([Task("t")], []), costs, both, Objective())
    measured = ModelVariant("v", 70.0, problems={"m": problem})
    own = replace(both.device("cpu"), watts=20.0)
    option = plan_replica(measured, MachineOffer("m", Platform((own,)), 1), 2, FAST)
    assert (option.devices, option.seconds[2], option.joules[2]) == (("cpu",), 2.0, 40.0)
    other = MachineOffer("m", Platform((Device("tpu"),)), 1)
    with pytest.raises(UsageError, match=r"no device of it \(tpu\) can run task 't'.*cpu, gpu"):
        plan_replica(measured, other, 1, FAST)


def test_half_as_wide_numbers_take_half_the_time_or_less() -> None:
    from tvm_hetero.planning.choosing.format import keep_devices

    place = keep_devices(zoo.platform("t4x4"), ("cpu", "gpu0"), "m")
    machine = MachineOffer("t4", place, 1)
    full, half = (
        plan_replica(ModelVariant("v", 1.0, "resnet18", p), machine, 4, FAST)
        for p in ("float32", "float16")
    )
    assert half.seconds[4] < 0.6 * full.seconds[4]
    assert full.seconds[4] == pytest.approx(full.plan.value, rel=1e-6)
    assert full.seconds[0] == 0 < full.seconds[1] < full.seconds[4]


def test_a_decoder_keeps_first_and_later_tokens_within_their_limits() -> None:
    requests = tuple(ServiceRequest(0.4 * i, 40, 8) for i in range(12))
    slo = (SloLimit("ttft", 90, 0.5), SloLimit("tpot", 99, 0.2))
    request = ChoiceRequest(
        (ModelVariant("gpt", 1.0, "gpt2-small", "float16", {"context": 64, "layers": 2}),),
        (MachineOffer("box", zoo.platform("diviml"), 2, 1.0),),
        (RequestClass("chat", requests, slo),),
        seconds=5.0,
        batches=(2,),
    )
    long = replace(request.classes[0], requests=(ServiceRequest(0.0, 60, 8),))
    with pytest.raises(UsageError, match="a request of 67 tokens"):
        choose(replace(request, classes=(long,)), Options(1.0, deadline=60.0, gap=0.1))
    answer = choose(request, Options(1.0, deadline=60.0, gap=0.1))
    (played,) = answer.choice.played
    assert {limit.name for limit in played.reached} == {"ttft p90", "tpot p99"}
    assert all(0 < seconds <= limit.seconds for limit, seconds in played.reached.items())
    assert answer.choice.price == 1.0
