"""A placed module on the executor: the same outputs as TVM's VM, whatever the placement."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from benchmarks.execution.logits import logits_of
from tests.draws import draws
from tests.models import (
    branchy,
    branchy_inputs,
    equal_cpus,
    lowered,
    placed,
    random_schedule,
    two_cpus,
    unit_problem,
)
from tests.test_light_models import unlike_cpus
from tvm_hetero import relay
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.errors import ArtifactError, NumericsError, RunError, UsageError
from tvm_hetero.executor.executor import Executor, identifier
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.attributes import INPUT_NAMES
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.problem import Objective

X, Y = branchy_inputs()


@pytest.fixture
def executor(executable: Executable) -> Iterator[Executor]:
    with Executor(executable) as made:
        yield made


@pytest.fixture(scope="module")
def unpartitioned() -> list[np.ndarray]:
    """The model as TVM compiles it by itself: no pass, kernel or executor of ours."""
    vm = tvm.relax.VirtualMachine(tvm.compile(branchy(), "llvm"), tvm.cpu())
    return [out.numpy() for out in vm["main"](tvm.runtime.tensor(X), tvm.runtime.tensor(Y))]


@settings(max_examples=draws(8), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_cutting_is_invisible(seed, unpartitioned):
    with Executor(build(placed(seed), single=False)) as executor:
        for _ in range(2):
            outputs = executor.run({"in/x": X, "y": Y})
            for out, expected in zip(outputs, unpartitioned, strict=True):
                np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bit_for_bit_what_the_stock_vm_gives(seed):
    module = placed(seed)
    reference = ReferenceVM(module).run(X, Y)
    with Executor(build(module, single=False)) as executor:
        outputs = executor.run({"in/x": X, "y": Y})
    assert [out.numpy().tobytes() for out in outputs] == [ref.tobytes() for ref in reference]


def test_the_best_single_device_is_built_beside_it(executable, unpartitioned):
    with Executor(executable, "single") as single:
        assert len(single.plan.workers) == 1
        assert len(single.plan.steps) == 1
        outputs = single.run({"in/x": X, "y": Y})
    np.testing.assert_allclose(outputs[0].numpy(), unpartitioned[0], rtol=1e-4, atol=1e-6)


def test_inputs_by_name_by_identifier_and_as_tvm_tensors(executor):
    by_name = executor.run({"in/x": X, "y": Y})
    by_identifier = executor.run(in_x=tvm.runtime.tensor(X), y=Y)
    mixed = executor.run({"in/x": X}, y=tvm.runtime.tensor(Y))
    for outputs in (by_identifier, mixed):
        for out, expected in zip(outputs, by_name, strict=True):
            assert (out.numpy() == expected.numpy()).all()
    assert executor.outputs == ("probabilities", "features")


def test_identifiers():
    assert identifier("gpu_0/data_0") == "gpu_0_data_0"
    assert identifier("0:x") == "_0_x"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"in/x": X}, r"'y' is missing; expected in/x: float32\[1, 4, 8, 8\], y: float32\[1, 8\]"),
        ({"in/x": X, "z": Y}, "no input 'z'"),
        ({"in/x": X[:, :3], "y": Y}, r"'in/x': expected float32 of shape \[1, 4, 8, 8\], got"),
        ({"in/x": X.astype("float64"), "y": Y}, "got float64"),
        ({"in/x": X, "y": [1.0]}, "expected an array, got list"),
        ({"in/x": X, "in_x": X, "y": Y}, "given twice"),
    ],
)
def test_wrong_inputs_are_refused_and_the_next_run_works(executor, values, message):
    with pytest.raises(RunError, match=message):
        executor.run(values)
    assert len(executor.run({"in/x": X, "y": Y})) == 2


def test_an_output_that_is_held_survives_the_next_run(executor):
    first = executor.run({"in/x": X, "y": Y})[0]
    kept = first.numpy().copy()
    executor.run({"in/x": -X, "y": -Y})
    assert (first.numpy() == kept).all()


def test_the_trace_covers_every_task_once(executor):
    executor.run({"in/x": X, "y": Y})
    trace = executor.trace()
    tasks = [task for step in trace for task in step.tasks]
    assert sorted(tasks) == sorted(executor.problem.graph.index)
    assert all(0 <= step.start <= step.end for step in trace)
    places = {task: devices[0] for task, devices in executor.schedule.placement.items()}
    assert all(places[task] == step.device for step in trace for task in step.tasks)


def test_both_devices_are_in_use(executor):
    executor.run({"in/x": X, "y": Y})
    assert {step.device for step in executor.trace()} == {"big", "little"}


def test_benchmark_gives_one_time_a_run(executor):
    times = executor.benchmark({"in/x": X, "y": Y}, repeat=7, warmup=1)
    assert len(times) == 7
    assert all(seconds > 0 for seconds in times)


def test_random_inputs_are_seeded(executor):
    one, same, other = (executor.random_inputs(seed) for seed in (0, 0, 1))
    assert one.keys() == {"in/x", "y"}
    assert all((one[name] == same[name]).all() for name in one)
    assert not all((one[name] == other[name]).all() for name in one)


def test_an_unknown_variant_is_refused(executable):
    with pytest.raises(UsageError, match=r"no variant 'singel'; did you mean 'single'\?"):
        Executor(executable, "singel")


def test_libraries_of_another_model_are_refused(executable):
    chosen = executable.variants["single"]
    [device] = chosen.libraries
    other = build(soft_module(), single=False).variants["partition"]
    wrong = replace(chosen, libraries={device: next(iter(other.libraries.values()))})
    for libraries, message in ((wrong.libraries, "is not that of the plan"), ({}, "no library of")):
        variants = {"single": replace(chosen, libraries=libraries)}
        with pytest.raises(ArtifactError, match=message):
            Executor(replace(executable, variants=variants), "single")


def test_a_module_without_placement_is_refused():
    with pytest.raises(UsageError, match="HeteroPartition"):
        build(branchy())


@pytest.mark.parametrize("nonsense", [None, "net.hetero", 5])
def test_what_is_neither_module_nor_executable_is_refused_by_its_type(nonsense):
    with pytest.raises(UsageError, match=f"annotated module.* got {type(nonsense).__name__}"):
        build(nonsense)
    with pytest.raises(UsageError, match=f"Executable, got {type(nonsense).__name__}.*load"):
        Executor(nonsense)


def test_executors_come_and_go(executable):
    for _ in range(20):
        executor = Executor(executable)
        executor.run({"in/x": X, "y": Y})
        del executor
    gc.collect()
    with Executor(executable) as last:
        assert len(last.run({"in/x": X, "y": Y})) == 2


def test_with_equal_targets_the_placement_changes_no_bit():
    platform = two_cpus()
    big, little = platform.devices
    twins = replace(platform, devices=(big, replace(little, target=big.target)))
    outputs = []
    for seed in (11, 12):
        with Executor(build(placed(seed, twins), single=False)) as executor:
            outputs.append([o.numpy().tobytes() for o in executor.run({"in/x": X, "y": Y})])
    assert outputs[0] == outputs[1]


def stream_of_inputs(count: int) -> list[dict[str, np.ndarray]]:
    arrays = [branchy_inputs(seed) for seed in range(count)]
    return [{"in/x": x, "y": y} for x, y in arrays]


def bits(outputs) -> list[bytes]:
    return [out.numpy().tobytes() for out in outputs]


@settings(max_examples=draws(8), deadline=None)
@given(seed=st.integers(0, 10**6), platform=st.sampled_from([two_cpus(), equal_cpus()]))
def test_a_stream_gives_bit_for_bit_what_runs_give(seed, platform):
    with Executor(build(placed(seed, platform), single=False)) as executor:
        helped = {row.alike for row in executor.plan.workers}
        both = len(executor.plan.workers) == 2
        assert helped == ({0} if both and platform == equal_cpus() else {None})
        inputs = stream_of_inputs(executor.depth + 5)
        expected = [bits(executor.run(values)) for values in inputs]
        held = list(executor.map(inputs))  # no output is overwritten by a later batch
        assert [bits(outputs) for outputs in held] == expected
        assert len({outputs[0] for outputs in expected}) == len(inputs)


def test_a_stream_takes_inputs_only_as_it_has_room(executor):
    pulled = taken = 0

    def inputs():
        nonlocal pulled
        for values in stream_of_inputs(3 * executor.depth):
            assert pulled - taken <= executor.depth
            pulled += 1
            yield values

    for outputs in executor.map(inputs()):
        assert len(outputs) == 2
        taken += 1
    assert taken == pulled == 3 * executor.depth


def test_wrong_inputs_in_a_stream_are_refused_and_the_next_run_works(executor):
    right = {"in/x": X, "y": Y}
    with pytest.raises(RunError, match="'y' is missing"):
        list(executor.map([right, right, {"in/x": X}, right]))
    expected = bits(executor.run(right))
    assert [bits(outputs) for outputs in executor.map([right] * 3)] == [expected] * 3


def test_throughput_is_that_of_the_steady_state(executor):
    values = {"in/x": X, "y": Y}
    began = time.perf_counter()
    seconds = executor.throughput(values, batches=20)
    assert 0 < seconds < time.perf_counter() - began
    period = executor.trace()
    assert sorted(task for step in period for task in step.tasks) == sorted(
        executor.problem.graph.index
    )
    assert min(step.start for step in period) == 0
    with pytest.raises(UsageError, match="0 batches"):
        executor.throughput(values, batches=0)
    assert bits(executor.run(values)) == bits(next(executor.map([values])))


def soft_module() -> tvm.IRModule:
    """A placed model that returns a softmax, its input itself, and its input in another shape."""
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            soft = builder.emit(relax.op.nn.softmax(x))
            out = builder.emit_output(relax.Tuple([soft, x, relax.op.reshape(x, (2, 2))]))
        builder.emit_func_output(out)
    module = lowered(builder.get(), two_cpus())
    problem = unit_problem(module, two_cpus())
    return annotate_devices(module, problem, random_schedule(problem, 0))


def test_an_output_that_is_an_input_survives_the_next_run():
    value = np.arange(4, dtype="float32")
    with Executor(build(soft_module(), single=False)) as executor:
        held = executor.run(input0=value)
        executor.run(input0=-value)
        assert (held[1].numpy() == value).all()
        assert (held[2].numpy() == value.reshape(2, 2)).all()


def test_inputs_that_are_no_mapping_are_refused(executor):
    with pytest.raises(RunError, match=r"expected a mapping .* got ndarray"):
        executor.run(X)
    with pytest.raises(RunError, match=r"expected a mapping .* got list"):
        list(executor.map([[X, Y]]))
    with pytest.raises(RunError, match="'y' is given twice"):
        executor.run({"in/x": X, "y": Y}, y=Y)


def test_a_numpy_scalar_is_an_input():
    x = relax.Var("x", relax.TensorType((), "float32"))
    builder = relax.BlockBuilder()
    attrs = {INPUT_NAMES: ["a/b"]}
    with builder.function("main", [x], attrs=attrs):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, x))
        builder.emit_func_output(out)
    module = lowered(builder.get(), two_cpus())
    problem = unit_problem(module, two_cpus())
    module = annotate_devices(module, problem, random_schedule(problem, 0))
    with Executor(build(module, single=False)) as executor:
        (out,) = executor.run(a_b=np.float32(3))
        assert out.numpy().shape == ()
        assert float(out.numpy()) == 6.0
        assert [float(o.numpy()) for (o,) in executor.map([{"a/b": np.float32(4)}])] == [8.0]


def test_an_identifier_that_two_inputs_share_names_neither():
    x, y = (relax.Var(name, relax.TensorType((4,), "float32")) for name in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y], attrs={INPUT_NAMES: ["a/b", "a.b"]}):
        with builder.dataflow():
            out = builder.emit_output(relax.op.subtract(x, y))
        builder.emit_func_output(out)
    module = lowered(builder.get(), two_cpus())
    problem = unit_problem(module, two_cpus())
    module = annotate_devices(module, problem, random_schedule(problem, 0))
    one = np.ones(4, "float32")
    with Executor(build(module, single=False)) as executor:
        assert (executor.run({"a/b": one, "a.b": 3 * one})[0].numpy() == -2).all()
        with pytest.raises(RunError, match="no input 'a_b'"):
            executor.run({"a/b": one, "a_b": one})


def test_another_thread_than_its_maker_may_use_it_and_two_run_at_once(executable):
    expected = bits(Executor(executable).run({"in/x": X, "y": Y}))
    results = []

    def use(executor):
        results.extend(bits(executor.run({"in/x": X, "y": Y})) for _ in range(20))

    with Executor(executable) as one, Executor(executable, "single") as other:
        threads = [threading.Thread(target=use, args=(e,)) for e in (one, Executor(executable))]
        for thread in threads:
            thread.start()
        single = [bits(other.run({"in/x": X, "y": Y})) for _ in range(20)]
        for thread in threads:
            thread.join()
    assert results == [expected] * 40
    assert single == [single[0]] * 20


# -------------------------------------------------------------------------------- batches

BATCH = 3


def batch_executor(seed: int) -> Executor:
    """The small model for batches of three, its tasks and elements placed at random."""
    module = lowered(branchy(), two_cpus())
    problem = unit_problem(module, two_cpus(), batch=BATCH)
    placed_batch = annotate_devices(module, problem, random_schedule(problem, seed))
    return Executor(build(placed_batch, single=False))


@pytest.mark.parametrize("seed", [1, 2])
def test_each_element_of_a_batch_gives_what_it_gives_alone(executor, seed):
    elements = stream_of_inputs(BATCH)
    alone = [executor.run(values) for values in elements]
    stacked = {name: np.stack([values[name] for values in elements]) for name in ("in/x", "y")}
    merged = {name: np.concatenate([values[name] for values in elements]) for name in stacked}
    with batch_executor(seed) as batches:
        assert batches.batch == BATCH
        assert [info.shape for info in batches.inputs] == [(BATCH, 4, 8, 8), (BATCH, 8)]
        assert batches.outputs == executor.outputs
        for values in (stacked, elements):
            outputs = batches.run(values)
            assert [out.numpy().shape for out in outputs] == [(BATCH, 1, 10), (BATCH, 16, 64)]
            for out, *expected in zip(outputs, *alone, strict=True):
                right = np.stack([each.numpy() for each in expected])
                np.testing.assert_allclose(out.numpy(), right, rtol=1e-4, atol=1e-5)
        joined = batches.run(merged)
        assert [out.numpy().shape for out in joined] == [(BATCH, 10), (BATCH * 16, 64)]
        assert [out.numpy().tobytes() for out in joined] == bits(outputs)
        assert [bits(each) for each in batches.map([merged] * 8)] == [bits(outputs)] * 8
        assert bits(batches.submit(stacked).result()) == bits(outputs)
        mixed = batches.run({"in/x": merged["in/x"]}, y=tvm.runtime.tensor(stacked["y"]))
        assert mixed[0].numpy().shape == (BATCH, 1, 10)
        assert bits(mixed) == bits(outputs)


def test_the_trace_of_a_batch_covers_every_task_of_every_element(executor):
    with batch_executor(3) as batches:
        batches.profile_kernels = True
        inputs, began = batches.random_inputs(), time.perf_counter()
        batches.run(inputs)
        took = time.perf_counter() - began
        ran = [
            (task, element)
            for step in batches.trace()
            for task, element in zip(step.tasks, step.elements, strict=True)
        ]
        tasks = sorted(batches.problem.graph.index)
        assert sorted(ran) == [(task, element) for task in tasks for element in range(BATCH)]
        times = batches.kernel_times()
        assert sorted((each.task, *each.elements) for each in times) == sorted(ran)
        assert all(0 <= each.seconds < took for each in times)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"in/x": X, "y": Y}, r"float32 of shape \[3, 4, 8, 8\] or \[3, 1, 4, 8, 8\], got"),
        ([{"in/x": X, "y": Y}] * 2, "of 2 elements, expected 3"),
        ([{"in/x": X, "y": Y}, {"in/x": X}, {"in/x": X, "y": Y}], "'y' of element 1 is missing"),
        ([{"in/x": X, "y": Y}, 5, {"in/x": X, "y": Y}], "expected a mapping"),
    ],
)
def test_wrong_batches_are_refused(values, message):
    with batch_executor(4) as batches:
        with pytest.raises(RunError, match=message):
            batches.run(values)


# -------------------------------------------------------------------------------- looking closer


def test_kernels_are_timed_on_request(executor):
    executor.run({"in/x": X, "y": Y})
    executor.profile_kernels = True
    began = time.perf_counter()
    executor.run({"in/x": X, "y": Y})
    took = time.perf_counter() - began
    times = executor.kernel_times()
    assert sorted(each.task for each in times) == sorted(executor.problem.graph.index)
    assert all(each.elements == (0,) and 0 < each.seconds < took for each in times)
    places = {task: devices[0] for task, devices in executor.schedule.placement.items()}
    assert all(places[each.task] == each.device for each in times)
    inside = {step.name: step.end - step.start for step in executor.trace()}
    assert sum(each.seconds for each in times) <= sum(inside.values())


def test_values_that_are_not_finite_are_found_on_request(executor):
    values = {"in/x": X, "y": np.full_like(Y, np.inf)}
    assert len(executor.run(values)) == 2
    executor.check_numerics = True
    assert executor.check_numerics
    with pytest.raises(NumericsError) as caught:
        executor.run(values)
    [task] = [task for task in executor.problem.graph.index if f"'{task}'" in str(caught.value)]
    assert "add" in task  # the first that reads y
    assert len(executor.run({"in/x": X, "y": Y})) == 2
    executor.check_numerics = False
    assert len(executor.run(values)) == 2


# -------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_device_with_a_memory_of_its_own_is_copied_to_and_from(seed, unpartitioned):
    platform = two_cpus()
    big, little = platform.devices
    apart = replace(platform, devices=(big, replace(little, private=True)))
    with Executor(build(placed(seed, apart), single=False)) as executor:
        assert any(step.kind == "copy" for step in executor.plan.steps)
        inputs = [{"in/x": X, "y": Y}] * (2 * executor.depth)
        for outputs in executor.map(inputs):
            for out, expected in zip(outputs, unpartitioned, strict=True):
                np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)
        for _ in range(10):
            executor.run(inputs[0])


def test_an_aligned_input_is_not_copied_and_a_callers_array_is_never_written(executor):
    held = np.from_dlpack(tvm.runtime.empty(X.shape, "float32"))
    held[...] = X
    expected = bits(executor.run({"in/x": X, "y": Y}))
    assert bits(executor.run({"in/x": held, "y": Y})) == expected
    assert (held == X).all()
    frozen = X.copy()
    frozen.flags.writeable = False
    assert bits(executor.run({"in/x": frozen, "y": Y})) == expected


# -------------------------------------------------------------------------------- a real model


def test_squeezenet_in_every_way():
    model = randomize_weights(load_model(light_models()["squeezenet"]), 0)
    module = relay.frontend.from_onnx(logits_of(model))
    placed_model = partition(
        module,
        unlike_cpus(),
        PartitionOptions(
            objective=Objective("throughput"), time_limit=0.5, cost_model="analytical"
        ),
    )
    with Executor(build(placed_model.module, single=False)) as executor:
        inputs = [executor.random_inputs(seed) for seed in range(3)]
        expected = [bits(executor.run(values)) for values in inputs]
        assert len(set(map(tuple, expected))) == 3
        assert [bits(outputs) for outputs in executor.map(inputs)] == expected
        pending = [executor.submit(values) for values in inputs]
        assert [bits(each.result()) for each in pending] == expected
        assert bits(asyncio.run(executor.run_async(inputs[0]))) == expected[0]
