"""Precision from the options to the artifact: what is chosen, promised, refused and kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tvm import relax

from tests.cli.invoke import tvm_hetero
from tests.kernels.helpers import ZEN4, model, random, runs_here
from tests.models import PLAIN, random_schedule, two_cpus
from tests.passes.test_narrow_edges import SHAPE, inverted
from tests.pipeline.given_seconds import GivenSeconds
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.errors import ArtifactError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import largest_relative_error
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.narrow_tasks import is_narrow
from tvm_hetero.passes.precision_promise import promise_of
from tvm_hetero.pipeline.given_plan import place_given
from tvm_hetero.pipeline.hetero_partition import HeteroPartition
from tvm_hetero.pipeline.options import CHECKS, PartitionOptions
from tvm_hetero.pipeline.partition import Partition, make_problem, partition
from tvm_hetero.pipeline.precision.input_kinds import KINDS, draw_inputs
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective

HERE = pytest.mark.skipif(not runs_here(ZEN4), reason="the processor has no such instruction")
BIG, LITTLE = two_cpus().devices
ONE = Platform((replace(BIG, target={"kind": "llvm", "mcpu": "znver4", "num-cores": 1}),))
DEPTH = 32
FLOAT = onnx.TensorProto.FLOAT


class Halving(GivenSeconds):
    """In bfloat16 half of a millisecond, but for the `slow` kernels."""

    def __init__(self, slow: Sequence[str] = ()) -> None:
        def take(kernel: Kernel) -> float:
            if not is_narrow(kernel.name):
                return 1e-3
            return 2e-3 if kernel.name.startswith(tuple(slow)) else 5e-4

        super().__init__(take)


def network(x: relax.Expr) -> relax.Expr:
    first, second, third = (relax.const(random(i, DEPTH, n)) for i, n in enumerate((32, 32, 16)))
    y = relax.op.tanh(relax.op.matmul(x, first))
    return relax.op.matmul(relax.op.tanh(relax.op.matmul(y, second)), third)


MODULE = model([(4, DEPTH)], network)


def divided(platform: Platform = ONE, slow: Sequence[str] = (), **asked: Any) -> Partition:
    return partition(MODULE, platform, PartitionOptions(cost_model=Halving(slow), **asked))


class EdgesGain(Halving):
    """As that; a kernel that reads bfloat16 takes some less, or more."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        seconds = self.seconds
        self.seconds = lambda kernel: seconds(kernel) - gain * ("_from_short" in kernel.name)


def outputs(result: Partition, seed: int) -> list[np.ndarray]:
    with Executor(build(result.placed, single=False)) as executor:
        return [tensor.numpy() for tensor in executor.run(executor.random_inputs(seed))]


@HERE
def test_every_task_that_is_quicker_in_bfloat16_takes_it() -> None:
    result = divided(precision="bfloat16", slow=["dense1"])
    promise = promise_of(result.placed.placed)
    assert promise is not None
    kinds = {task.id: is_narrow(task.op) for task in result.problem.tasks if task.id[0].isdigit()}
    assert list(kinds.values()).count(True) == 2 and set(promise.tasks) == {
        task for task, narrow in kinds.items() if narrow
    }
    assert all(error is None for error in promise.tasks.values())
    assert promise.seconds_float32 == pytest.approx(3e-3)
    assert promise.seconds == pytest.approx(2e-3)
    assert promise.accuracy is None and 0 < (promise.measured or 0) < 0.05
    error = largest_relative_error(outputs(divided(), 99), outputs(result, 99))
    assert 1e-5 < error < 3 * (promise.measured or 0)


@HERE
@pytest.mark.parametrize("target", [ONE, Platform((*ONE.devices, LITTLE))])
def test_tensors_are_in_bfloat16_where_that_is_quicker_and_no_number_changes(
    target: Platform,
) -> None:
    module = model([SHAPE], inverted)
    found = {}
    for gain in (1e-4, -1e-4):
        options = PartitionOptions(cost_model=EdgesGain(gain), precision="bfloat16")
        found[gain] = partition(module, target, options)
    short = [
        [task.op for task in each.problem.tasks if "short" in task.op] for each in found.values()
    ]
    assert [len(names) for names in short] == [3, 0]
    quick, plain = found.values()
    assert outputs(quick, 5)[0].tobytes() == outputs(plain, 5)[0].tobytes()
    promises = [promise_of(each.placed.placed) for each in found.values()]
    assert [promise and promise.seconds for promise in promises] == pytest.approx([2.3e-3, 2.5e-3])
    assert promises[0].measured == promises[1].measured


