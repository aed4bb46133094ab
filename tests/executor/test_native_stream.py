"""Many requests in flight: all devices at work, in order, bounded, with outputs of their own."""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.executor.native_plans import (
    PlanBuilder,
    chain,
    create,
    diamond,
    evaluate,
    step,
    stream,
    tensor,
)
from tests.executor.test_native import has_cycle, random_plans
from tvm_hetero.errors import RunError
from tvm_hetero.executor import native

CONSTANT = tensor(8, 5)


def batch(number: int) -> Any:
    return tensor(number, 2 * number + 1)


def created(builder: PlanBuilder) -> native.NativeExecutor:
    executor = builder.create()
    for row in builder.plan["constants"]:
        executor.set_constant(row["name"], CONSTANT)
    return executor


def expected(builder: PlanBuilder, number: int) -> list[Any]:
    constants = {row["name"]: CONSTANT for row in builder.plan["constants"]}
    return list(evaluate(builder, x=batch(number), **constants).values())


def check(builder: PlanBuilder, outputs: Iterator[list[Any]], numbers: range) -> None:
    for number, got in zip(numbers, outputs, strict=True):
        for mine, right in zip(got, expected(builder, number), strict=True):
            np.testing.assert_array_equal(mine.numpy(), right)


# -------------------------------------------------------------------------------- stages


def shuffled(builder: PlanBuilder, random: Any) -> PlanBuilder:
    """The steps in another order; the first one again if the executor would refuse that."""
    rows = list(zip(builder.plan["steps"], builder.functions, strict=True))
    order = list(rows)
    random.shuffle(order)
    builder.plan["steps"] = [row for row, _ in order]
    if has_cycle(builder.plan):
        order = rows
    builder.plan["steps"] = [row for row, _ in order]
    builder.functions = [function for _, function in order]
    return builder


@settings(max_examples=draws(36), deadline=None)
@given(random_plans(), st.randoms(use_true_random=False))
def test_a_stage_is_the_number_of_changes_of_worker(builder: PlanBuilder, random: Any) -> None:
    steps = shuffled(builder, random).plan["steps"]
    producer = {slot: i for i, row in enumerate(steps) for slot in row["outs"]}
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(steps)))
    for i, row in enumerate(steps):
        for j in {producer[slot] for slot in row["ins"] if slot in producer}:
            graph.add_edge(j, i, crosses=int(steps[j]["worker"] != row["worker"]))
    stages = [0] * len(steps)
    for i in nx.topological_sort(graph):
        for j in graph.predecessors(i):
            stages[i] = max(stages[i], stages[j] + graph.edges[j, i]["crosses"])
    executor = create(builder.plan)
    assert list(executor.stages) == stages
    assert executor.frames == max(stages) + 2


# -------------------------------------------------------------------------------- results


@pytest.mark.parametrize("count", [0, 1, 2, 30])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [diamond, lambda n: chain(7, n)], ids=["diamond", "chain"])
def test_outputs_come_in_order(
    make: Callable[[int], PlanBuilder], workers: int, count: int
) -> None:
    builder = make(workers)
    executor = created(builder)
    check(builder, stream(executor, (batch(i) for i in range(count))), range(count))
    assert executor.filled_slots() == []


@settings(max_examples=draws(24), deadline=None)
@given(random_plans(), st.randoms(use_true_random=False))
def test_random_plans_compute_in_a_stream_what_they_compute(
    builder: PlanBuilder, random: Any
) -> None:
    shuffled(builder, random)
    executor = created(builder)
    for first in (0, 100):
        inputs = (batch(first + i) for i in range(12))
        check(builder, stream(executor, inputs), range(first, first + 12))
        # Outputs of the run before are there until the next one.
        assert first != 0 or executor.filled_slots() == []
        executor.set_input("x", batch(7))
        executor.run()
        for i, right in enumerate(expected(builder, 7)):
            np.testing.assert_array_equal(executor.get_output(i).numpy(), right)


def test_constants_and_inputs_that_are_outputs() -> None:
    builder = PlanBuilder(workers=2)
    x, c = builder.input(), builder.constant()
    [y] = builder.call([x, c], worker=1)
    executor = created(builder.output(c, "c").output(x, "through").output(y))
    check(builder, stream(executor, (batch(i) for i in range(9))), range(9))


def test_a_plan_without_steps_streams() -> None:
    builder = PlanBuilder()
    executor = created(builder.output(builder.input()))
    assert executor.frames == 2
    check(builder, stream(executor, (batch(i) for i in range(5))), range(5))


def test_an_output_that_is_held_stays_what_it_is() -> None:
    builder = PlanBuilder(workers=2)
    [y] = builder.call([builder.input()])
    copied = builder.copy(y, worker=1)
    executor = builder.output(y).output(copied, "copied").create()
    held = list(stream(executor, (batch(i) for i in range(20))))
    check(builder, iter(held), range(20))


# -------------------------------------------------------------------------------- order


def test_a_batch_begins_while_the_one_before_is_still_running() -> None:
    """Step 'first' of batch k + 1 and step 'second' of batch k wait for each other."""
    count = 12
    meeting = threading.Barrier(2)
    rounds = {"first": 0, "second": 0}

    def meet(name: str, alone: int) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            number, rounds[name] = rounds[name], rounds[name] + 1
            if number != alone:
                meeting.wait(30)
            return x

        return function

    builder = PlanBuilder(workers=2)
    [a] = builder.call([builder.input()], worker=0, function=meet("first", 0), name="first")
    [b] = builder.call([a], worker=1, function=meet("second", count - 1), name="second")
    executor = builder.output(b).create()
    outputs = list(stream(executor, (batch(i) for i in range(count))))
    assert [out.numpy()[0] for [out] in outputs] == list(range(count))
    assert rounds == {"first": count, "second": count}


