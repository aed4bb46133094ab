"""The program beside all choices there are, one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from tests.planning.choosing.questions import ACCURACY, load, planned, question, random_question
from tests.planning.choosing.questions import rated as rate
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.find_choice import RatedRequest
from tvm_hetero.planning.choosing.front import best_choice
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.program import (
    ChoiceLimits,
    milliwatts,
    money,
    solve_program,
)
from tvm_hetero.planning.choosing.rate import capacity_of, most_share
from tvm_hetero.planning.choosing.request import ChoiceRequest, SpendingLimit

Row = tuple[RatedOption, int]


def every_option(request: ChoiceRequest) -> list[RatedOption]:
    """All options of all classes, dominated ones too."""
    found = []
    for k, served in enumerate(request.classes):
        for option in planned():
            most = most_share(option, served, request.seconds)
            capacity, watts = capacity_of(option, served, request.seconds, most)
            if capacity and option.variant.accuracy >= served.least_accuracy:
                found.append(RatedOption(option, k, capacity, watts))
    return found


def ways_of(request: ChoiceRequest, every: list[RatedOption], k: int) -> Iterator[tuple[Row, ...]]:
    """All sets of replicas of one variant that carry class k, some perhaps without need."""
    available = {machine.name: machine.available for machine in request.machines}
    for name in ACCURACY:
        own = [e for e in every if e.served == k and e.option.variant.name == name]
        counts = [range(available[e.option.machine.name] + 1) for e in own]
        for chosen in itertools.product(*counts):
            rows = tuple((e, n) for e, n in zip(own, chosen, strict=True) if n)
            if sum(e.capacity * n for e, n in rows) >= UNITS:
                yield rows


def brute_force(request: ChoiceRequest) -> tuple[float, float] | None:
    """The least price or watts, or the most accuracy, of all choices, and of those that hold.

    A choice holds that keeps every SLO when it is played. None: none does.
    """
    every, player = every_option(request), ChoicePlayer(request)
    per_class = [list(ways_of(request, every, k)) for k in range(len(request.classes))]
    joined = ([row for way in ways for row in way] for ways in itertools.product(*per_class))
    choices = [rows for rows in joined if _within(request, rows)]
    choices.sort(key=partial(_value, request))
    for rows in choices:
        if all(each.holds for each in player.play(tuple(rows))):
            return _value(request, choices[0]), _value(request, rows)
    return None


def _within(request: ChoiceRequest, rows: list[Row]) -> bool:
    for machine in request.machines:
        if sum(n for e, n in rows if e.option.machine.name == machine.name) > machine.available:
            return False
    price = sum(money(e) * n for e, n in rows) / 1e6
    return request.budget.price is None or price <= request.budget.price


def _value(request: ChoiceRequest, rows: list[Row]) -> float:
    """What is minimised."""
    if request.goal == "price":
        return sum(money(e) * n for e, n in rows) / 1e6
    if request.goal == "energy":
        return sum(milliwatts(e) * n for e, n in rows) / 1e3
    of = {e.served: e.option.variant.accuracy for e, _ in rows}
    total = sum(len(request.classes[k].requests) * accuracy for k, accuracy in of.items())
    return -total / request.count


def answer_of(case: RatedRequest) -> tuple[float, float, bool] | None:
    """Value and bound as they are minimised, and whether a margin was needed."""
    try:
        choice = best_choice(case, case.request.goal)
    except InfeasibleError:
        return None
    sign = -1 if case.request.goal == "accuracy" else 1
    return sign * choice.value, sign * choice.bound, bool(choice.margins)


def check_question(request: ChoiceRequest) -> bool:
    """Hold an answer against all choices, each played until one holds; whether there is one."""
    found, every = answer_of(rate(request)), brute_force(request)
    if found is None or every is None:
        assert found is None and every is None
        return False
    (value, bound, margin), (least, best) = found, every
    slack = 1e-6 * abs(best)
    assert least <= bound + slack and bound <= best + slack
    assert value == pytest.approx(best, rel=1e-6) or (margin and value > best)
    return True


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_forty_random_questions_have_the_answer_of_brute_force(first: int) -> None:
    assert sum(check_question(random_question(seed)) for seed in range(first, first + 10)) >= 5


def test_what_was_cut_is_an_option_again_where_its_rival_broke() -> None:
    """Its replicas broke when they were played, and nothing was said to hold."""
    assert check_question(random_question(5077))


def test_a_cut_option_is_below_what_cuts_it() -> None:
    case = rate(question((load("a", 120.0, 0.06), load("b", 60.0, 0.3))))
    assert case.cut
    for cut in case.cut:
        assert cut.by.option.machine is cut.option.machine
        assert cut.by.option.variant is cut.option.variant
        served = case.request.classes[cut.served]
        most = most_share(cut.option, served, case.request.seconds)
        capacity, _ = capacity_of(cut.option, served, case.request.seconds, most)
        assert capacity <= cut.most <= cut.by.capacity


def test_a_choice_says_which_limit_is_in_the_way() -> None:
    with pytest.raises(InfeasibleError, match=r"class 'a'.*keeps its SLO, even alone"):
        best_choice(rate(question((load("a", 10.0, 0.001),))), "price")
    for goal in ("price", "energy"):
        with pytest.raises(
            InfeasibleError, match=r"carry the load and .*raise 'available', or"
        ) as no:
            best_choice(rate(question((load("a", 5000.0, 0.3),), goal)), goal)
        assert no.value.proven
    little = question((load("a", 50.0, 0.3),), budget=SpendingLimit(price=0.5))
    with pytest.raises(
        InfeasibleError, match=r"within the budget .*raise 'available' or the budget"
    ):
        best_choice(rate(little), "price")


def test_only_what_lacks_a_margin_is_proven_to_be_impossible() -> None:
    case = rate(question((load("a", 100.0, 0.3),)))
    with pytest.raises(InfeasibleError) as no:
        solve_program(case.request, case.rated, ChoiceLimits((50 * UNITS,)), case.options, "price")
    assert not no.value.proven


def test_sums_beyond_64_bits_are_refused() -> None:
    small = question((load("a", 100.0, 0.3),))
    dear = tuple(replace(each, price=1e15) for each in small.machines)
    wide = tuple(replace(each, accuracy=1e15) for each in small.variants)
    with pytest.raises(UsageError, match=r"price of all machines .* too large"):
        best_choice(rate(replace(small, machines=dear)), "price")
    with pytest.raises(UsageError, match=r"accuracy of all machines .* too large"):
        best_choice(rate(replace(small, variants=wide)), "price")


def test_shares_of_a_class_are_counted_in_whole_units() -> None:
    case = rate(question((load("a", 100.0, 0.3),)))
    assert all(0 < each.capacity <= UNITS for each in case.rated)
