"""Softmax, normalisation and reductions of trailing axes: a row at a time, sums side by side."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
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
    run,
    runs_here,
    scheduled,
)
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op
SCALE, SHIFT = (relax.const(random(seed, 96)) for seed in (1, 2))


def group_norm(x):
    scale, shift = (relax.const(random(seed, 6)) for seed in (3, 4))
    return op.nn.group_norm(x, scale, shift, 2, 1, [2, 3])


CASES = {
    "softmax": ((3, 5, 96), lambda x: op.nn.softmax(x, -1)),
    "softmax of 100": ((4, 100), lambda x: op.nn.softmax(x, -1)),
    "softmax, few divisors": ((2, 58), lambda x: op.nn.softmax(x, -1)),
    "softmax of one row": ((1, 1000), lambda x: op.nn.softmax(x, -1)),
    "softmax of a prime": ((3, 97), lambda x: op.nn.softmax(x, -1)),
    "softmax of a ViT's patches": ((2, 5, 197), lambda x: op.nn.softmax(x, -1)),
    "log softmax of a prime": ((3, 127), lambda x: op.nn.log_softmax(x, -1)),
    "softmax of a long prime": ((3, 577), lambda x: op.nn.softmax(x, -1)),
    "log softmax of a long prime": ((2, 1021), lambda x: op.nn.log_softmax(x, -1)),
    "log softmax": ((3, 5, 96), lambda x: op.nn.log_softmax(x, -1)),
    "layer norm": ((7, 96), lambda x: op.nn.layer_norm(x, SCALE, SHIFT, [-1])),
    "rms norm": ((7, 96), lambda x: op.nn.rms_norm(x, SCALE, [-1])),
    "mean of an image": ((2, 5, 8, 9), lambda x: op.mean(x, [2, 3], keepdims=True)),
    "mean, then more": (
        (2, 5, 8, 9),
        lambda x: op.subtract(x, op.mean(x, [2, 3], keepdims=True)),
    ),
    "largest": ((4, 5, 64), lambda x: op.max(x, [2])),
    "variance": ((4, 128), lambda x: op.variance(x, [1])),
    "sum of everything": ((6, 80), lambda x: op.sum(x)),
    "sum of squares": ((6, 80), lambda x: op.sqrt(op.sum(op.multiply(x, x), [1]))),
}
LEFT_TO_GENERIC = {
    "group norm": ((2, 6, 8, 8), group_norm),
    "one dimension": ((64,), lambda x: op.nn.softmax(op.multiply(x, x), 0)),
    "prime": ((3, 97), lambda x: op.sum(x, [1])),
    "short": ((30, 10), lambda x: op.nn.softmax(x, -1)),
    "another axis": ((2, 64, 30), lambda x: op.nn.softmax(x, 1)),
    "rows of two kinds": (
        (4, 64),
        lambda x: op.add(op.sum(x, [1], keepdims=True), op.sum(x, [0], keepdims=True)),
    ),
}


def rules(shape, body, target=AVX512):
    lowered = LowerToTasks([AVX512, AVX2])(model([shape], body))
    return {rule_of(schedule_kernel(f, target)) for f in kernels(lowered).values()}


@pytest.mark.parametrize("name", CASES | LEFT_TO_GENERIC)
def test_equals_plain_tvm(name):
    shape, body = (CASES | LEFT_TO_GENERIC)[name]
    check([shape], body)


@pytest.mark.parametrize("name", CASES)
def test_the_rule_takes_them(name):
    assert "rows" in rules(*CASES[name])


@pytest.mark.parametrize(
    "name", [n for n in LEFT_TO_GENERIC if n not in ("rows of two kinds", "one dimension")]
)
def test_and_leaves_others(name):
    assert rules(*LEFT_TO_GENERIC[name]) == {"generic"}


@settings(max_examples=draws(10), deadline=None, derandomize=True)
@given(
    rows=st.lists(st.integers(1, 5), max_size=2),
    columns=st.lists(st.integers(2, 24), min_size=1, max_size=2),
    softmax=st.booleans(),
)
def test_any_rows(rows, columns, softmax):
    axes = list(range(len(rows), len(rows) + len(columns)))

    def body(x):
        if softmax:
            return op.nn.softmax(x, -1)
        return op.mean(op.multiply(x, x), axes, keepdims=len(rows) == 1)

    check([(*rows, *columns)], body)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("softmax", (7, 100, 96)), ("layer norm", (701, 96)), ("mean of an image", (9, 103, 8, 9))],
)
def test_two_cores(name, shape):
    _, body = CASES[name]
    lowered = check([shape], body, targets=[TWO_CORES])
    scheduled_kernels = [schedule_kernel(f, TWO_CORES) for f in kernels(lowered).values()]
    assert "rows" in {rule_of(kernel) for kernel in scheduled_kernels}
    assert any("T.parallel" in kernel.script() for kernel in scheduled_kernels)


def test_long_values_do_not_overflow():
    x = np.array([[1000.0, 999.0, -1000.0, -np.inf] * 16], dtype=np.float32)
    lowered = LowerToTasks([AVX2])(model([x.shape], lambda x: op.nn.softmax(x, -1)))
    result = run(scheduled(lowered, AVX2), AVX2, x)
    assert result.sum() == pytest.approx(1, rel=1e-6)
    assert result[0, 0] == pytest.approx(np.e / (np.e + 1) / 16, rel=1e-5)
    assert result[0, 2] == result[0, 3] == 0


@pytest.mark.parametrize("name", ["mean of an image", "layer norm", "softmax"])
def test_sums_do_not_depend_on_the_target(name):
    shape, body = CASES[name]
    lowered = LowerToTasks([AVX512, AVX2])(model([shape], body))
    x = random(0, *shape)
    results = [run(scheduled(lowered, t), t, x) for t in (AVX512, AVX2) if runs_here(t)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_the_largest_of_infinities_is_one_and_a_nan_is_skipped():
    x = np.random.default_rng(0).standard_normal((4, 5, 64)).astype("float32")
    x[0] = -np.inf
    x[1, :, 7] = np.nan
    func = next(
        iter(kernels(LowerToTasks([AVX2])(model([(4, 5, 64)], CASES["largest"][1]))).values())
    )
    scheduled = schedule_kernel(func, AVX2)
    assert rule_of(scheduled) == "rows"
    scheduled = scheduled.with_attr("target", AVX2).with_attr("global_symbol", "main")
    library = tvm.compile(tvm.IRModule({"main": scheduled}), AVX2)
    found = tvm.runtime.tensor(np.zeros((4, 5), "float32"))
    library["main"](tvm.runtime.tensor(x), found)
    np.testing.assert_array_equal(found.numpy(), np.fmax.reduce(x, 2))
