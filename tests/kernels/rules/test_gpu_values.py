"""What schedules for GPUs compute, their threads one after the other (`serial_threads`)."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op
from tvm.s_tir import dlight

from benchmarks import gpu_kernels
from benchmarks.kernel_cases.serial_threads import called, serial
from tests.kernels.helpers import AVX512, CUDA, kernels, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.rules.gpu_soundness import is_sound
from tvm_hetero.kernels.rules.gpu_spatial import schedule_spatial
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

GROUPED = relax.const(random(2, 32, 8, 1, 1))
ROWS, COLUMNS = relax.const(random(7, 64, 100)), relax.const(random(8, 100))
WEIGHT, BIAS = relax.const(random(3, 8, 4, 3, 3)), relax.const(random(4, 1, 8, 1, 1))
MORE = relax.const(random(6, 1, 32, 1, 1))
CASES = {
    # What fills up a group's tile was stored over the next group, as chance had it.
    "grouped": (
        [(1, 32, 7, 7)],
        lambda x: op.nn.relu(op.add(op.nn.conv2d(x, GROUPED, groups=4), MORE)),
    ),
    # A bias was added once with each term, and once before.
    "outer": (
        [(2, 4, 8, 1), (2, 4, 1, 8), (2, 4, 8, 8)],
        lambda a, b, c: op.add(c, op.matmul(a, b)),
    ),
    # A thread read a value that another thread had.
    "dense": ([(1, 64)], lambda x: op.add(op.matmul(x, ROWS), COLUMNS)),
    "convolution": (
        [(1, 4, 7, 7)],
        lambda x: op.nn.relu(op.add(op.nn.conv2d(x, WEIGHT, padding=1), BIAS)),
    ),
    "sum": ([(3, 50)], lambda x: op.nn.relu(op.add(op.sum(x, axis=1), op.sum(x, axis=1)))),
    "maximum": ([(3, 50)], lambda x: op.max(x, axis=0)),
    "rows": ([(2, 1, 4, 6)], lambda x: op.max(x, axis=3, keepdims=True)),
    "index": ([(3, 50)], lambda x: op.argmax(x, axis=1)),
    "softmax": ([(3, 50)], lambda x: op.nn.softmax(x, axis=1)),
    "pool": ([(1, 3, 9, 9)], lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1))),
    "scalar": ([(5, 7)], op.sum),
}


@pytest.mark.parametrize("case", CASES)
def test_threads_compute_what_the_kernel_says(case):
    shapes, body = CASES[case]
    for kernel in kernels(LowerToTasks([AVX512, CUDA])(model(shapes, body))).values():
        arguments = [
            random(i, *(int(extent) for extent in var.ty.shape)).astype(str(var.dtype))
            for i, var in enumerate(kernel.params)
        ]
        expected = called(kernel, arguments)
        chosen = schedule_kernel(kernel, CUDA)
        assert rule_of(chosen) in ("dlight", "spatial")
        for done in (chosen, schedule_spatial(kernel)):
            assert "thread=" in done.script()
            found = called(serial(done), arguments)
            for mine, right in zip(found, expected, strict=True):
                np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4)


RULES = {
    "outer": dlight.gpu.Fallback,
    "grouped": dlight.gpu.Matmul,
    "dense": dlight.gpu.Reduction,
}


@pytest.mark.parametrize("case", RULES)
def test_a_fault_of_a_rule_is_seen(case):
    """TVM 0.27 adds the bias twice; stores what fills up a group's tile over the next group; reads
    what is another thread's.
    """
    shapes, body = CASES[case]
    (kernel,) = kernels(LowerToTasks([AVX512, CUDA])(model(shapes, body))).values()
    with CUDA:
        done = dlight.ApplyDefaultSchedule(RULES[case]())(tvm.IRModule({"main": kernel}))["main"]
    assert is_sound(kernel) and not is_sound(done)
    assert rule_of(schedule_kernel(kernel, CUDA)) == "spatial"


def test_the_benchmark_of_kernels_finds_what_differs(monkeypatch):
    shapes, body = CASES["pool"]
    (kernel,) = gpu_kernels.kernels_of("pool", model(shapes, body))
    assert gpu_kernels.compared_serially(kernel) == ""
    numbers = count()

    def other_each_time(_func, given):
        return [*given[:-1], np.full_like(given[-1], next(numbers))]

    monkeypatch.setattr(gpu_kernels, "called", other_each_time)
    assert "spatial: argument 1 of 2: 75 of 75 values" in gpu_kernels.compared_serially(kernel)
