"""Kernels without a rule of their own: same numbers, better loops; and never a failure."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, te

from tests.kernels.helpers import (
    AVX2,
    AVX512,
    CUDA,
    TWO_CORES,
    check,
    kernels,
    model,
    random,
    run,
    runs_here,
    scheduled,
)
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op


def lrn(x):
    """LRN as TVM's ONNX importer writes it."""
    square = op.expand_dims(op.multiply(x, x), 1)
    mean = op.nn.avg_pool3d(
        square, (5, 1, 1), padding=(2, 0, 0, 2, 0, 0), layout="NCDHW", count_include_pad=True
    )
    scale = op.add(op.multiply(op.squeeze(mean, 1), relax.const(1e-4)), relax.const(1.0))
    return op.divide(x, op.power(scale, relax.const(0.75)))


def shuffle(x):
    n, c, h, w = (int(e) for e in x.ty.shape)
    parts = op.permute_dims(op.reshape(x, (n, 4, c // 4, h, w)), [0, 2, 1, 3, 4])
    return op.reshape(parts, (n, c, h, w))


CASES = {
    "max pool": lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)),
    "max pool ceil": lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), ceil_mode=True),
    "average pool": lambda x: op.nn.avg_pool2d(x, (3, 3), (1, 1), (1, 1), count_include_pad=True),
    "average pool, padding not counted": lambda x: op.nn.avg_pool2d(x, (3, 3), (2, 2), (1, 1)),
    "global average": lambda x: op.mean(x, [2, 3], keepdims=True),
    "softmax": lambda x: op.nn.softmax(x, 1),
    "softmax of the last axis": lambda x: op.nn.softmax(x, -1),
    "lrn": lrn,
    "concatenation": lambda x: op.nn.relu(op.concat([x, op.exp(x), x], 1)),
    "channel shuffle": shuffle,
    "broadcasts": lambda x: op.multiply(op.add(x, relax.const(random(1, 16, 1, 1))), x),
    "multiplied": lambda x: op.multiply(op.nn.relu(x), x),
    "short rows": lambda x: op.multiply(op.reshape(x, (2, 16, 9, 11)), relax.const(2.0)),
    "sum of leading axes": lambda x: op.sum(x, [0, 1]),
    "sum of middle axes": lambda x: op.sum(x, [1, 2]),
    "sum of axes apart": lambda x: op.sum(x, [1, 3]),
    "argmax": lambda x: op.astype(op.argmax(x, 1), "float32"),
    "slice": lambda x: op.strided_slice(x, [2, 3], [1, 2], [9, 11], [2, 3]),
    "take": lambda x: op.take(x, relax.const(np.array([3, 0, 3], "int64")), 1),
    "where": lambda x: op.where(op.greater(x, relax.const(0.0)), x, op.negative(x)),
    "cast": lambda x: op.astype(op.astype(x, "float16"), "float32"),
    "split": lambda x: op.add(*[op.split(x, 2, 1)[i] for i in (0, 1)]),
    "resize": lambda x: op.image.resize2d(x, (18, 22), method="nearest_neighbor"),
    "transpose": lambda x: op.permute_dims(x, [0, 2, 3, 1]),
    "pad": lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    check([(2, 16, 9, 11)], CASES[name])


def test_two_cores():
    for name in ("multiplied", "softmax", "concatenation", "pad", "channel shuffle"):
        check([(16, 64, 9, 11)], CASES[name], targets=[TWO_CORES])
    for body in (lambda x: op.sum(x, [0]), lambda x: op.nn.softmax(x, 0)):
        lowered = check([(160, 480)], body, targets=[TWO_CORES])
        text = schedule_kernel(*kernels(lowered).values(), TWO_CORES).script()
        assert "T.parallel" in text


def test_small_windows_are_unrolled_and_other_sums_take_several_outputs_together():
    def overhanging(x):  # whose divisor is left to TVM
        return op.nn.avg_pool2d(x, (3, 3), (2, 2), ceil_mode=True)

    (pool,) = kernels(LowerToTasks(None)(model([(1, 8, 9, 9)], overhanging))).values()
    text = schedule_kernel(pool, AVX512).script()
    assert text.count("T.unroll(T.int64(3))") == 2
    assert "if_then_else" not in text
    columns = kernels(LowerToTasks(None)(model([(60, 64)], lambda x: op.sum(x, [0]))))
    text = schedule_kernel(*columns.values(), AVX512).script()
    assert "T.unroll(T.int64(4))" in text
    assert "T.vectorized(T.int64(16))" in text
    short = kernels(LowerToTasks(None)(model([(1, 16, 59)], lambda x: op.sum(x, [2]))))
    assert "T.unroll(T.int64(8))" in schedule_kernel(*short.values(), AVX512).script()


