"""Pooling: any window, stride, padding, ceil mode and count, on every target."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.kernels.helpers import (
    AVX2,
    AVX512,
    TWO_CORES,
    check,
    kernels,
    model,
    random,
)
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op


def largest(window, stride=1, padding=0, **options):
    return lambda x: op.nn.max_pool2d(x, window, stride, padding, **options)


def average(window, stride=1, padding=0, **options):
    return lambda x: op.nn.avg_pool2d(x, window, stride, padding, **options)


CASES = {
    "stride 2, padded": ((2, 5, 14, 14), largest((3, 3), (2, 2), (1, 1))),
    "stride 2, padded at the end": ((1, 3, 56, 56), largest((3, 3), (2, 2), (0, 0, 1, 1))),
    "stride 2, odd": ((1, 3, 27, 27), largest((3, 3), (2, 2))),
    "stride 1, narrow": ((1, 4, 13, 13), largest((3, 3), (1, 1), (1, 1))),
    "stride 1, one vector": ((1, 4, 16, 16), largest((3, 3), (1, 1), (1, 1))),
    "stride 1, wide": ((1, 4, 28, 28), largest((3, 3), (1, 1), (1, 1))),
    "stride 1, wide, nothing padded": ((1, 4, 30, 70), largest((3, 3))),
    "very wide": ((1, 2, 6, 300), largest((2, 2), (2, 2))),
    "large window": ((1, 2, 20, 20), largest((13, 13), (1, 1), (6, 6))),
    "row of one": ((1, 3, 1, 9), largest((1, 3), (1, 2), (0, 1))),
    "ceil mode": ((1, 3, 9, 11), largest((3, 3), (2, 2), ceil_mode=True)),
    "dilated": ((1, 3, 12, 20), largest((3, 2), (1, 2), dilation=(2, 3))),
    "dilated and padded": ((1, 3, 12, 12), largest((3, 3), (1, 1), (2, 2), dilation=(2, 2))),
    "average, padding counts": ((1, 4, 28, 28), average((3, 3), 1, 1, count_include_pad=True)),
    "average, padding does not": ((1, 4, 14, 14), average((3, 3), (2, 2), (1, 1))),
    "average, wide": ((1, 4, 28, 28), average((3, 3), (1, 1), (1, 1))),
    "average, ceil mode": ((1, 4, 9, 10), average((3, 3), (2, 2), ceil_mode=True)),
    "average of all": ((2, 4, 7, 7), average((7, 7))),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shape, body = CASES[name]
    check([shape], body)


@settings(max_examples=draws(10), deadline=None, derandomize=True)
@given(
    channels=st.integers(1, 5),
    height=st.integers(4, 20),
    width=st.integers(4, 40),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.booleans(),
    largest_of=st.booleans(),
    counted=st.booleans(),
)
def test_any_pooling(channels, height, width, window, stride, padding, largest_of, counted):
    around = tuple(k // 2 for k in window) if padding else (0, 0)

    def body(x):
        if largest_of:
            return op.nn.max_pool2d(x, window, stride, around)
        return op.nn.avg_pool2d(x, window, stride, around, count_include_pad=counted)

    check([(1, channels, height, width)], body)


@pytest.mark.parametrize("name", ["stride 1, wide", "stride 2, padded"])
def test_two_cores(name):
    shape, body = CASES[name]
    check([(4, 120, *shape[2:])], body, targets=[TWO_CORES])


def kernel_of(shape, body):
    (kernel,) = kernels(LowerToTasks([AVX512, AVX2])(model([shape], body))).values()
    return kernel


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("average of all",)])
def test_the_rule_takes_what_it_builds(name):
    """Ours are "pool"; what TVM defined better stays its own kernel, which `generic` schedules."""
    shape, body = CASES[name]
    left_to_tvm = name in ("dilated and padded", "average, ceil mode")
    assert rule_of(schedule_kernel(kernel_of(shape, body), AVX512)) == (
        "generic" if left_to_tvm else "pool"
    )


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("stride 2, padded", "uint8"), ("stride 1, wide", "int8"), ("ceil mode", "uint8"),
     ("very wide", "int8")],
)  # fmt: skip
def test_the_largest_code(name, dtype):
    """Codes that are all low: what stands around the image must not be taken for one."""
    shape, pool = CASES[name]
    low = 0.0 if dtype == "uint8" else -128.0

    def body(x):
        numbers = op.clip(op.round(op.multiply(x, relax.const(40.0))), low, low + 90)
        return op.astype(pool(op.astype(numbers, dtype)), "float32")

    lowered = check([shape], body)
    rules = {rule_of(schedule_kernel(kernel, AVX512)) for kernel in kernels(lowered).values()}
    assert "pool" in rules


def test_what_follows_is_fused():
    bias = relax.const(random(1, 1, 4, 1, 1))
    pool = largest((3, 3), (2, 2), (1, 1))
    lowered = check([(1, 4, 14, 14)], lambda x: op.nn.relu(op.add(pool(x), bias)))
    (kernel,) = kernels(lowered).values()
    assert rule_of(schedule_kernel(kernel, AVX512)) == "pool"


def test_small_ones_stay_on_one_core():
    pool = largest((3, 3), (2, 2), (1, 1))
    small, large = kernel_of((1, 4, 14, 14), pool), kernel_of((1, 512, 14, 14), pool)
    assert "T.parallel" not in schedule_kernel(small, TWO_CORES).script()
    assert "T.parallel" in schedule_kernel(large, TWO_CORES).script()
    assert "T.parallel" not in schedule_kernel(large, AVX2).script()
