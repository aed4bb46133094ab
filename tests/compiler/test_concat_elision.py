"""Parts that are made where they belong: the same numbers, and no call."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.executor.interpreter import interpret
from tests.models import as_schedule, lowered, two_cpus, unit_problem
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.plan.format import plan_to_dict

ops = relax.op
PLATFORM = two_cpus()


def pool(builder, x):
    """A kernel that nothing is fused with."""
    return builder.emit(ops.nn.max_pool2d(x, (3, 3), padding=1))


def network(write, pixels: int = 4) -> tvm.IRModule:
    """``main`` of one image of two channels; `write` gives the results."""
    x = relax.Var("x", relax.TensorType((1, 2, pixels, pixels), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            results = write(builder, x)
            out = builder.emit_output(relax.Tuple(list(results)))
        builder.emit_func_output(out)
    return lowered(builder.get(), PLATFORM)


def run(module: tvm.IRModule, little: tuple[str, ...] = (), batch: int = 1):
    """Run with these tasks on the little core; what is joined, and that all numbers are right."""
    problem = unit_problem(module, PLATFORM, batch)
    elements = tuple(range(batch))
    steps = [
        (task, "little" if task in little else "big", elements)
        for task in problem.graph.topological_order
    ]
    placed = annotate_devices(module, problem, as_schedule(problem, steps))
    executable = build(placed, single=False)
    plan = plan_to_dict(executable.variants["partition"].plan)
    shape = plan["inputs"][0]["shape"]
    rng = np.random.default_rng(0)
    values = {row["name"]: rng.standard_normal(shape).astype("float32") for row in plan["inputs"]}
    expected = ReferenceVM(placed).run(*values.values())
    found = interpret(executable.variants["partition"], executable.weights, values)
    assert [out.tobytes() for out in found] == [out.tobytes() for out in expected]
    with Executor(executable) as executor:
        stacked = np.stack(list(values.values()))
        for _ in range(2):
            outputs = executor.run(input0=stacked if batch > 1 else stacked[0])
        ours = [out.numpy().reshape(batch, -1) for out in outputs]
    reference = [np.stack([e.ravel() for e in expected[i :: len(ours)]]) for i in range(len(ours))]
    assert [out.tobytes() for out in ours] == [out.tobytes() for out in reference]
    called = [call["task"] for step in plan["steps"] for call in step.get("calls", ())]
    joined = [row["task"] for step in plan["steps"] for row in step.get("joined", ())]
    assert not set(called) & set(joined)
    return joined, plan


def fire(builder, x):
    a, b = pool(builder, x), pool(builder, pool(builder, x))
    return [pool(builder, builder.emit(ops.concat([a, b], axis=1)))]


def test_parts_of_a_segment_s_own_need_no_call():
    joined, plan = run(network(fire))
    assert joined == ["3.concatenate"]
    (step,) = plan["steps"]
    a, _, b, last = step["calls"]
    start = a["args"][-1]["scratch"]
    assert b["args"][-1]["scratch"] == start + 2 * 16 * 4
    assert last["args"][0] == {"scratch": start, "shape": [1, 4, 4, 4], "dtype": "float32"}


def test_its_task_is_traced_and_takes_no_time():
    module = network(fire)
    problem = unit_problem(module, PLATFORM)
    steps = [(task, "big", (0,)) for task in problem.graph.topological_order]
    placed = annotate_devices(module, problem, as_schedule(problem, steps))
    with Executor(build(placed, single=False)) as executor:
        executor.profile_kernels = True
        executor.run(executor.random_inputs())
        (traced,) = executor.trace()
        times = {row.task: row.seconds for row in executor.kernel_times()}
    assert set(traced.tasks) == set(times) == set(problem.graph.index)
    assert times.pop("3.concatenate") == 0 and min(times.values()) > 0


def test_each_element_of_a_batch_by_itself():
    joined, _ = run(network(fire), batch=2)
    assert sorted(joined) == ["3.concatenate#0", "3.concatenate#1"]


def test_a_join_may_be_part_of_another():
    """As in DenseNet: what was joined goes on to be joined, and is read on the way."""

    def write(builder, x):
        first = builder.emit(ops.concat([pool(builder, x), pool(builder, x)], axis=1))
        layer = pool(builder, pool(builder, first))
        second = builder.emit(ops.concat([first, layer], axis=1))
        return [pool(builder, second)]

    joined, _ = run(network(write))
    assert len(joined) == 2


def test_a_part_of_two_joins_is_copied_into_the_second():
    def write(builder, x):
        a, b, c = pool(builder, x), pool(builder, x), pool(builder, pool(builder, x))
        first = builder.emit(ops.concat([a, b], axis=1))
        second = builder.emit(ops.concat([b, c], axis=1))
        return [pool(builder, first), pool(builder, second)]

    joined, _ = run(network(write))
    assert len(joined) == 1


def result(builder, x):
    return [builder.emit(ops.concat([pool(builder, x), pool(builder, pool(builder, x))], axis=1))]


def of_an_input(builder, x):
    return [pool(builder, builder.emit(ops.concat([x, pool(builder, x)], axis=1)))]


def of_a_constant(builder, x):
    constant = relax.const(np.ones((1, 2, 4, 4), "float32"))
    return [pool(builder, builder.emit(ops.concat([pool(builder, x), constant], axis=1)))]


def part_returned(builder, x):
    a, b = pool(builder, x), pool(builder, pool(builder, x))
    return [pool(builder, builder.emit(ops.concat([a, b], axis=1))), b]


def the_same_twice(builder, x):
    a = pool(builder, x)
    return [pool(builder, builder.emit(ops.concat([a, a], axis=1)))]


@pytest.mark.parametrize(
    "write", [result, of_an_input, of_a_constant, part_returned, the_same_twice]
)
def test_what_must_stand_elsewhere_is_copied(write):
    joined, _ = run(network(write))
    assert joined == []


def test_parts_between_cache_lines_are_copied():
    joined, _ = run(network(fire, pixels=3))
    assert joined == []


def test_a_part_of_another_device_is_copied():
    module = network(fire)
    tasks = list(unit_problem(module, PLATFORM).graph.topological_order)
    joined, _ = run(module, little=tuple(tasks[1:3]))
    assert joined == []
