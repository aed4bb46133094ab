"""Kernels in bfloat16: the sums of rounded numbers, by the instruction where there is one."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from tests.kernels.helpers import AVX512, PAIRS, ZEN4, kernels, model, random, run, runs_here
from tests.kernels.helpers import scheduled as scheduled_for
from tvm_hetero.kernels.cpu.bfloat16_words import pack_bfloat16_words
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.narrow_kernel import computes_bfloat16, narrow_kernel
from tvm_hetero.kernels.select import rule_of, schedule_kernel
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.narrow_edges import find_forms
from tvm_hetero.passes.narrow_tasks import is_narrow, narrow_kernels, narrow_tasks

INSTRUCTION = "vdpbf16ps"
UNIT = 2.0**-8  # half of what lies between neighbours, of the larger one

Body = Callable[..., relax.Expr]


def convolution(shape: tuple[int, ...], **how: int) -> Body:
    weight = relax.const(random(1, *shape) / np.float32(np.sqrt(np.prod(shape[1:]))))
    return lambda x: relax.op.nn.conv2d(x, weight, **how)


def product(depth: int, columns: int, *, exact: bool = False) -> Body:
    weight = random(2, depth, columns)
    weight = weight.astype(ml_dtypes.bfloat16).astype(np.float32) if exact else weight
    return lambda x: relax.op.matmul(x, relax.const(weight))


CASES: dict[str, tuple[tuple[int, ...], Body, str]] = {
    "1x1": ((1, 16, 9, 7), convolution((24, 16, 1, 1)), "packed"),
    "1x1, strides": ((2, 6, 9, 9), convolution((16, 6, 1, 1), strides=2), "packed"),
    "odd channels": ((1, 3, 12, 12), convolution((8, 3, 5, 5), padding=2, strides=2), "packed"),
    "3x3": ((1, 13, 17, 17), convolution((20, 13, 3, 3), padding=1), "packed"),
    "groups": ((1, 16, 8, 8), convolution((16, 4, 3, 3), padding=1, groups=4), "packed"),
    "one row": ((1, 33), product(33, 40), "gemm"),
    "rows": ((37, 64), product(64, 48), "gemm"),
    "weights that are bfloat16": ((9, 64), product(64, 48, exact=True), "gemm"),
    "images of rows": ((3, 17, 30), product(30, 64), "gemm"),
}


def narrowed(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The lowered module, all that can be in bfloat16."""
    lowered = LowerToTasks([target])(mod)
    tasks = extract_tasks(lowered)
    forms = find_forms(tasks, narrow_kernels(tasks))
    chosen = [task for task, kernel in tasks.kernel_of.items() if kernel in forms.narrow]
    return narrow_tasks(lowered, forms, chosen)