def test_of_what_is_ready_the_earliest_period_goes_first() -> None:
    """Worker 0 goes on with a younger batch while it must, and comes back to the older one."""
    begun: list[tuple[str, float]] = []
    all_there, second_has_begun, first_is_through = (threading.Event() for _ in range(3))

    def note(name: str) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            number = float(x.numpy()[0])
            if name in ("a", "d"):
                begun.append((name, number))
            if name == "a":
                assert all_there.wait(30)
            if (name, number) == ("a", 1):
                second_has_begun.set()
                # The mark of b is there when c begins, on the same worker.
                assert first_is_through.wait(30)
            if (name, number) == ("b", 0):
                assert second_has_begun.wait(30)
            if (name, number) == ("c", 0):
                first_is_through.set()
            return x

        return function

    builder = PlanBuilder(workers=2)
    [a] = builder.call([builder.input()], worker=0, function=note("a"))
    [b] = builder.call([a], worker=1, function=note("b"))
    builder.call([b], worker=1, function=note("c"))
    [d] = builder.call([b], worker=0, function=note("d"))
    executor = builder.output(d).create()
    requests = [executor.submit([batch(i)]) for i in range(3)]
    all_there.set()
    assert all(executor.wait(request, 30) for request in requests)
    assert begun[:3] == [("a", 0), ("a", 1), ("d", 0)]
    assert sorted(begun[3:]) == [("a", 2), ("d", 1), ("d", 2)]


def test_no_more_are_in_flight_than_there_are_frames() -> None:
    builder = PlanBuilder(workers=2)
    leave = threading.Event()

    def wait(x: Any) -> Any:
        assert leave.wait(30)
        return x

    [a] = builder.call([builder.input()], function=wait)
    [b] = builder.call([a], worker=1)
    executor = builder.output(b).create()
    requests = [executor.submit([batch(i)], wait_s=0) for i in range(executor.frames + 2)]
    assert requests == [1, 2, 3, 0, 0]
    assert executor.submit([batch(9)], wait_s=0.01) == 0
    assert not executor.wait(1, 0.01)
    leave.set()
    late = executor.submit([batch(9)])
    for request in (*requests[:3], late):
        assert executor.wait(request, 30)
    [y] = executor.take(late)
    np.testing.assert_array_equal(y.numpy(), step(1)(batch(9)).numpy())


def test_tensors_alive_are_bounded_by_the_frames() -> None:
    builder = PlanBuilder(workers=2)
    alive: list[weakref.ref[Any]] = []
    counts: list[int] = []

    def make(x: Any) -> Any:
        array = np.from_dlpack(x) + 1
        alive.append(weakref.ref(array))
        counts.append(sum(ref() is not None for ref in alive))
        return tvm_ffi.from_dlpack(array)

    slot = builder.input()
    for i in range(6):
        [slot] = builder.call([slot], worker=i % 2, function=make)
    executor = builder.output(slot).create()
    for _ in stream(executor, (batch(i) for i in range(60))):
        pass
    # Of each batch in flight the tensor made and the one it is made of; and outputs not taken yet.
    assert max(counts) <= 3 * executor.frames
    assert len(alive) == 360


# -------------------------------------------------------------------------------- figures


def test_completion_times() -> None:
    executor = diamond(2).create()
    with pytest.raises(RunError, match="inputs not set: 'x'"):
        executor.run_stream(3)
    executor.set_input("x", batch(1))
    ends = executor.run_stream(20)
    assert len(ends) == 20
    assert ends == sorted(ends)
    assert ends[0] > 0
    assert executor.run_stream(0) == []
    with pytest.raises(RunError, match="-1 batches were asked for"):
        executor.run_stream(-1)
    executor.run()  # the inputs are still set
    assert executor.filled_slots() != []


def test_the_trace_is_of_one_batch_in_the_middle() -> None:
    builder = chain(4, workers=2)
    numbers = iter(range(1000))
    middle = threading.Event()

    def first(x: Any) -> Any:
        if next(numbers) == 5:
            middle.set()
            threading.Event().wait(0.05)
        return x

    builder.functions[0] = first
    executor = builder.create()
    executor.set_input("x", batch(1))
    executor.run_stream(10)
    assert middle.is_set()
    spans = executor.trace()
    assert spans[0][0] == 0
    assert spans[0][1] >= 0.05  # batch 5 of 10, the one that was slow
    for (start, end), (later, _) in itertools.pairwise(spans):
        assert start <= end <= later
    assert all(waited >= 0 for waited in executor.waits())


def test_a_wait_for_a_producer_is_told() -> None:
    builder = PlanBuilder(workers=2)
    x = builder.input()

    def slow(x: Any) -> Any:
        threading.Event().wait(0.05)
        return x

    [a] = builder.call([x], worker=0, function=slow)
    [b] = builder.call([x], worker=1)
    [c] = builder.call([a, b], worker=1)
    executor = builder.output(c).create()
    executor.set_input("x", batch(1))
    executor.run()
    spans, waits = executor.trace(), executor.waits()
    assert waits[0] == waits[1] == 0
    assert 0 < waits[2] <= spans[2][0] - spans[1][1] + 1e-9


def test_many_streams_come_and_go() -> None:
    builder = diamond(3)
    executor = builder.create()
    for round in range(60):
        with contextlib.closing(stream(executor, (batch(i) for i in range(20)))) as outputs:  # type: ignore[type-var]
            for number in range(round % 20):
                check(builder, iter([next(outputs)]), range(number, number + 1))
    executor.set_input("x", batch(1))
    executor.run_stream(2000)
    assert executor.filled_slots() == []
