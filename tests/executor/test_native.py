"""The C++ executor: what plans compute, and what is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from tests.draws import draws
from tests.executor.native_plans import (
    PlanBuilder,
    chain,
    create,
    diamond,
    evaluate,
    refused,
    step,
    tensor,
)
from tvm_hetero.errors import RunError
from tvm_hetero.executor import native

# -------------------------------------------------------------------------------- results


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [diamond, lambda n: chain(7, n)], ids=["diamond", "chain"])
def test_results_are_those_of_the_steps_in_turn(
    make: Callable[[int], PlanBuilder], workers: int
) -> None:
    builder = make(workers)
    executor = builder.create()
    for value in (0.0, 5.0):
        executor.set_input("x", tensor(value, 2))
        assert executor.run() > 0
        expected = evaluate(builder, x=tensor(value, 2))["y"]
        np.testing.assert_array_equal(executor.get_output("y").numpy(), expected)
        assert executor.filled_slots() == [builder.plan["outputs"][0]["slot"]]


def test_constants_inputs_and_several_outs() -> None:
    builder = PlanBuilder(workers=2)
    x, c = builder.input(), builder.constant()
    first, second = builder.call([c, x], outs=2)
    [end] = builder.call([second, first, second, c], worker=1)
    builder.output(end, "end").output(first, "first").output(x, "through")
    executor = builder.create()
    with pytest.raises(RunError, match="constants not set: 'c'"):
        executor.run()
    executor.set_constant("c", tensor(1, 2, 3))
    with pytest.raises(RunError, match="inputs not set: 'x'"):
        executor.run()
    executor.set_input("x", tensor(4, 5))
    with pytest.raises(RunError, match="step 's0' on worker 'w0' failed"):
        executor.run()  # three numbers and two
    executor.set_constant("c", tensor(1, 2))
    executor.run()
    expected = evaluate(builder, x=tensor(4, 5), c=tensor(1, 2))
    for name, value in expected.items():
        np.testing.assert_array_equal(executor.get_output(name).numpy(), value)


@st.composite
def random_plans(draw: st.DrawFn) -> PlanBuilder:
    """A DAG of calls and copies, each on some worker; those that only call may be alike."""
    workers = draw(st.integers(1, 3))
    builder = PlanBuilder(workers)
    slots = [builder.input(), builder.constant()]
    for _ in range(draw(st.integers(1, 12))):
        ins = draw(st.lists(st.sampled_from(slots), min_size=1, max_size=3))
        worker = draw(st.integers(0, workers - 1))
        if draw(st.integers(0, 5)) == 0:
            slots.append(builder.copy(ins[0], worker=worker))
        else:
            outs = draw(st.integers(1, 2))
            slots += builder.call(ins, worker=worker, outs=outs)
    for i, slot in enumerate(sorted(draw(st.sets(st.sampled_from(slots), min_size=1)))):
        builder.output(slot, f"y{i}")
    copying = {row["worker"] for row in builder.plan["steps"] if row["kind"] == "copy"}
    calling = [worker for worker in range(workers) if worker not in copying]
    return builder.alike(*calling) if calling and draw(st.booleans()) else builder


def run_and_compare(builder: PlanBuilder, runs: int = 3) -> None:
    values = {"x": tensor(3, 1), "c": tensor(8, 5)}
    executor = builder.create()
    executor.set_constant("c", values["c"])
    executor.set_input("x", values["x"])
    expected = evaluate(builder, **values)
    for _ in range(runs):
        executor.run()
        for name, value in expected.items():
            np.testing.assert_array_equal(executor.get_output(name).numpy(), value)
    made = {slot for row in builder.plan["steps"] for slot in row["outs"]}
    kept = {row["slot"] for row in builder.plan["outputs"]} & made
    assert executor.filled_slots() == sorted(kept)


@settings(max_examples=draws(36), deadline=None)
@given(random_plans())
def test_random_plans_compute_what_their_steps_compute(builder: PlanBuilder) -> None:
    run_and_compare(builder)


def has_cycle(plan: dict[str, Any]) -> bool:
    """Whether steps wait for each other in a circle, by networkx."""
    graph = nx.DiGraph()
    producer = {slot: i for i, row in enumerate(plan["steps"]) for slot in row["outs"]}
    last: dict[int, int] = {}
    for i, row in enumerate(plan["steps"]):
        before = [producer[slot] for slot in row["ins"] if slot in producer]
        before += [last[row["worker"]]] if row["worker"] in last else []
        graph.add_edges_from((j, i) for j in before)
        last[row["worker"]] = i
    return not nx.is_directed_acyclic_graph(graph)


@settings(max_examples=draws(36), deadline=None)
@given(random_plans(), st.randoms(use_true_random=False))
def test_any_order_of_steps_runs_or_is_refused(builder: PlanBuilder, random: Any) -> None:
    order = list(range(len(builder.plan["steps"])))
    random.shuffle(order)
    builder.plan["steps"] = [builder.plan["steps"][i] for i in order]
    builder.functions = [builder.functions[i] for i in order]
    if has_cycle(builder.plan):
        assert "deadlock" in refused(builder.plan)
    else:
        run_and_compare(builder, runs=1)


@pytest.fixture(scope="session")
def add_vm() -> Any:
    """A compiled Relax function on TVM's VM, for the executor's real kind of step."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float64"), y: R.Tensor((2,), "float64")):
            with R.dataflow():
                s = R.add(x, y)
                p = R.multiply(x, y)
                R.output(s, p)
            return (s, p)

    executable = tvm.compile(Module, tvm.target.Target({"kind": "llvm"}))
    return [relax.VirtualMachine(executable, tvm.cpu()) for _ in range(2)]


