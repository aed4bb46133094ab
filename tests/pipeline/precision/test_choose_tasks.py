"""Tasks in bfloat16 within an error, measured on a network that runs task by task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.kernels.helpers import ZEN4, model, random, run, runs_here, scheduled
from tvm_hetero.errors import UsageError
from tvm_hetero.kernels.narrow_kernel import NarrowKernel
from tvm_hetero.passes.extract_tasks import ExtractedTasks, extract_tasks
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.narrow_edges import find_forms
from tvm_hetero.passes.narrow_tasks import narrow_kernels, narrow_tasks
from tvm_hetero.pipeline.precision.calibrated_network import CalibratedNetwork
from tvm_hetero.pipeline.precision.calibration_inputs import random_inputs
from tvm_hetero.pipeline.precision.choose_tasks import choose_tasks
from tvm_hetero.pipeline.precision.network_runner import NetworkRunner

# Where the processor has no such instruction, the arithmetic gives the same numbers.
TARGET = ZEN4 if runs_here(ZEN4) else tvm.target.Target({"kind": "llvm", "num-cores": 1})
DEPTH = 32


def network(x: relax.Expr) -> relax.Expr:
    """Three products, the second one beside the first; its summand is a thousandth of the sum."""
    first, second, third = (relax.const(random(i, DEPTH, DEPTH)) for i in range(3))
    small = relax.op.multiply(relax.op.matmul(x, second), relax.const(np.float32(1e-3)))
    beside = relax.op.reshape(relax.op.add(relax.op.matmul(x, first), small), (4, DEPTH))
    return relax.op.matmul(relax.op.tanh(beside), third)


@pytest.fixture(scope="module")
def lowered() -> tvm.IRModule:
    return LowerToTasks([TARGET])(model([(2, 2, DEPTH)], network))


@pytest.fixture(scope="module")
def tasks(lowered: tvm.IRModule) -> ExtractedTasks:
    return extract_tasks(lowered)


@pytest.fixture(scope="module")
def narrow(tasks: ExtractedTasks) -> dict[str, NarrowKernel]:
    return narrow_kernels(tasks)


@pytest.fixture(scope="module")
def runner(tasks: ExtractedTasks, narrow: dict[str, NarrowKernel]) -> NetworkRunner:
    return NetworkRunner(tasks, narrow, TARGET)


def draw(runner: NetworkRunner, seed: int) -> dict[str, Any]:
    return random_inputs(runner._main, seed)


@pytest.fixture(scope="module")
def products(tasks: ExtractedTasks, narrow: dict[str, NarrowKernel]) -> list[str]:
    return [task for task, kernel in tasks.kernel_of.items() if kernel in narrow]


@pytest.fixture(scope="module")
def calibrated(runner: NetworkRunner) -> CalibratedNetwork:
    first, second, other = (draw(runner, seed) for seed in (0, 1, 7))
    return CalibratedNetwork(runner, [first, second], [other], None)


def test_it_computes_what_the_rewritten_module_does(
    lowered: tvm.IRModule,
    tasks: ExtractedTasks,
    narrow: dict[str, NarrowKernel],
    runner: NetworkRunner,
    products: list[str],
) -> None:
    inputs, forms = draw(runner, 5), find_forms(tasks, narrow)
    trace = runner.trace(inputs)
    for chosen in ([], products[:1], products[1:], products):
        module = scheduled(narrow_tasks(lowered, forms, chosen), TARGET)
        expected = run(module, TARGET, *inputs.values())
        (found,) = runner.rerun(trace, chosen)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(runner.rerun(trace, [])[0], trace.outputs[0])


def test_inputs_of_another_shape_are_refused(runner: NetworkRunner) -> None:
    with pytest.raises(UsageError, match=r"expected float32\[2, 2, 32\], got float32\[2, 32\]"):
        runner.trace({"input0": random(0, 2, DEPTH)})
    with pytest.raises(UsageError, match="got nothing"):
        runner.trace({})
    with pytest.raises(UsageError, match="no input 'other'; it has input0"):
        runner.trace({"input0": random(0, 2, 2, DEPTH), "other": random(0, 1)})


def test_all_are_taken_where_all_keep_the_accuracy(
    calibrated: CalibratedNetwork, products: list[str]
) -> None:
    gains = dict.fromkeys(products, 1e-3)
    found = choose_tasks(calibrated, gains, 0.1)
    assert len(products) == 3 and found.tasks == tuple(products)
    assert found.gain_bound == pytest.approx(3e-3)
    assert found.measured == calibrated.error(products) <= 0.1
    assert found.predicted == pytest.approx(math.hypot(*found.alone.values()))
    assert 0.3 * found.measured < found.predicted < 3 * found.measured


def test_of_those_that_fit_the_most_gaining_ones_are_taken(
    calibrated: CalibratedNetwork, products: list[str]
) -> None:
    alone = {task: calibrated.error([task]) for task in products}
    harmless = min(alone, key=lambda task: alone[task])
    assert alone[harmless] < 0.02 * sorted(alone.values())[1]
    gains = {task: 1.0 if task == harmless else 100.0 for task in products}
    limit = sorted(alone.values())[1] / 2  # no other one keeps it
    found = choose_tasks(calibrated, gains, limit)
    assert found.tasks == (harmless,) and found.measured <= limit
    assert found.held_out is not None and found.held_out <= limit
    nothing = choose_tasks(calibrated, gains, alone[harmless] / 4)
    assert not nothing.tasks and nothing.measured == 0.0


@pytest.mark.parametrize("limit", [1e-5, 1e-3, 2e-3, 3e-3, 5e-3])
def test_an_accuracy_is_kept_on_all_inputs(
    calibrated: CalibratedNetwork, products: list[str], limit: float
) -> None:
    found = choose_tasks(calibrated, dict.fromkeys(products, 1.0), limit)
    assert calibrated.error(found.tasks) <= limit
    assert (calibrated.check(found.tasks, limit).worst or 0.0) <= limit
    for other in set(products) - set(found.tasks):  # and no other one has room beside them
        more = [*found.tasks, other]
        assert max(calibrated.error(more), calibrated.check(more, limit).worst or 0.0) > limit
    assert len(found.tasks) <= found.gain_bound <= len(products)


def test_inputs_that_are_held_out_withdraw_tasks(
    runner: NetworkRunner, products: list[str]
) -> None:
    """On inputs of zeros nothing is off, so calibration alone would take everything."""
    zeros = {name: 0 * value for name, value in draw(runner, 0).items()}
    gains, limit = dict.fromkeys(products, 1.0), 1e-6
    misled = CalibratedNetwork(runner, [zeros], [], None)
    assert choose_tasks(misled, gains, limit).tasks == tuple(products)
    warned = CalibratedNetwork(runner, [zeros], [draw(runner, 0)], None)
    found = choose_tasks(warned, gains, limit)
    assert found.tasks != tuple(products) and (found.held_out or 0.0) <= limit


def test_what_says_nothing_of_errors_is_refused(runner: NetworkRunner) -> None:
    drawn = draw(runner, 0)
    spoiled = {name: value + np.float32(np.nan) for name, value in drawn.items()}
    with pytest.raises(UsageError, match=r"held-out input 0: outputs are not numbers \(NaN\)"):
        CalibratedNetwork(runner, [drawn], [spoiled], None)
    with pytest.raises(UsageError, match=r"gave 0\.05 for equal outputs; expected 0"):
        CalibratedNetwork(runner, [drawn], [], lambda expected, found: 0.05)
    with pytest.raises(UsageError, match=r"more than half of the .* that are free; give fewer"):
        runner.check_memory(1 << 40)


def test_errors_beyond_every_number_are_only_too_large(
    runner: NetworkRunner, products: list[str]
) -> None:
    def huge(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
        return 0.0 if np.array_equal(expected[0], found[0]) else 1e200

    network = CalibratedNetwork(runner, [draw(runner, 0)], [], huge)
    assert not choose_tasks(network, dict.fromkeys(products, 1.0), 1e-2).tasks