def in_float64(mod: tvm.IRModule, x: np.ndarray, rounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """What a model of one operator gives in float64, and the sum of the summands' sizes."""
    call = mod["main"].body.blocks[0].bindings[0].value
    weight = call.args[1].value.numpy()
    if rounded:
        x, weight = (v.astype(ml_dtypes.bfloat16).astype(np.float32) for v in (x, weight))
    return tuple(_compute(call, *sides) for sides in ((x, weight), (abs(x), abs(weight))))


def _compute(call: relax.Call, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    if call.op.name == "relax.matmul":
        return x @ weight
    pad, step, groups = int(call.attrs.padding[0]), int(call.attrs.strides[0]), call.attrs.groups
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::step, ::step]
    windows = windows.reshape(len(x), groups, -1, *windows.shape[2:])
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    out = np.einsum("bgcyxhw,gochw->bgoyx", windows, grouped)
    return out.reshape(len(x), -1, *out.shape[3:])


@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_rounded_numbers(name: str) -> None:
    shape, body, rule = CASES[name]
    mod, x = model([shape], body), random(3, *shape)
    module = narrowed(mod, ZEN4)
    (kernel,) = kernels(scheduled_for(module, ZEN4)).values()
    assert rule_of(kernel) == rule
    target = ZEN4 if runs_here(ZEN4) else PAIRS if runs_here(PAIRS) else AVX512
    actual = run(scheduled_for(module, target), target, x).astype(np.float64)
    exact, sizes = in_float64(mod, x, rounded=True)
    # Sums of float32 of up to some hundred summands.
    assert (abs(actual - exact) <= 64 * 2.0**-24 * sizes).all()
    wanted, sizes = in_float64(mod, x, rounded=False)
    bound = (2 * UNIT + UNIT**2 + 64 * 2.0**-24) * sizes
    assert (abs(actual - wanted) <= bound).all() and abs(actual - wanted).max() > 1e-5


def assembly(func: tirx.PrimFunc, target: tvm.target.Target) -> str:
    main = schedule_kernel(func, target).with_attr("global_symbol", "main")
    return build(tvm.IRModule({"main": main}), target).inspect_source("asm")


def test_only_targets_that_have_the_instruction_get_it() -> None:
    shape, body, _ = CASES["one row"]
    lowered = LowerToTasks([AVX512])(model([shape], body))
    (func,) = kernels(lowered).values()
    narrow = narrow_kernel(func, 1.0).func
    cuda = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm")
    for target, has in ((ZEN4, True), (PAIRS, True), (AVX512, False)):
        assert computes_bfloat16(target) is has
        assert (INSTRUCTION in assembly(narrow, target)) is has
        assert INSTRUCTION not in assembly(func, target)
    assert not computes_bfloat16(cuda)


def test_targets_without_it_compute_the_same() -> None:
    """So a kernel is right wherever it is run, be it slow."""
    shape, body, _ = CASES["odd channels"]
    module, x = narrowed(model([shape], body), AVX512), random(3, *shape)
    plain = tvm.target.Target({"kind": "llvm"})
    exact, sizes = in_float64(model([shape], body), x, rounded=True)
    for target in filter(runs_here, (AVX512, plain)):
        actual = run(scheduled_for(module, target), target, x)
        assert (abs(actual - exact) <= 64 * 2.0**-24 * sizes).all()


def test_a_kernel_is_the_same_each_time() -> None:
    shape, body, _ = CASES["groups"]
    first, second = (narrowed(model([shape], body), ZEN4) for _ in range(2))
    assert tvm_ffi.structural_equal(first, second)
    assert [is_narrow(name) for name in kernels(first)] == [True]


def test_words_hold_pairs_and_what_is_no_number() -> None:
    values = np.array([[1.0, -2.5, np.nan], [np.inf, 3.0e38, 1.00390625]], np.float32)
    words = pack_bfloat16_words(values, 1)
    numbers = words.view(ml_dtypes.bfloat16).astype(np.float32)
    expected = [[1.0, -2.5, np.nan, 0.0], [np.inf, 3.0e38, 1.0, 0.0]]
    np.testing.assert_allclose(numbers, np.array(expected, np.float32), rtol=UNIT)
    assert words.shape == (2, 2) and numbers[1, 2] == 1.0  # halfway: to the even one


@pytest.mark.skipif(not runs_here(ZEN4), reason="the processor has no such instruction")
def test_what_is_no_number_stays_so() -> None:
    shape, body, _ = CASES["rows"]
    x = random(3, *shape)
    x[0, 0], x[1, 5] = np.nan, np.inf
    for target in (ZEN4, AVX512):
        actual = run(scheduled_for(narrowed(model([shape], body), ZEN4), target), target, x)
        assert np.isnan(actual[0]).all() and np.isinf(actual[1]).all()
        assert np.isfinite(actual[2:]).all()


@pytest.mark.parametrize(
    ("shape", "body", "reason"),
    [
        ((1, 8, 8, 8), convolution((8, 1, 3, 3), padding=1, groups=8), "no sum"),
        ((1, 12, 6, 6), convolution((32, 3, 3, 3), groups=4), "side by side"),
        ((1, 1, 8, 8), convolution((16, 1, 3, 3)), "single step"),
        ((4, 8), lambda x: relax.op.nn.relu(x), "no sum"),
        ((4, 8), lambda x: relax.op.matmul(x, relax.const(np.eye(8, 16, dtype="float32"))),
         "no values of float32"),
    ],
)  # fmt: skip
def test_other_kernels_are_refused(shape: tuple[int, ...], body: Body, reason: str) -> None:
    lowered = LowerToTasks([ZEN4])(model([shape], body))
    func = next(iter(kernels(lowered).values()))
    with pytest.raises(ValueError, match=reason):
        narrow_kernel(func, 1.0)
    assert not narrow_kernels(extract_tasks(lowered))
