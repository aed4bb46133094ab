"""What is beside an answer, what is proven of it, and what is said where the time was too short."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from tests.planning.choosing.questions import load, question, rated
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.choosing import ChoiceAnswer, SpendingLimit, choose
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.binding import binding_limits
from tvm_hetero.planning.choosing.find_choice import Need, RatedRequest, find_choice
from tvm_hetero.planning.choosing.front import best_choice, find_front
from tvm_hetero.planning.choosing.neighbours import (
    find_better,
    find_cheaper,
    is_cheapest,
    is_over_budget,
    keeps_limits,
    settle,
)
from tvm_hetero.planning.choosing.play_choice import PlayedClass
from tvm_hetero.planning.choosing.program import (
    ChoiceLimits,
    ProgramAnswer,
    Replicas,
    full_need,
    solve_program,
)
from tvm_hetero.report.planning.choice import binding_lines, choice_text, neighbour_lines
from tvm_hetero.solvers import Deadline, Options
from tvm_hetero.util.search_clock import now

FAST = Options(0.1, deadline=60.0)
# A strict class with little load, and one that could have better answers for little.
STRICT = (load("a", 20.0, 0.03, 76.0), load("b", 60.0, 0.5))


def test_what_is_cheaper_and_more_accurate_in_the_mean_gives_up_a_class() -> None:
    answer = choose(question(STRICT, available=(4, 3)), FAST)
    less = answer.cheaper
    assert less is not None and less.price < answer.choice.price
    assert less.accuracy > answer.choice.accuracy and not keeps_limits(answer.case.request, less)
    (line, _) = neighbour_lines(answer)
    assert "has 70 of accuracy for a, which asks for 76 (" in line
    assert "gives up" not in line and "-" not in line
    assert "not simulated" in binding_lines(answer)[0]


def test_the_best_choice_that_is_known_is_the_answer() -> None:
    case = rated(question((load("a", 60.0, 0.3),), available=(6, 3)))
    honest = best_choice(case, "price")
    dear = best_choice(case, "price", ChoiceLimits((2 * UNITS,)))
    assert dear.price > honest.price and dear.margins == {0: 1.0} and honest.margins == {}
    front, whole = find_front(case, "price")
    for known in (front, ()):  # without a front it is found as the more accurate choice
        settled, better = settle(case, dear, known)
        assert (settled.price, -settled.accuracy) < (dear.price, -dear.accuracy)
        assert honest.price <= settled.price and settled.bound == dear.bound
        assert better.choice is None or better.choice.price > settled.price
    assert settle(case, honest, front)[0] is honest
    assert is_cheapest(case.request, honest, front, whole=whole)
    assert not is_cheapest(case.request, dear, front, whole=whole)
    assert not is_cheapest(case.request, honest, front, whole=False)
    assert find_cheaper(case.request, honest, front) is None
    tight = replace(case.request, budget=SpendingLimit(price=honest.price - 0.1))
    assert is_over_budget(tight, honest) and not is_over_budget(case.request, honest)


@pytest.mark.parametrize("price", [8.2, 1.005, 2.01, 4.1])
def test_what_costs_just_the_budget_may_be_spent(price: float) -> None:
    """8.2 millions are 8,199,999.999 and a bit, which was cut off."""
    request = question((load("a", 20.0, 0.3),), budget=SpendingLimit(price=price))
    machines = tuple(replace(each, price=price) for each in request.machines)
    case = rated(replace(request, machines=machines))
    choice = best_choice(case, "price")
    assert choice.price == pytest.approx(price)
    assert not is_over_budget(case.request, choice)


class _Unlucky:
    """A player in whose hands three small replicas break what they promised."""

    def __init__(self, case: RatedRequest, *, remembers: bool, always: bool = False) -> None:
        self.play_well, self.remembers, self.always = case.player.play, remembers, always
        self.refuted: list[Replicas] = []

    def play(self, replicas: Replicas) -> tuple[PlayedClass, ...]:
        three = self.always or [
            n for rated, n in replicas if rated.option.variant.name == "small"
        ] == [3]
        if three and self.remembers:
            self.refuted.append(replicas)
        return tuple(
            replace(played, holds=played.holds and not three) for played in self.play_well(replicas)
        )


@pytest.mark.parametrize("remembers", [False, True])
def test_the_bound_is_of_all_that_was_not_seen_to_break(remembers: bool) -> None:
    """Three small ones are cheapest, and break; four cost more than what is more accurate."""
    case = rated(question((load("a", 60.0, 0.3),), available=(6, 3)))
    carried = {"small on slow, batches of 4": 34_000, "large on fast, batches of 4": 100_000}
    own = [each for each in case.rated if each.option.name in carried]
    assert len(own) == len(carried)
    rerated = tuple(replace(each, capacity=carried[each.option.name]) for each in own)
    case = replace(case, rated=rerated, cut=())
    case = replace(case, player=_Unlucky(case, remembers=remembers))
    front, whole = find_front(case, "price")
    choice, _ = settle(case, best_choice(case, "price"), front)
    assert whole and choice.price == 3.5 and choice.bound == (3.5 if remembers else 3.0)
    assert is_cheapest(case.request, choice, front, whole=whole) == remembers


def test_nothing_binds_where_the_program_has_less_than_the_answer_anyway() -> None:
    case = rated(question((load("a", 60.0, 0.3),), available=(6, 3)))
    honest = best_choice(case, "price")
    dear = replace(honest, price=9.0, value=9.0)  # as if the honest one broke when it was played
    assert binding_limits(case, honest, "price") == binding_limits(case, dear, "price") == ((), ())


def test_what_broke_when_it_was_played_is_no_answer_of_the_program_again() -> None:
    case = rated(question((load("a", 150.0, 0.3), load("b", 20.0, 0.3))))
    seen: list[Replicas] = []
    prices: list[int] = []
    while len(seen) < 8:
        limits = ChoiceLimits(full_need(case.request), refuted=tuple(seen))
        answer = solve_program(case.request, case.rated, limits, case.options, "price")
        pool = tuple(row for row in answer.replicas if row[0].served == 0)
        assert set(pool) not in [set(each) for each in seen]
        prices.append(answer.value)
        seen.append(pool)
    assert prices == sorted(prices) and prices[0] < prices[-1]


def test_one_more_of_what_is_enough_is_a_choice_where_enough_of_it_broke() -> None:
    case = rated(question((load("a", 60.0, 0.3),), available=(6, 0)))
    rows = [each for each in case.rated if each.option.variant.name == "small"]
    best = max(rows, key=lambda each: each.capacity)
    enough = -(-UNITS // best.capacity)
    limits = ChoiceLimits((UNITS,), refuted=(((best, enough),),))
    answer = solve_program(case.request, (best,), limits, case.options, "price")
    assert answer.replicas == ((best, enough + 1),)


def test_where_every_choice_was_played_and_broke_that_is_a_proof() -> None:
    case = rated(question((load("a", 20.0, 0.3),), available=(1, 0)))
    case = replace(case, player=_Unlucky(case, remembers=True, always=True))
    with pytest.raises(InfeasibleError) as no:
        best_choice(case, "price")
    assert no.value.proven


def test_a_more_accurate_choice_is_excluded_only_with_a_proof() -> None:
    case = rated(question((load("a", 60.0, 0.3),)))
    best = best_choice(case, "price", ChoiceLimits((UNITS,), least_mean=76 * 10_000 * 1))
    top = replace(best, accuracy=76.0)
    assert find_better(case, top).excluded and find_better(case, top).choice is None

    late = replace(case, options=replace(case.options, ends=Deadline(now() - 1.0)))
    late.player.ends = late.options.ends
    late.player._known.clear()
    low = replace(best, accuracy=69.0)
    found = find_better(late, low)
    assert found.choice is None and not found.excluded


def test_no_way_for_a_class_is_a_proof_and_no_room_for_a_margin_is_none() -> None:
    case = rated(question((load("a", 10.0, 0.001), load("b", 50.0, 0.3))))
    for need in ((UNITS, UNITS), (2 * UNITS, UNITS)):
        with pytest.raises(InfeasibleError, match="even alone") as no:
            solve_program(case.request, case.rated, ChoiceLimits(need), case.options, "price")
        assert no.value.proven
    strict = rated(question((load("a", 10.0, 0.013, 76.0),), available=(3, 0)))
    with pytest.raises(InfeasibleError, match="no variant with an accuracy of 76 or more on"):
        best_choice(replace(strict, rated=()), "price")


def test_where_the_margin_has_no_room_that_is_what_is_said() -> None:
    case = rated(question((load("a", 150.0, 0.06),)))
    small = min(case.rated, key=lambda each: each.capacity)

    def pick(need: Need) -> ProgramAnswer:
        """Too little at first, then nothing."""
        if need[0] > UNITS:
            raise InfeasibleError("the machines that can be had", proven=True)
        return ProgramAnswer(((small, 1),), 1, 1)

    with pytest.raises(InfeasibleError, match=r"'a': the SLO breaks .* margin of 3 % no") as no:
        find_choice(case, pick, "price")
    assert not no.value.proven


def test_a_margin_is_told_as_replicas_and_not_as_a_load_that_is_carried() -> None:
    answer = choose(question(STRICT[1:]), FAST)
    assert "higher" not in choice_text(answer)
    dear = replace(answer, choice=replace(answer.choice, need=(103_000,)))
    assert "b has replicas for a load 3 % higher: with fewer its SLO broke" in choice_text(dear)
    assert "few for its SLO" in choice_text(answer)  # p99 of 150 requests
    many = choose(question((load("b", 300.0, 0.5),), available=(9, 3)), FAST)
    assert "few for its SLO" not in choice_text(many)


def test_an_answer_that_is_cut_says_what_was_not_looked_for() -> None:
    request = question(STRICT, available=(4, 3))

    def cut(most: float) -> tuple[ChoiceAnswer | str, int]:
        """An answer whose time is up after so many looks, whatever the machine."""
        seen = itertools.count()
        up = Deadline(now() + 1e6, lambda: now() + (1e9 if next(seen) >= most else 0.0))
        try:
            return choose(request, FAST, ends=up), next(seen)
        except SolverError as error:
            return str(error), next(seen)

    whole, looks = cut(math.inf)
    assert isinstance(whole, ChoiceAnswer) and not whole.untried and whole.front_whole
    for part in (0.0, 0.3):
        refused, _ = cut(part * looks)
        assert isinstance(refused, str) and "raise the time limit" in refused
    late, _ = cut(0.97 * looks)
    assert isinstance(late, ChoiceAnswer) and late.untried
    assert late.choice.price == whole.choice.price
    assert "unknown for want of time: " in choice_text(late)