def test_trailing_dimensions_are_joined():
    """bias[c] varies with c alone, so rows and columns become one loop of 99."""
    mod = LowerToTasks(None)(model([(2, 16, 9, 11)], CASES["broadcasts"]))
    (kernel,) = kernels(mod).values()
    assert "T.int64(99)" in schedule_kernel(kernel, AVX512).script()


def test_lrn_is_one_kernel_without_conditions():
    (kernel,) = kernels(LowerToTasks(None)(model([(1, 16, 9, 11)], lrn))).values()
    text = schedule_kernel(kernel, AVX512).script()
    assert "if_then_else" not in text
    assert "T.int64(99)" in text  # the image is one loop


@pytest.mark.parametrize("size", [1, 2, 3, 7, 40])
def test_lrn_with_more_channels_in_the_window_than_there_are(size):
    check([(1, size, 3, 4)], lrn)


def test_cores_decide_on_parallel_loops():
    """None on one core, and none for what is done sooner than a second core has begun."""
    large, small = ((16, 64, 9, 11), (2, 16, 9, 11))
    (kernel,) = kernels(LowerToTasks(None)(model([large], CASES["multiplied"]))).values()
    assert "T.parallel" not in schedule_kernel(kernel, AVX2).script()
    assert "T.parallel" in schedule_kernel(kernel, TWO_CORES).script()
    (kernel,) = kernels(LowerToTasks(None)(model([small], CASES["multiplied"]))).values()
    assert "T.parallel" not in schedule_kernel(kernel, TWO_CORES).script()


def test_a_scheduled_kernel_is_left_alone():
    (kernel,) = kernels(LowerToTasks(None)(model([(2, 16, 9, 11)], CASES["softmax"]))).values()
    once = schedule_kernel(kernel, AVX512)
    assert schedule_kernel(once, AVX512).same_as(once)


def test_what_no_rule_understands_comes_back_unchanged():
    """A host-only function without blocks: nothing to schedule, nothing raised."""
    data = te.placeholder((4,), "float32", name="data")
    packed = te.extern(
        [(4,)],
        [data],
        lambda ins, outs: tvm.tirx.call_packed("no.such.function", ins[0], outs[0]),
        name="opaque",
    )
    func = te.create_prim_func([data, packed])
    assert tvm_ffi.structural_equal(schedule_kernel(func, AVX512).body, func.body)
    assert tvm_ffi.structural_equal(schedule_kernel(func, CUDA).body, func.body)


@pytest.mark.parametrize("name", ["max pool", "softmax", "lrn", "global average"])
def test_same_target_same_schedule(name):
    def once():
        lowered = LowerToTasks([AVX512, AVX2])(model([(2, 16, 9, 11)], CASES[name]))
        return {k: schedule_kernel(f, AVX2) for k, f in kernels(lowered).items()}

    first, second = once(), once()
    assert first.keys() == second.keys()
    assert all(tvm_ffi.structural_equal(first[k], second[k]) for k in first)


def test_sums_do_not_depend_on_the_schedule():
    """Pooling and reductions add in the same order whatever the target: the same bits."""
    x = random(0, 2, 16, 9, 11)
    lowered = LowerToTasks([AVX512, AVX2])(model([x.shape], CASES["global average"]))
    results = [run(scheduled(lowered, t), t, x) for t in (AVX512, AVX2) if runs_here(t)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("name", ["softmax", "max pool", "broadcasts", "lrn"])
def test_gpu_kernels_are_bound_to_threads(name):
    lowered = LowerToTasks(None)(model([(1, 16, 8, 8)], CASES[name]))
    for kernel in kernels(lowered).values():
        assert "threadIdx.x" in schedule_kernel(kernel, CUDA).script()


@pytest.mark.parametrize("weighted", ["conv2d", "dense"])
def test_gpu_takes_the_packed_kernels_too(weighted):
    weight = relax.const(random(1, 32, 8, 3, 3) if weighted == "conv2d" else random(1, 20, 40))
    body = (
        (lambda x: op.nn.relu(op.nn.conv2d(x, weight, padding=1)))
        if weighted == "conv2d"
        else (lambda x: op.matmul(x, weight))
    )
    shape = (1, 8, 7, 7) if weighted == "conv2d" else (1, 20)
    (kernel,) = kernels(LowerToTasks([AVX512, CUDA])(model([shape], body))).values()
    assert "threadIdx.x" in schedule_kernel(kernel, CUDA).script()