@HERE
@pytest.mark.parametrize("accuracy", [1e-4, 3e-3, 0.1, 1.0])
def test_auto_keeps_the_accuracy_on_inputs_that_no_one_has_seen(accuracy: float) -> None:
    result = divided(precision="auto", accuracy=accuracy, seed=3)
    promise = promise_of(result.placed.placed)
    assert promise is not None and promise.accuracy == accuracy and promise.seed == 3
    assert max(promise.measured or 0, promise.held_out or 0) <= accuracy
    assert len(promise.tasks) == (3 if accuracy == 1.0 else len(promise.tasks))
    assert all(error is not None for error in promise.tasks.values())
    plain = divided()
    worst = max(
        largest_relative_error(outputs(plain, seed), outputs(result, seed)) for seed in (77, 78)
    )
    assert worst <= accuracy
    assert promise.held_out_inputs == (CHECKS if promise.tasks else 0)
    if promise.tasks:
        assert promise.kinds == KINDS and (promise.rare or 0) <= accuracy
        assert 0.016 < (promise.exceeding or 0) < 0.017 and promise.confidence == 0.95


@HERE
def test_a_promise_is_kept_on_inputs_of_other_kinds_than_normal_ones() -> None:
    """By two random inputs and two held-out ones all three were in bfloat16, off by up to 0.39."""
    limit = 0.1
    result, plain = divided(precision="auto", accuracy=limit), divided()
    errors: dict[str, float] = {}
    with (
        Executor(build(plain.placed, single=False)) as wide,
        Executor(build(result.placed, single=False)) as narrow,
    ):
        for kind, seed in product(KINDS, range(1000, 1030)):
            inputs = draw_inputs(wide.inputs, kind, seed)
            expected, found = ([t.numpy() for t in ex.run(inputs)] for ex in (wide, narrow))
            errors[kind] = max(errors.get(kind, 0.0), largest_relative_error(expected, found))
    assert 0 < max(errors.values()) <= limit, errors
    promise = promise_of(result.placed.placed)
    assert promise is not None and len(promise.tasks) == 2  # and no more is left in float32


@HERE
def test_fewer_checks_promise_less() -> None:
    few = promise_of(divided(precision="auto", accuracy=1.0, checks=30).placed.placed)
    assert few is not None and few.held_out_inputs == 30 and 0.15 < (few.exceeding or 0) < 0.16
    with pytest.raises(UsageError, match="checks 0: expected a number of inputs from 1 on"):
        divided(precision="auto", checks=0)


