"""Cuts: nothing starts later than with every item a step of its own, and no cut is for nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero.passes.form_steps import StepItem, form_steps, known_before


@st.composite
def orders(draw: st.DrawFn) -> list[StepItem]:
    """Items on up to three workers that read some of those before them."""
    rng = random.Random(draw(st.integers(0, 10**6)))
    items: list[StepItem] = []
    for i in range(rng.randint(1, 12)):
        sources = rng.sample(range(i), min(i, rng.randint(0, 2)))
        items.append(StepItem(rng.randrange(3), tuple(sorted(sources)), alone=rng.random() < 0.15))
    return items


def starts(items: list[StepItem], steps: list[list[int]], seconds: list[float]) -> list[float]:
    """When each item begins: a step begins when all that it reads of other steps is told, and what
    it made is told at its end.
    """
    told: dict[int, float] = {}
    free: dict[object, float] = {}
    begin = [0.0] * len(items)
    for step in steps:
        worker = items[step[0]].worker
        sources = {j for i in step for j in items[i].sources if j not in step}
        now = max([free.get(worker, 0.0), *(told[j] for j in sources)])
        for i in step:
            begin[i] = now
            now += seconds[i]
        free[worker] = now
        told |= dict.fromkeys(step, now)
    return begin


@settings(max_examples=draws(80))
@given(orders(), st.integers(0, 10**6))
def test_everything_starts_as_early_as_if_each_item_were_a_step(items, seed):
    rng = random.Random(seed)
    seconds = [float(rng.randint(0, 9)) for _ in items]  # whole numbers: sums are exact
    fine = [[i] for i in range(len(items))]
    assert starts(items, form_steps(items), seconds) == starts(items, fine, seconds)


@settings(max_examples=draws(80))
@given(orders())
def test_no_step_reaches_over_an_item_of_a_rival(items):
    """Worker 2 shares a core with each of the others, which share none."""
    rivals = {0: (2,), 1: (2,), 2: (0, 1)}
    items = [replace(item, rivals=rivals[item.worker]) for item in items]
    steps = form_steps(items)
    assert [step[0] for step in steps] == sorted(step[0] for step in steps)
    for step in steps:
        for between in set(range(step[0], step[-1])) - set(step):
            assert items[between].worker not in items[step[0]].rivals


@settings(max_examples=draws(80))
@given(orders())
def test_steps_are_the_order_of_each_worker(items):
    steps = form_steps(items)
    assert sorted(i for step in steps for i in step) == list(range(len(items)))
    assert [step[0] for step in steps] == sorted(step[0] for step in steps)
    for step in steps:
        assert len({items[i].worker for i in step}) == 1
        assert len(step) == 1 or not any(items[i].alone for i in step)
    for worker in {item.worker for item in items}:
        mine = [i for step in steps for i in step if items[i].worker == worker]
        assert mine == sorted(mine)


@settings(max_examples=draws(80))
@given(orders())
def test_no_two_steps_can_be_joined(items):
    """Joined, some item would begin later for some times of the items, or wait for ever."""
    steps = form_steps(items)
    known = known_before(items)
    for worker in {item.worker for item in items}:
        mine = [step for step in steps if items[step[0]].worker == worker]
        for one, other in pairwise(mine):
            if any(items[i].alone for i in [*one, *other]):
                continue
            news = any(
                items[j].worker != worker and not known[one[-1]] >> j & 1
                for j in items[other[0]].sources
            )
            readers = [
                r
                for r, item in enumerate(items)
                if item.worker != worker and one[-1] in item.sources
            ]
            unaware = any(not known[r] >> other[0] & 1 for r in readers)
            assert news or unaware


def test_one_worker_is_one_step():
    assert form_steps([StepItem("a", ()), StepItem("a", (0,)), StepItem("a", (0, 1))]) == [
        [0, 1, 2]
    ]


def test_what_is_read_elsewhere_is_told_at_once():
    # 0 and 1 on a; b reads 0, and a reads what b made.
    assert form_steps(
        [StepItem("a", ()), StepItem("a", ()), StepItem("b", (0,)), StepItem("a", (2,))]
    ) == [
        [0],
        [1],
        [2],
        [3],
    ]


def test_who_waits_for_a_later_item_anyway_is_no_reason_to_cut():
    # b reads 0 and 1 of a: it is enough to tell it after 1.
    assert form_steps([StepItem("a", ()), StepItem("a", ()), StepItem("b", (0, 1))]) == [
        [0, 1],
        [2],
    ]


def test_what_has_certainly_arrived_is_no_reason_to_cut():
    # b has waited for 1, so 0 is there too when it reads it.
    items = [StepItem("a", ()), StepItem("a", ()), StepItem("b", (1,)), StepItem("b", (0,))]
    assert form_steps(items) == [[0, 1], [2, 3]]
    # c has waited for b, which had waited for a.
    items = [StepItem("a", ()), StepItem("b", (0,)), StepItem("c", (1,)), StepItem("c", (0,))]
    assert form_steps(items) == [[0], [1], [2, 3]]


def test_a_copy_is_a_step_of_its_own():
    items = [StepItem("a", ()), StepItem("a", (), alone=True), StepItem("a", ())]
    assert form_steps(items) == [[0], [1], [2]]
