"""Streams: batches in a pipeline over the workers, in order, bounded, and safe when steps fail."""

from __future__ import annotations

import contextlib
import math
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

from tests.runtime.native_plans import (
    PlanBuilder,
    chain,
    diamond,
    evaluate,
    run_python,
    tensor,
)
from tests.runtime.test_native import has_cycle, random_plans
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.runtime import native
from tvm_hetero.runtime.stream import steady_seconds, stream

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


@settings(max_examples=60, deadline=None)
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
    executor = native.create(builder.plan)
    assert list(executor.stages) == stages
    assert executor.frames == max(stages) + 2
    # What a step needs for its batch was made in an earlier period, or before it by its own worker.
    for j, i in graph.edges:
        earlier = executor.stages[j] < executor.stages[i]
        assert earlier or (steps[j]["worker"] == steps[i]["worker"] and j < i)


# -------------------------------------------------------------------------------- results


@pytest.mark.parametrize("count", [0, 1, 2, 30])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [diamond, lambda n: chain(7, n)], ids=["diamond", "chain"])
def test_outputs_come_in_order(
    make: Callable[[int], PlanBuilder], workers: int, count: int
) -> None:
    builder = make(workers)
    executor = created(builder)
    check(builder, stream(executor, ([batch(i)] for i in range(count))), range(count))
    assert executor.filled_slots() == []


@settings(max_examples=60, deadline=None)
@given(random_plans(), st.randoms(use_true_random=False))
def test_random_plans_compute_in_a_stream_what_they_compute(
    builder: PlanBuilder, random: Any
) -> None:
    shuffled(builder, random)
    executor = created(builder)
    for first in (0, 100):
        inputs = ([batch(first + i)] for i in range(12))
        check(builder, stream(executor, inputs), range(first, first + 12))
        assert executor.filled_slots() == []
        executor.set_input("x", batch(7))
        executor.run()
        for i, right in enumerate(expected(builder, 7)):
            np.testing.assert_array_equal(executor.get_output(i).numpy(), right)


@settings(max_examples=40, deadline=None)
@given(random_plans(), st.lists(st.booleans(), max_size=30))
def test_push_and_pop_in_any_way(builder: PlanBuilder, pushes: list[bool]) -> None:
    executor = created(builder)
    executor.open_stream()
    pushed, popped = 0, 0
    for is_push in [*pushes, *([False] * len(pushes))]:
        if is_push:
            taken_in = executor.push([batch(pushed)])
            # Empty batches, which a pop sends behind the one it waits for, take room as well.
            assert taken_in or popped < pushed
            pushed += taken_in
            assert pushed - popped <= executor.frames
        elif popped < pushed:
            check(builder, iter([executor.pop()]), range(popped, popped + 1))
            popped += 1
        else:
            with pytest.raises(RunError, match="nothing is in flight"):
                executor.pop()
    executor.close_stream()
    assert executor.filled_slots() == []


def test_constants_and_inputs_that_are_outputs() -> None:
    builder = PlanBuilder(workers=2)
    x, c = builder.input(), builder.constant()
    [y] = builder.call([x, c], worker=1)
    executor = created(builder.output(c, "c").output(x, "through").output(y))
    check(builder, stream(executor, ([batch(i)] for i in range(9))), range(9))


def test_a_plan_without_steps_streams() -> None:
    builder = PlanBuilder()
    executor = created(builder.output(builder.input()))
    assert executor.frames == 2
    check(builder, stream(executor, ([batch(i)] for i in range(5))), range(5))


def test_an_output_that_is_held_stays_what_it_is() -> None:
    builder = PlanBuilder(workers=2)
    [y] = builder.call([builder.input()])
    copied = builder.copy(y, worker=1)
    executor = builder.output(y).output(copied, "copied").create()
    held = list(stream(executor, ([batch(i)] for i in range(20))))
    check(builder, iter(held), range(20))


# -------------------------------------------------------------------------------- overlap


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
    outputs = list(stream(executor, ([batch(i)] for i in range(count))))
    assert [out.numpy()[0] for [out] in outputs] == list(range(count))
    assert rounds == {"first": count, "second": count}


