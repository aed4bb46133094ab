"""Kernels whose data or output are in bfloat16 in memory: the numbers that they had, rounded."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from tests.kernels.helpers import AMX, AVX2, AVX512, SSE, ZEN4, kernels, model, random, runs_here
from tests.kernels.test_narrow_kernel import CASES, Body, assembly, convolution
from tvm_hetero.compiler.kernel_cache import compile_library, schedule_kernels
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.kernels.bfloat16_tensors import (
    reads_bfloat16,
    rounded_parameters,
    writes_bfloat16,
)
from tvm_hetero.kernels.convolution.depthwise import is_depthwise
from tvm_hetero.kernels.narrow_kernel import narrow_kernel
from tvm_hetero.kernels.select import rule_of, schedule_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TARGETS = [ZEN4, AVX512, AVX2, SSE]
HERE = [target for target in TARGETS if runs_here(target)]
ROUNDING = "vcvtneps2bf16"


def depthwise(channels: int, window: tuple[int, int], multiplier: int = 1, **how: int) -> Body:
    weight = relax.const(random(1, channels * multiplier, 1, *window))
    bias = relax.const(random(2, 1, channels * multiplier, 1, 1))

    def body(x: relax.Expr) -> relax.Expr:
        y = relax.op.nn.conv2d(x, weight, groups=channels, **how)
        return relax.op.clip(relax.op.add(y, bias), 0.0, 6.0)

    return body


DEPTHWISE: dict[str, tuple[tuple[int, ...], Body]] = {
    "bands": ((1, 5, 20, 33), depthwise(5, (3, 3), padding=1)),
    "bands, no padding": ((1, 4, 19, 40), depthwise(4, (5, 3))),
    "joined": ((2, 6, 7, 7), depthwise(6, (3, 3), padding=1)),
    "strides": ((1, 3, 15, 29), depthwise(3, (3, 3), strides=2, padding=1)),
    "one stride": ((1, 3, 30, 17), depthwise(3, (5, 5), strides=2, padding=2)),
    "dilation": ((1, 4, 23, 41), depthwise(4, (3, 3), padding=2, dilation=2)),
    "several outputs a channel": ((1, 3, 14, 14), depthwise(3, (3, 3), 2, padding=1)),
    "few points": ((1, 7, 3, 5), depthwise(7, (3, 3), padding=1)),
}


def kernel_of(shape: tuple[int, ...], body: Body) -> tirx.PrimFunc:
    (func,) = kernels(LowerToTasks([ZEN4, AVX2])(model([shape], body))).values()
    return func


def call(func: tirx.PrimFunc, target: tvm.target.Target, *args: np.ndarray) -> np.ndarray:
    """What a kernel makes of its arguments, the last one its output."""
    library = load_kernels(compile_library(schedule_kernels({"main": func}, target), target))
    *_, out = func.params
    shape = [int(extent) for extent in out.shape]
    made = tvm.runtime.empty(shape, str(out.dtype))
    library["main"](*(tvm.runtime.tensor(each) for each in args), made)
    return made.numpy()


def arguments(func: tirx.PrimFunc) -> list[np.ndarray]:
    shapes = [[int(extent) for extent in p.shape] for p in func.params[:-1]]
    return [random(i, *shape) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("name", DEPTHWISE)
def test_a_depthwise_convolution_writes_what_it_made_rounded(name: str) -> None:
    func = kernel_of(*DEPTHWISE[name])
    short, args = writes_bfloat16(func, 1.0), arguments(func)
    assert is_depthwise(func) or name == "few points"
    for target in HERE:
        expected = call(func, target, *args).astype(ml_dtypes.bfloat16)
        found = call(short, target, *args)
        assert found.dtype == ml_dtypes.bfloat16 and np.unique(found).size > 2
        np.testing.assert_array_equal(found, expected)
        rules = [rule_of(schedule_kernel(each, target)) for each in (func, short)]
        assert rules[0] == rules[1]


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_in_bfloat16_reads_and_writes_the_same_numbers(name: str) -> None:
    shape, body, rule = CASES[name]
    plain = kernel_of(shape, body)
    narrow = narrow_kernel(plain, 1.0)
    (data,) = rounded_parameters(narrow.func)
    read = reads_bfloat16(narrow.func, data, 1.0)
    both = writes_bfloat16(read, 1.0)
    args = arguments(plain)
    args[narrow.weights] = narrow.pack_weights(args[narrow.weights])
    halved = [*args]
    halved[data] = args[data].astype(ml_dtypes.bfloat16)
    for target in HERE[:2]:
        expected = call(narrow.func, target, *args)
        np.testing.assert_array_equal(call(read, target, *halved), expected)
        found = call(both, target, *halved)
        np.testing.assert_array_equal(found, expected.astype(ml_dtypes.bfloat16))
    assert {rule_of(schedule_kernel(each, ZEN4)) for each in (narrow.func, read, both)} == {rule}


def test_only_targets_that_have_the_instruction_round_by_it() -> None:
    for shape, body in (DEPTHWISE["bands"], DEPTHWISE["joined"]):
        func = kernel_of(shape, body)
        short = writes_bfloat16(func, 1.0)
        for target, has in ((ZEN4, True), (AVX512, False), (AVX2, False)):
            assert (ROUNDING in assembly(short, target)) is has
            assert ROUNDING not in assembly(func, target)


def test_what_is_no_number_stays_so_and_halves_go_to_the_even_one() -> None:
    func = kernel_of((1, 16, 8, 8), lambda x: relax.op.nn.conv2d(
        x, relax.const(np.ones((16, 1, 1, 1), np.float32)), groups=16
    ))  # fmt: skip
    short, args = writes_bfloat16(func, 1.0), arguments(func)
    values = [np.nan, np.inf, -np.inf, 1.00390625, 1.01171875, 3.4e38, -0.0, 2.5]
    args[0] = np.resize(np.array(values, np.float32), args[0].shape)
    args[1][:] = 1
    expected = [np.nan, np.inf, -np.inf, 1.0, 1.015625, np.inf, 0.0, 2.5]
    for target in HERE:
        found = call(short, target, *args).astype(np.float32)
        np.testing.assert_array_equal(found, np.resize(np.array(expected), found.shape))


def test_tile_registers_are_not_for_what_is_rounded_at_the_end() -> None:
    plain = kernel_of((1, 64, 14, 14), convolution((32, 64, 1, 1)))
    narrow = narrow_kernel(plain, 1.0).func
    assert rule_of(schedule_kernel(writes_bfloat16(narrow, 1.0), AMX)) == "packed"


def test_kernels_that_read_their_data_twice_or_otherwise_are_refused() -> None:
    weight = relax.const(random(1, 8, 8, 1, 1))
    func = kernel_of((1, 8, 9, 9), lambda x: relax.op.add(relax.op.nn.conv2d(x, weight), x))
    narrow = narrow_kernel(func, 1.0).func
    assert rounded_parameters(narrow) == () == rounded_parameters(func)
    with pytest.raises(ValueError, match="parameter 0 is no data"):
        reads_bfloat16(narrow, 0, 1.0)
    with pytest.raises(ValueError, match="parameter 0 is no data"):
        reads_bfloat16(func, 0, 1.0)
    short = writes_bfloat16(func, 1.0)
    with pytest.raises(ValueError, match="no float32 that is written once"):
        writes_bfloat16(short, 1.0)
    sums = kernel_of((4, 64), lambda x: relax.op.sum(x, axis=1))
    with pytest.raises(ValueError, match="no float32 that is written once"):
        writes_bfloat16(sums, 1.0)


def test_a_kernel_is_the_same_each_time() -> None:
    first, second = (writes_bfloat16(kernel_of(*DEPTHWISE["strides"]), 1.0) for _ in range(2))
    assert tvm_ffi.structural_equal(first, second)