def test_functions_of_the_tvm_vm(add_vm: Any) -> None:
    builder = PlanBuilder(workers=2, cores=[[0], [1 % (os.cpu_count() or 1)]])
    x, y = builder.input("x"), builder.input("y")
    s, p = builder.call([x, y], worker=0, outs=2, function=add_vm[0]["main"])
    t, q = builder.call([s, p], worker=1, outs=2, function=add_vm[1]["main"])
    executor = builder.output(t, "t").output(q, "q").create()
    executor.set_input("x", tensor(2, 3))
    executor.set_input("y", tensor(5, 7))
    executor.run_repeated(20)
    np.testing.assert_array_equal(executor.get_output("t").numpy(), [17, 31])
    np.testing.assert_array_equal(executor.get_output("q").numpy(), [70, 210])


# -------------------------------------------------------------------------------- what is refused


def test_wrong_inputs_are_refused_in_words() -> None:
    executor = chain(1).create()
    with pytest.raises(RunError, match="there is no input 'z'; the plan has: 'x'"):
        executor.set_input("z", tensor(1, 2))
    with pytest.raises(RunError, match="input 3 was asked for, but the plan has 1"):
        executor.set_input(3, tensor(1, 2))
    with pytest.raises(RunError, match=r"'x' was given as float64\[3\], expected float64\[2\]"):
        executor.set_input("x", tensor(1, 2, 3))
    with pytest.raises(RunError, match=r"given as int32\[2\], expected float64\[2\]"):
        executor.set_input("x", tvm.runtime.tensor(np.zeros(2, "int32")))
    strided = tvm_ffi.from_dlpack(np.zeros(4)[::2])
    with pytest.raises(RunError, match="'x' was given strided"):
        executor.set_input("x", strided)


def test_outputs_need_a_run() -> None:
    executor = chain(1).create()
    with pytest.raises(RunError, match="output 'y' is not there"):
        executor.get_output("y")
    with pytest.raises(RunError, match="there is no output 'z'"):
        executor.get_output("z")


def test_functions_must_fit_the_steps() -> None:
    builder = chain(2)
    executor = create(builder.plan)
    executor.set_input("x", tensor(1, 2))
    with pytest.raises(RunError, match="set_functions first"):
        executor.run()
    with pytest.raises(RunError, match=r"1 functions were given.*2 steps"):
        executor.set_functions([step(0)])
    with pytest.raises(RunError, match="step 's1' was given None, expected a function"):
        executor.set_functions([step(0), None])


@pytest.mark.parametrize(
    ("result", "outs", "words"),
    [
        (lambda: 7, 1, "returned int, expected a tensor"),
        (lambda: None, 2, "expected an array of 2 tensors"),
        (lambda: tensor(1), 2, "expected an array of 2 tensors"),
        (lambda: [tensor(1)], 2, "returned 1 tensors, expected 2"),
        (lambda: [tensor(1), 5], 2, "for slot 't2' is int, expected a tensor"),
    ],
)
def test_results_must_fit_the_slots(result: Callable[[], Any], outs: int, words: str) -> None:
    builder = PlanBuilder()
    slots = builder.call([builder.input()], outs=outs, function=lambda x: result())
    executor = builder.output(slots[0]).create()
    executor.set_input("x", tensor(1, 2))
    with pytest.raises(RunError, match=f"step 's0' on worker 'w0' failed: .*{words}"):
        executor.run()


def test_a_second_thread_is_refused_during_a_run() -> None:
    builder = PlanBuilder()
    inside, leave = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        inside.set()
        assert leave.wait(30)
        return x

    executor = builder.output(builder.call([builder.input()], function=wait)[0]).create()
    executor.set_input("x", tensor(1, 2))
    runner = threading.Thread(target=executor.run)
    runner.start()
    assert inside.wait(30)
    for attempt in (
        executor.run,
        lambda: executor.get_output("y"),
        lambda: executor.set_input("x", tensor(1, 2)),
        executor.trace,
    ):
        with pytest.raises(RunError, match="another thread is in a run"):
            attempt()
    leave.set()
    runner.join()
    np.testing.assert_array_equal(executor.get_output("y").numpy(), [1, 2])


# -------------------------------------------------------------------------------- output shapes


def shaped(shape: list[int]) -> native.NativeExecutor:
    """An executor that returns its input of two elements in another shape, after a run."""
    builder = PlanBuilder(1)
    [slot] = builder.call([builder.input()], function=lambda x: x)
    builder.output(slot).plan["outputs"][0]["shape"] = shape
    executor = builder.create()
    executor.set_input(0, tensor(1.0, 2.0))
    executor.run()
    return executor


def test_an_output_may_have_another_shape() -> None:
    executor = shaped([2, 1, 1])
    output = executor.get_output(0)
    assert output.numpy().tolist() == [[[1.0]], [[2.0]]]
    executor.run()
    del executor
    assert output.numpy().tolist() == [[[1.0]], [[2.0]]], "it keeps its memory"


def test_an_output_shape_of_another_size_is_refused_by_name() -> None:
    with pytest.raises(RunError, match=r"output 'y' has 2 elements, its shape in the plan 5"):
        shaped([5]).get_output(0)