def test_each_worker_does_all_of_its_steps_in_every_period() -> None:
    """Back and forth between two workers: all four steps are at work on batches of their own."""
    builder = chain(4, workers=2)
    steps: list[tuple[int, float]] = []
    lock = threading.Lock()

    def record(number: int) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            with lock:
                steps.append((number, x.numpy()[0]))
            return x

        return function

    builder.functions = [record(i) for i in range(4)]
    executor = builder.create()
    assert executor.stages == (0, 1, 2, 3)
    assert executor.frames == 5
    assert len(list(stream(executor, ([batch(i)] for i in range(9))))) == 9
    for worker in (0, 1):
        mine = [pair for pair in steps if pair[0] % 2 == worker]
        # In period t: its first step for batch t - stage, its second for the one 2 behind.
        periods = [
            (step, float(t - step))
            for t in range(9 + 3)
            for step in (worker, worker + 2)
            if 0 <= t - step < 9
        ]
        assert mine == periods


def test_no_more_batches_are_in_flight_than_there_are_frames() -> None:
    builder = chain(5, workers=2)
    executor = builder.create()
    taken, most = 0, 0
    pulled = 0

    def inputs() -> Iterator[list[Any]]:
        nonlocal pulled, most
        for i in range(40):
            pulled += 1
            most = max(most, pulled - taken)
            yield [batch(i)]

    for _ in stream(executor, inputs()):
        taken += 1
    assert (pulled, taken) == (40, 40)
    # All frames are full and one more stands before the door.
    assert most == executor.frames + 1


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
    for _ in stream(executor, ([batch(i)] for i in range(60))):
        pass
    # Of each batch the tensor made and the one it is made of; outputs wait to be taken.
    assert max(counts) <= 2 * executor.frames
    assert len(alive) == 360


# -------------------------------------------------------------------------------- figures


def test_completion_times_and_the_steady_state() -> None:
    executor = diamond(2).create()
    with pytest.raises(RunError, match="inputs not set: 'x'"):
        executor.run_stream(3)
    executor.set_input("x", batch(1))
    ends = executor.run_stream(20)
    assert len(ends) == 20
    assert ends == sorted(ends)
    assert ends[0] > 0
    assert executor.run_stream(0) == []
    assert 0 < steady_seconds(executor, 10) < 1
    with pytest.raises(UsageError, match="0 batches"):
        steady_seconds(executor, 0)
    executor.run()  # the inputs are still set
    assert executor.filled_slots() != []


def test_the_trace_is_of_one_period() -> None:
    builder = chain(4, workers=2)
    executor = builder.create()
    executor.set_input("x", batch(1))
    executor.run_stream(10)
    spans = executor.trace()
    assert min(start for start, _ in spans) == 0
    assert all(0 <= start <= end for start, end in spans)
    for worker in (0, 1):  # in the order of the worker's list, without overlap
        (_, end), (start, _) = spans[worker], spans[worker + 2]
        assert end <= start
    executor.run_stream(2)  # the pipeline was never full: the later steps are not told of
    assert [math.isnan(end) for _, end in executor.trace()] == [False, False, True, True]


# -------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [diamond, lambda n: chain(5, n)], ids=["diamond", "chain"])
def test_each_step_may_fail_in_the_middle_of_a_stream(
    make: Callable[[int], PlanBuilder], workers: int
) -> None:
    builder = make(workers)
    plain = list(builder.functions)
    failing, calls = -1, [0] * len(plain)

    def fragile(number: int) -> Callable[..., Any]:
        def run(*ins: Any) -> Any:
            calls[number] += 1
            if number == failing and calls[number] == 8:
                raise ValueError(f"nothing left at {number}")
            return plain[number](*ins)  # type: ignore[misc]

        return run

    builder.functions = [fragile(i) for i in range(len(plain))]
    executor = builder.create()
    for failing in range(len(plain)):
        calls[:] = [0] * len(plain)
        row = builder.plan["steps"][failing]
        words = (
            f"batch 7 of the stream: step '{row['name']}' on worker 'w{row['worker']}' failed: "
            f"ValueError: nothing left at {failing}"
        )
        results: list[Any] = []
        with pytest.raises(RunError, match=words):
            results.extend(stream(executor, ([batch(i)] for i in range(30))))
        assert executor.filled_slots() == []
        with pytest.raises(RunError, match="no stream is open"):
            executor.pop()
        saved, failing = failing, -1
        check(builder, stream(executor, ([batch(i)] for i in range(10))), range(10))
        executor.set_input("x", batch(3))
        executor.run()
        [right] = expected(builder, 3)
        np.testing.assert_array_equal(executor.get_output("y").numpy(), right)
        failing = saved


