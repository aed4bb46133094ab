"""Precision int8 from a float file to the artifact: what is quantised, promised, refused, kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.cli.invoke import tvm_hetero
from tests.frontends.onnx.models import make
from tests.models import NATIVE, two_cpus
from tests.pipeline.given_seconds import GivenSeconds
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import largest_relative_error
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.post_training import float_outputs, quantize
from tvm_hetero.passes.attributes import WISHES
from tvm_hetero.passes.byte_tasks import multiplies_bytes
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.precision_promise import promise_of
from tvm_hetero.pipeline import int8_error
from tvm_hetero.pipeline.int8_error import refuse_error
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import Partition, partition
from tvm_hetero.pipeline.precision import network_runner
from tvm_hetero.platform import Platform
from tvm_hetero.problem.precision_promise import PrecisionPromise

BIG = two_cpus().devices[0]
ONE = Platform((replace(BIG, target={**NATIVE, "num-cores": 1}),))
RNG = np.random.default_rng(0)
DEPTH = 32


def draw(*shape: int) -> np.ndarray:
    return 0.2 * RNG.standard_normal(shape).astype(np.float32)


class Known(GivenSeconds):
    """A product of bytes takes `seconds`, or `wide` with 48 columns; others a millisecond."""

    def __init__(self, seconds: float = 4e-4, wide: float = 4e-4) -> None:
        def take(kernel: Kernel) -> float:
            if multiplies_bytes(kernel.func):
                return wide if "48" in str(kernel.func.params[-1].shape) else seconds
            return 1e-3 if kernel.flops > 2 * DEPTH * DEPTH else 1e-6

        super().__init__(take)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w1"], ["y"]),
    ]
    weights = {"w0": draw(DEPTH, 64), "w1": draw(64, 48)}  # 48: see `Known`
    path = tmp_path_factory.mktemp("int8") / "net.onnx"
    onnx.save(make(nodes, {"x": [4, DEPTH]}, ["y"], weights), path)
    return path


def divided(source: Any, costs: Known | None = None, **asked: Any) -> Partition:
    module = from_onnx(source) if isinstance(source, Path | onnx.ModelProto) else source
    options = PartitionOptions(cost_model=costs or Known(), precision="int8", **asked)
    return partition(module, ONE, options)


def promised(result: Partition) -> PrecisionPromise:
    promise = promise_of(result.placed.placed)
    assert promise is not None and promise.precision == "int8"
    return promise


ASKED: dict[str, Any] = {"accuracy": 0.5, "seed": 3, "checks": 60}


@pytest.fixture(scope="module")
def result(file: Path) -> Partition:
    return divided(file, **ASKED)


def test_what_is_quicker_is_quantised_and_the_artifact_says_how_far_off_it_is(
    file: Path, result: Partition, tmp_path: Path
) -> None:
    promise = promised(result)
    assert len(promise.tasks) == 2 and (promise.inputs, promise.held_out_inputs) == (2, 60)
    assert promise.seed == 3 and 0.2 < (promise.held_out or 0) <= 0.5  # two said 0.01
    assert promise.kinds == ("normal",) and 0.04 < (promise.exceeding or 0) < 0.05
    assert (promise.seconds or 0) < (promise.seconds_float32 or 0)
    executable = build(result.placed, single=False)
    with Executor(executable) as executor:
        inputs = executor.random_inputs(99)
        found = [each.numpy() for each in executor.run(inputs)]
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    error = largest_relative_error(session.run(None, inputs), found)
    assert 1e-4 < error < 0.5
    executable.save(tmp_path / "net.hetero")
    assert load_artifact(tmp_path / "net.hetero").precision == promise
    shown = tvm_hetero("show", tmp_path / "net.hetero", "--kernels").out
    assert f"precision int8: 2 of {len(result.problem.tasks)} tasks multiply bytes" in shown
    assert "allowed 0.5, measured" in shown and "random inputs say little" in shown
    assert "at most 4.9 % of random inputs (normal, equally often) are off by more" in shown


def test_a_node_that_is_slower_in_bytes_stays(file: Path) -> None:
    assert len(promised(divided(file, Known(wide=2e-3))).tasks) == 1
    slower = promised(divided(file, Known(2e-3, 2e-3)))
    assert not slower.tasks and slower.measured is None and "is quicker in int8" in slower.reason


def test_a_network_that_gains_nothing_stays(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node gains by itself, but not with what makes its codes."""
    from tvm_hetero.pipeline import int8_module

    monkeypatch.setattr(int8_module, "_WORTH", 3.0)
    promise = promised(divided(file, Known(2e-3, 2e-3)))
    assert not promise.tasks and "the network is not quicker" in promise.reason


def test_an_error_that_is_too_large_is_refused() -> None:
    promise = PrecisionPromise(
        "int8", 0.01, measured=0.004, held_out=0.02, inputs=2, held_out_inputs=1
    )
    with pytest.raises(UsageError, match=r"is 0.004 on 2 inputs .*, 0.02 on 1 other; 0.01 is all"):
        refuse_error(promise)
    with pytest.raises(UsageError, match=r"is inf on 2 inputs"):
        refuse_error(replace(promise, accuracy=None, measured=math.inf))
    refuse_error(replace(promise, accuracy=0.02))
    refuse_error(replace(promise, accuracy=None))


