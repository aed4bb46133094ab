"""The day's program against all standings of small days; its judge sees what breaks a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.planning.sharing.small_days import cheapest_day, random_day
from tvm_hetero.errors import InfeasibleError, SolverFault
from tvm_hetero.planning.sharing.hours import HourTable, bisected
from tvm_hetero.planning.sharing.judge import judge
from tvm_hetero.planning.sharing.problem import (
    POLICIES,
    DayPlan,
    MachineHour,
    MachineMode,
    SharedKind,
    SharingPolicy,
    SharingProblem,
)
from tvm_hetero.planning.sharing.program import solve_day
from tvm_hetero.solvers import Options

_OPTIONS = Options(10.0, deadline=60.0)


def check_against_all(seed: int, policy: SharingPolicy) -> bool:
    """Whether there is a day; if so it is the cheapest of all, and its bound is its price."""
    problem = random_day(seed)
    least = cheapest_day(problem, policy)
    if least is None or least >= 10**9:
        with pytest.raises(InfeasibleError):
            solve_day(problem, policy, _OPTIONS)
        return False
    day = solve_day(problem, policy, _OPTIONS)
    assert day.value == least == day.bound == judge(problem, day.plan, policy)
    return True


@pytest.mark.parametrize("policy", POLICIES)
def test_no_day_is_cheaper_than_the_programs(policy: str) -> None:
    found = sum(check_against_all(seed, POLICIES[policy]) for seed in range(30))
    assert 5 < found < 30  # some have none, which is seen, too


def test_hours_alone_are_never_dearer_than_in_a_day() -> None:
    found = 0
    for seed in range(30):
        problem, policy = random_day(seed), SharingPolicy()
        try:
            hours = HourTable(problem, policy).look_up(problem.need, _OPTIONS)
            day = solve_day(problem, policy, _OPTIONS)
        except InfeasibleError:
            continue
        found += 1
        for hour, own in zip(hours, day.plan, strict=True):
            price = sum(problem.kinds[problem.machines[each.machine]].price for each in own)
            assert hour.floor == hour.value <= price
    assert found > 5


def test_an_hour_between_two_of_one_price_needs_no_program() -> None:
    problem = day_of_two()
    table = HourTable(problem, SharingPolicy())
    table.look_up([(1, 1), (9, 1)], _OPTIONS)
    known = len(table.known)
    hours = table.look_up([(5, 1)], Options(1e-6, deadline=1e-6))
    assert hours[0].floor == hours[0].value == 10 and len(table.known) == known + 1


def test_bisected_numbers_are_all_of_them_once() -> None:
    for count in range(20):
        assert sorted(bisected(count)) == list(range(count))


def day_of_two() -> SharingProblem:
    """Two models and two machines, which carry both of them."""
    modes = (MachineMode("alone", (10, 10), alone=True), MachineMode("5 ms", (10, 10)))
    kind = SharedKind("m", 2, 10, modes, 3, (1, 2), (5,), (((2,),), ((3,),)))
    return SharingProblem(("a", "b"), (kind,), ((4, 5), (10, 8)), parts=10)


PLAN: DayPlan = (
    (MachineHour(0, 1, {0: 4, 1: 5}),),
    (MachineHour(0, 1, {0: 10, 1: 0}), MachineHour(1, 0, {1: 8})),
)


def test_the_judge_adds_up_hours_starts_and_loads() -> None:
    # Three hours of machines; the second one starts and loads b.
    assert judge(day_of_two(), PLAN) == 30 + 3 + 2
    # The day comes again: with nobody there in the first hour's machine before, it is loaded.
    swapped = ((MachineHour(0, 1, {0: 4, 1: 5}),), (*PLAN[1][1:], MachineHour(0, 0, {0: 10})))
    assert judge(day_of_two(), swapped) == 30 + 3 + 2 + 2


@pytest.mark.parametrize(
    ("hour", "said"),
    [
        ((MachineHour(0, 1, {0: 4, 1: 4}),), "'b' is answered 4"),
        ((MachineHour(0, 0, {0: 4, 1: 5}),), "is for one"),
        ((MachineHour(0, 1, {0: 6, 1: 5}),), "gives 11 parts of 10"),
        ((MachineHour(0, 1, {0: -1, 1: 5}),), "less than no time"),
        ((MachineHour(0, 2, {0: 4, 1: 5}),), "mode 2 of 2"),
        ((MachineHour(2, 1, {0: 4, 1: 5}),), "not each one of 2"),
        ((MachineHour(0, 1, {0: 4}), MachineHour(0, 1, {1: 5})), "not each one of 2"),
        ((MachineHour(0, 1, {0: 4, 2: 5}),), "model 2 may not live"),
    ],
)
def test_the_judge_names_the_rule_that_is_broken(hour: tuple[MachineHour, ...], said: str) -> None:
    with pytest.raises(SolverFault, match=said):
        judge(day_of_two(), (hour, PLAN[1]))


def test_the_judge_sees_who_has_no_room_beside_whom_it_follows() -> None:
    problem = day_of_two()
    tight = replace(problem, kinds=(replace(problem.kinds[0], rooms=(4,)),))
    turns: DayPlan = (
        (MachineHour(0, 0, {0: 10}), MachineHour(1, 0, {1: 8})),
        (MachineHour(0, 0, {1: 8}), MachineHour(1, 0, {0: 10})),
    )
    with pytest.raises(SolverFault, match="room for 4 bytes, and 5 bytes"):
        judge(tight, turns)
    assert judge(tight, (turns[0], turns[0])) == 40


def two_plans(*, room: int, copies: tuple[int, int]) -> SharingProblem:
    """One model on one machine: alone by a plan of 3 bytes, in 5 ms by another one of 2."""
    modes = (
        MachineMode("alone", (10,), alone=True, plans=(0,)),
        MachineMode("5 ms", (6,), plans=(1,)),
    )
    kind = SharedKind("m", 1, 10, modes, 3, (4,), (room,), (((3,), (2,)),), (copies,))
    return SharingProblem(("a",), (kind,), ((10,), (6,)), parts=10)


TURNS: DayPlan = ((MachineHour(0, 0, {0: 10}),), (MachineHour(0, 1, {0: 10}),))


def test_another_mode_is_free_on_one_copy_of_the_weights_and_else_a_load() -> None:
    assert judge(two_plans(room=5, copies=(0, 0)), TURNS) == 20
    # There and back again: two loads.
    assert judge(two_plans(room=5, copies=(0, 1)), TURNS) == 20 + 2 * 4
    for copies in ((0, 0), (0, 1)):
        assert solve_day(two_plans(room=5, copies=copies), SharingPolicy(), _OPTIONS).value == 20


def test_memory_is_that_of_the_plan_that_runs_and_of_two_copies_of_both() -> None:
    # Twice the small plan fits where the large one does not.
    with pytest.raises(SolverFault, match="room for 2 bytes, and 3 bytes"):
        judge(two_plans(room=2, copies=(0, 0)), TURNS)
    light = replace(two_plans(room=2, copies=(0, 0)), need=((6,), (6,)))
    day = solve_day(light, SharingPolicy(), _OPTIONS)
    assert day.value == 20 and all(own.mode == 1 for hour in day.plan for own in hour)
    judge(two_plans(room=3, copies=(0, 0)), TURNS)
    # Another copy is loaded while the first one is still asked.
    with pytest.raises(SolverFault, match="room for 4 bytes, and 5 bytes"):
        judge(two_plans(room=4, copies=(0, 1)), TURNS)


def test_the_judge_holds_a_policy_to_its_word() -> None:
    with pytest.raises(SolverFault, match="something has moved"):
        judge(day_of_two(), PLAN, SharingPolicy(moving=False))
    with pytest.raises(SolverFault, match="is for one"):
        judge(day_of_two(), PLAN, SharingPolicy(shared=False))