@HERE
def test_given_inputs_and_a_metric_of_ones_own_are_what_counts() -> None:
    seen: list[float] = []

    def mean(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
        seen.append(float(abs(expected[0] - found[0]).mean()))
        return seen[-1]

    inputs = [{"input0": random(i, 4, DEPTH)} for i in range(3)]
    module = HeteroPartition(
        ONE, cost_model=Halving(), precision="auto", accuracy=1.0, metric=mean, calibration=inputs
    )(MODULE)
    promise = promise_of(module)
    assert promise is not None and promise.metric.endswith("mean") and promise.seed is None
    assert (promise.inputs, promise.held_out_inputs) == (2, 1)
    assert promise.measured in seen and len(promise.tasks) == 3


@HERE
def test_outputs_that_are_no_numbers_are_never_taken() -> None:
    def broken(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
        return 0.0 if np.array_equal(expected[0], found[0]) else math.inf

    with pytest.raises(UsageError, match="of inf, as where"):
        divided(precision="bfloat16", metric=broken)
    promise = promise_of(divided(precision="auto", metric=broken).placed.placed)
    assert promise is not None and not promise.tasks and promise.measured == 0.0


def test_platforms_without_the_instruction_are_refused_or_stay_in_float32() -> None:
    with pytest.raises(UsageError, match=r"no device has an instruction .*: 'little' .x86-64-v2."):
        divided(replace(ONE, devices=(replace(LITTLE, target=PLAIN),)), precision="bfloat16")
    result = divided(two_cpus(), precision="auto")
    promise = promise_of(result.placed.placed)
    assert promise is not None and not promise.tasks and "'big'" in promise.reason
    assert not any(is_narrow(task.op) for task in result.problem.tasks)
    assert promise_of(divided(two_cpus()).placed.placed) is None


def test_a_gpu_beside_them_is_refused_by_its_name() -> None:
    gpu = replace(BIG, name="gpu", target={"kind": "cuda", "arch": "sm_90"}, cores=())
    with pytest.raises(UsageError, match=r"device 'gpu' .cuda. has no kernels in bfloat16"):
        divided(replace(ONE, devices=(*ONE.devices, gpu)), precision="bfloat16")


@HERE
def test_a_cpu_without_the_instruction_computes_the_same_beside_one_that_has_it() -> None:
    old = replace(LITTLE, target={"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})
    mixed = replace(two_cpus(), devices=(*ONE.devices, old))
    asked = PartitionOptions(cost_model=Halving(), precision="bfloat16")
    found = make_problem(MODULE, mixed, asked)
    assert all(is_narrow(task.op) for task in found.problem.tasks if task.op)
    expected, plain = (outputs(divided(precision=p), 1) for p in ("bfloat16", "float32"))
    used = set()
    for seed in range(3):
        schedule = random_schedule(found.problem, seed)
        used |= {each.device for each in schedule.executions}
        with Executor(build(annotate_devices(found.module, found.problem, schedule))) as executor:
            values = [tensor.numpy() for tensor in executor.run(executor.random_inputs(1))]
        # The same rounded numbers, summed up in another order; float32 is further away.
        assert largest_relative_error(expected, values) < 1e-5
        assert largest_relative_error(plain, values) > 1e-4
    assert used == {BIG.name, LITTLE.name}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"precision": "float16"}, "expected one of float32, bfloat16, int8, auto"),
        ({"precision": "bfloat16", "accuracy": 0.1}, "is for precision auto"),
        ({"precision": "auto", "accuracy": 0.0}, "an error above 0"),
        ({"precision": "auto", "accuracy": float("nan")}, "an error above 0"),
        ({"calibration": [{}]}, "for precision auto, bfloat16 or int8"),
        ({"precision": "auto", "cost_model": "analytical"}, "measures nothing"),
        ({"precision": "auto", "cost_model": "quick"}, "measures nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        partition(MODULE, ONE, PartitionOptions(**{"cost_model": Halving(), **asked}))


@HERE
def test_a_module_in_bfloat16_is_placed_again_but_not_narrowed_again() -> None:
    module = divided(precision="bfloat16").module
    again = HeteroPartition(ONE, cost_model=Halving())(module)
    assert promise_of(again) == promise_of(module)
    with pytest.raises(UsageError, match="in bfloat16 already"):
        HeteroPartition(ONE, cost_model=Halving(), precision="auto")(module)


@HERE
def test_batches_are_in_bfloat16_too() -> None:
    batch = Objective("latency", 2)
    plain, narrow = (
        partition(MODULE, ONE, PartitionOptions(batch, cost_model=Halving(), precision=precision))
        for precision in ("float32", "bfloat16")
    )
    errors = largest_relative_error(outputs(plain, 1), outputs(narrow, 1))
    assert 1e-5 < errors < 0.05


@HERE
def test_the_executor_computes_what_tvms_own_machine_does() -> None:
    result = divided(precision="bfloat16")
    reference = ReferenceVM(result.module)
    with Executor(build(result.placed, single=False)) as executor:
        inputs = executor.random_inputs(5)
        found = [tensor.numpy() for tensor in executor.run(inputs)]
    for one, other in zip(reference.run(*inputs.values()), found, strict=True):
        np.testing.assert_array_equal(one, other)


@HERE
def test_tasks_of_branches_stay_in_float32() -> None:
    """Random inputs for calibration may all take the same branch."""
    weights = [numpy_helper.from_array(random(i, DEPTH, DEPTH), f"w{i}") for i in range(3)]
    y, z = (helper.make_tensor_value_info(n, FLOAT, [4, DEPTH]) for n in ("y", "z"))

    def branch(i: int) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(f"m{i}", FLOAT, [4, DEPTH])
        return helper.make_graph(
            [helper.make_node("MatMul", ["x", f"w{i}"], [f"m{i}"])], f"b{i}", [], [out]
        )

    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch(0), else_branch=branch(1))
    last = helper.make_node("MatMul", ["y", "w2"], ["z"])
    x = helper.make_tensor_value_info("x", FLOAT, [4, DEPTH])
    c = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    graph = helper.make_graph([choice, last], "g", [x, c], [z], weights, value_info=[y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = PartitionOptions(cost_model=Halving(), precision="bfloat16")
    result = partition(from_onnx(proto), ONE, options)
    narrow = [is_narrow(task.op) for task in result.problem.tasks if task.id[0].isdigit()]
    assert narrow.count(True) == 1 and len(narrow) >= 3


@HERE
def test_the_same_seeds_give_the_same_bytes() -> None:
    first, second = (build(divided(precision="auto").placed, single=False) for _ in range(2))
    assert first.precision == second.precision
    assert first.libraries == second.libraries  # by the digest of what they are made of
    assert {n: w.numpy().tobytes() for n, w in first.weights.items()} == {
        n: w.numpy().tobytes() for n, w in second.weights.items()
    }


@HERE
def test_an_artifact_says_what_was_promised(tmp_path: Path) -> None:
    path = tmp_path / "net.hetero"
    executable = build(divided(precision="auto", accuracy=1.0, slow=["dense1"]).placed)
    executable.save(path)
    loaded = load_artifact(path)
    assert loaded.precision == executable.precision is not None
    shown = tvm_hetero("show", path, "--kernels")
    assert "precision auto: 2 of 3 tasks in bfloat16" in shown.out
    assert "allowed 1, predicted" in shown.out
    assert "promised with 95 % confidence: at most 1.7 % of random inputs (normal, uni" in shown.out
    rows = [line.split() for line in shown.out.splitlines() if line[:2] in ("0.", "1.", "2.")]
    assert sorted(row[1] for row in rows) == ["bfloat16", "bfloat16", "given"]
    manifest = path / "manifest.json"
    damaged = manifest.read_text().replace('"auto"', '"exact"')
    manifest.write_text(damaged)
    with pytest.raises(ArtifactError, match="precision"):
        load_artifact(path)


@HERE
def test_a_plan_with_tasks_in_bfloat16_cannot_be_given() -> None:
    result = divided(precision="bfloat16")
    with pytest.raises(UsageError, match="_bfloat16' is in bfloat16, which a given plan cannot"):
        place_given(MODULE, result.problem, result.schedule)
    options = PartitionOptions(cost_model=EdgesGain(1e-4), precision="bfloat16")
    result = partition(model([SHAPE], inverted), ONE, options)
    for each in (result.problem.tasks[2], result.problem.tasks[1]):
        assert "_to_short" in each.op
    with pytest.raises(UsageError, match="_bfloat16' is in bfloat16, which a given plan cannot"):
        place_given(model([SHAPE], inverted), result.problem, result.schedule)


@HERE
@HERE
def test_where_nothing_gains_it_is_said() -> None:
    promise = promise_of(divided(slow=[""], precision="auto").placed.placed)
    assert promise is not None and not promise.tasks
    assert promise.reason == "no task is quicker in bfloat16"


def test_wrong_inputs_are_refused_before_anything_is_measured() -> None:
    halving = Halving([])
    with pytest.raises(UsageError, match="calibration: the model has no input 'other'"):
        options = PartitionOptions(
            cost_model=halving, precision="auto", calibration=[{"other": np.zeros(3)}]
        )
        partition(MODULE, ONE, options)
    assert not halving.choices()