def test_given_inputs_are_what_ranges_are_made_of(file: Path) -> None:
    """Those that are held out are a thousand times larger, and saturate."""
    small, large = ({"x": scale * draw(4, DEPTH)} for scale in (1e-3, 1.0))
    with pytest.raises(
        UsageError,
        match=r"is 0.0\d+ on 1 input for .*, (0.9|1)\S* on 1 other, .* in a thousand; 0.1",
    ):
        divided(file, calibration=[small, large], accuracy=0.1)
    with pytest.raises(UsageError, match=r"calibration: input .x.: expected float32.4, 32., got"):
        divided(file, calibration=[{"x": draw(3, DEPTH)}])


def test_modules_of_no_file_and_quantised_files(file: Path, result: Partition) -> None:
    model = onnx.load(file)
    with pytest.raises(UsageError, match="this module is of no ONNX file; import one"):
        divided(model)
    # What is in int8 stays so.
    assert promised(divided(result.module)).tasks == promised(result).tasks
    with pytest.raises(UsageError, match="1e-06 is allowed"):
        divided(result.module, accuracy=1e-6)
    quantised = file.with_name("codes.onnx")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.1), "z": np.uint8(3), "w": np.ones((DEPTH, 16), np.int8)}
    model = make(nodes, {"x": [4, DEPTH]}, ["y"], constants)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    onnx.save(model, quantised)
    quick = Known()
    quick.name = "quick"  # nothing has to be measured for that
    assert len(promised(divided(quantised, quick)).tasks) == 1
    promise = promised(divided(quantised))
    assert promise.reason == "the model is quantised already" and len(promise.tasks) == 1


def test_a_file_that_has_changed_is_not_quantised(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(file.read_bytes())
    module = from_onnx(path)
    path.unlink()
    with pytest.raises(UsageError, match="is gone or has changed since it was imported"):
        divided(module)


def other_operator(model: onnx.ModelProto) -> None:
    model.graph.node[1].op_type = "Abs"


def other_weight(model: onnx.ModelProto) -> None:
    weights = model.graph.initializer[1]
    values = onnx.numpy_helper.to_array(weights).copy()
    values[-1, -1] += 1
    weights.CopyFrom(onnx.numpy_helper.from_array(values, weights.name))


@pytest.mark.parametrize("change", [other_operator, other_weight])
def test_a_module_that_was_changed_is_not_thrown_away(
    file: Path, change: Callable[[onnx.ModelProto], None]
) -> None:
    """What a pass made of it says still of which file it was."""
    model = onnx.load(file)
    change(model)
    changed = from_onnx(model)
    changed["main"] = changed["main"].with_attrs(from_onnx(file)["main"].attrs)
    with pytest.raises(UsageError, match="was changed since it was imported"):
        divided(changed)


def test_devices_that_were_asked_for_are_not_thrown_away(file: Path) -> None:
    module = from_onnx(file)
    module["main"] = module["main"].with_attr(WISHES, "{}")
    with pytest.raises(UsageError, match="was changed since it was imported"):
        divided(module)


def test_a_module_in_bytes_keeps_the_accuracy_of_the_last_question(result: Partition) -> None:
    assert promised(divided(result.module, accuracy=0.7)).accuracy == 0.7
    assert promised(divided(result.module)).accuracy == 0.5
    with pytest.raises(UsageError, match="measured as 'largest relative error', not 'len'"):
        divided(result.module, metric=len)


def test_what_is_too_large_is_refused_before_anything_is_measured(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = Known()
    monkeypatch.setattr(costs, "costs", None)
    monkeypatch.setattr(quantize, "_LARGEST_WEIGHTS", 100)
    with pytest.raises(ModelError, match=r"at most 100 B in one file"):
        divided(file, costs)
    monkeypatch.undo()
    monkeypatch.setattr(costs, "name", "quick")
    monkeypatch.setattr(costs, "costs", None)
    with pytest.raises(UsageError, match="the cost model 'quick' measures nothing"):
        divided(file, costs)


def test_outputs_are_held_a_few_at_a_time_and_memory_is_counted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def count(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[list[np.ndarray]]:
        asked.append(len(inputs))
        return float_outputs(model, inputs)

    monkeypatch.setattr(int8_error, "float_outputs", count)
    monkeypatch.setattr(int8_error, "_HELD", 2 * 4 * (48 + DEPTH) * 4)  # bytes of two
    given = [{"x": draw(4, DEPTH)} for _ in range(3)]
    assert promised(divided(file, calibration=given)).inputs == 2 and asked == [2, 1]
    monkeypatch.setattr(network_runner, "read_free_memory", lambda: 1000)
    with pytest.raises(UsageError, match=r"tensors of 1 input are kept, .* free; take float32"):
        divided(file)
    assert len(asked) == 2


def test_the_same_seeds_give_the_same_bytes(file: Path, result: Partition) -> None:
    again = divided(file, **ASKED)
    first, second = (build(each.placed, single=False) for each in (result, again))
    assert first.precision == second.precision and first.libraries == second.libraries
    assert {n: w.numpy().tobytes() for n, w in first.weights.items()} == {
        n: w.numpy().tobytes() for n, w in second.weights.items()
    }