def test_what_came_before_the_failure_was_right() -> None:
    builder = chain(3, workers=3)
    last = builder.functions[2]
    builder.functions[2] = lambda x: 1 // 0 if x.numpy()[0] > 1000 else last(x)  # type: ignore
    executor = builder.create()
    given = [batch(i) for i in range(9)] + [tensor(5000, 5000)] + [batch(i) for i in range(20)]
    results = []
    with pytest.raises(RunError, match="step 's2' on worker 'w2'"):
        for [out] in stream(executor, ([x] for x in given)):
            results.append(out.numpy())
    assert len(results) <= 9
    builder.functions[2] = last
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, expected(builder, i)[0])


def test_a_failure_of_the_inputs_frees_the_executor() -> None:
    builder = chain(3, workers=2)
    executor = builder.create()

    def inputs() -> Iterator[list[Any]]:
        for i in range(3):
            yield [batch(i)]
        raise KeyError("no more files")

    with pytest.raises(KeyError, match="no more files"):
        list(stream(executor, inputs()))
    with pytest.raises(RunError, match=r"'x' was given as float64\[3\]"):
        list(stream(executor, iter([[batch(0)], [tensor(1, 2, 3)]])))
    with pytest.raises(RunError, match="0 inputs were given, expected 1"):
        list(stream(executor, iter([[]])))
    check(builder, stream(executor, ([batch(i)] for i in range(3))), range(3))


def test_while_a_stream_is_open_everything_else_is_refused() -> None:
    builder = diamond(2)
    executor = builder.create()
    executor.set_input("x", batch(0))
    outputs = stream(executor, ([batch(i)] for i in range(30)))
    next(outputs)
    for attempt in (
        executor.run,
        lambda: executor.run_stream(3),
        executor.open_stream,
        lambda: executor.set_input("x", batch(0)),
        lambda: executor.set_functions(builder.functions),
        lambda: executor.get_output("y"),
        executor.filled_slots,
        executor.trace,
    ):
        with pytest.raises(RunError, match="a stream is open"):
            attempt()
    outputs.close()  # type: ignore[attr-defined]
    assert executor.filled_slots() == []
    executor.run()


def test_a_stream_that_is_dropped_is_closed() -> None:
    executor = chain(3, 2).create()
    outputs = stream(executor, ([batch(i)] for i in range(30)))
    next(outputs)
    del outputs
    executor.set_input("x", batch(0))
    executor.run()
    assert executor.filled_slots() == [3]


def test_close_ends_a_stream() -> None:
    executor = chain(3, 2).create()
    executor.open_stream()
    executor.push([batch(0)])
    executor.close()
    with pytest.raises(RunError, match="was closed during the run"):
        executor.pop()
    with pytest.raises(RunError, match="is closed: make a new one"):
        executor.open_stream()


def test_many_streams_come_and_go() -> None:
    builder = diamond(3)
    executor = builder.create()
    for round in range(100):
        outputs = stream(executor, ([batch(i)] for i in range(20)))
        for number in range(round % 20):
            check(builder, iter([next(outputs)]), range(number, number + 1))
        with contextlib.closing(outputs):  # type: ignore[type-var]
            pass
    executor.set_input("x", batch(1))
    executor.run_stream(2000)
    assert executor.filled_slots() == []


def test_the_interpreter_ends_with_a_stream_open() -> None:
    code = """
        import gc
        x = builder.input()
        def slow(x):
            time.sleep(0.05); return x
        for _ in range(3):
            [x] = builder.call([x], function=slow)
        builder.output(x)
        for keep in (False, True):
            executor = builder.create()
            executor.open_stream()
            for _ in range(2):
                executor.push([tensor(1, 2)])
            if not keep:
                del executor
                gc.collect()
        sys.modules["tvm_ffi"].kept = executor
        print("end")
        """
    assert run_python(code) == "end\n"


def test_an_interrupt_ends_a_stream() -> None:
    code = """
        import os, signal
        x = builder.input()
        def slow(x):
            time.sleep(0.01); return x
        [x] = builder.call([x], function=slow)
        executor = builder.output(x).create()
        executor.set_input("x", tensor(1, 2))
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            executor.run_stream(100000)
        except KeyboardInterrupt:
            print("interrupted", executor.filled_slots())
        executor.run()
        """
    assert run_python(code) == "interrupted []\n"
