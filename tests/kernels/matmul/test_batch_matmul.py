"""Matrix products of two tensors that are known only at run time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.kernels.helpers import (
    AVX2,
    AVX512,
    SSE,
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


def keys(axes=(0, 1, 3, 2)):
    """q.kT with scale and mask, as attention has it."""

    def body(q, k, *mask):
        scores = op.multiply(op.matmul(q, op.permute_dims(k, list(axes))), relax.const(0.125))
        return op.add(scores, mask[0]) if mask else scores

    return body


def left_transposed(a, b):
    return op.matmul(op.permute_dims(a, [1, 0]), b)


def heads(q, k):
    """Both sides with heads inside: [batch, tokens, heads, width]."""
    return op.matmul(op.permute_dims(q, [0, 2, 1, 3]), op.permute_dims(k, [0, 2, 3, 1]))


def twice(q, k):
    """The same with the transposition of the keys in two steps."""
    keys = op.permute_dims(op.permute_dims(k, [0, 2, 1, 3]), [0, 1, 3, 2])
    return op.matmul(op.permute_dims(q, [0, 2, 1, 3]), keys)


CASES = {
    "one row": ([(1, 30), (30, 48)], op.matmul, "gemm"),
    "one row, long": ([(1, 40), (40, 512)], op.matmul, "gemm"),
    "few rows": ([(5, 30), (30, 64)], op.matmul, "gemm"),
    "tall tile": ([(16, 24), (24, 320)], op.matmul, "gemm"),
    "many rows": ([(40, 24), (24, 64)], op.matmul, "gemm"),
    "tails everywhere": ([(19, 23), (23, 37)], op.matmul, "gemm"),
    "one column": ([(9, 12), (12, 1)], op.matmul, "gemm"),
    "p.v of one token": ([(2, 3, 1, 50), (2, 3, 50, 64)], op.matmul, "gemm"),
    "q.kT of one token": ([(2, 3, 1, 64), (2, 3, 50, 64), (2, 1, 1, 50)], keys(), "dot"),
    "q.kT of three tokens": ([(2, 3, 3, 32), (2, 3, 7, 32)], keys(), "dot"),
    "q.kT, width of no whole vectors": ([(1, 2, 1, 20), (1, 2, 9, 20)], keys(), "gemm"),
    "q.kT of a prompt": ([(1, 2, 33, 32), (1, 2, 33, 32), (1, 1, 33, 33)], keys(), "gemm"),
    "heads inside": ([(1, 20, 2, 16), (1, 20, 2, 16)], heads, "gemm"),
    "heads inside, one token": ([(2, 1, 3, 16), (2, 20, 3, 16)], heads, "dot"),
    "heads inside, transposed before": ([(1, 20, 2, 16), (1, 20, 2, 16)], twice, "gemm"),
    "columns a page apart": (
        [(12, 512), (70, 512)],
        lambda a, b: op.matmul(a, op.permute_dims(b)),
        "gemm",
    ),
    "left side transposed": ([(20, 33), (20, 48)], left_transposed, "gemm"),
    "right side broadcast": ([(2, 3, 9, 8), (3, 8, 40)], op.matmul, "gemm"),
    "left side broadcast": ([(9, 8), (2, 3, 8, 32)], op.matmul, "gemm"),
    "both broadcast": ([(2, 1, 9, 8), (1, 3, 8, 32)], op.matmul, "gemm"),
    "one matrix on the right": ([(2, 3, 9, 8), (1, 1, 8, 32)], op.matmul, "gemm"),
    "vector on the left": ([(8,), (3, 8, 32)], op.matmul, "gemm"),
    "vector on the right": ([(3, 9, 8), (8,)], op.matmul, "gemm"),
    "two vectors": ([(16,), (16,)], op.matmul, "dot"),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shapes, body, rule = CASES[name]
    lowered = check(shapes, body)
    taken = [rule_of(schedule_kernel(f, AVX512)) for f in kernels(lowered).values()]
    assert rule in taken
    if all(len(shape) > 1 for shape in shapes):
        assert len(taken) == 1  # transposition and epilogue are inside


@settings(max_examples=draws(8), deadline=None)
@given(
    leading=st.sampled_from([((), ()), ((2,), (2,)), ((2, 1), (3,)), ((2,), ()), ((), (3,))]),
    rows=st.integers(1, 40),
    depth=st.integers(1, 40),
    columns=st.integers(1, 70),
    turned=st.tuples(st.booleans(), st.booleans()),
)
def test_any_product(leading, rows, depth, columns, turned):
    def shape(leading, extents, turned):
        return (*leading, *(extents[::-1] if turned else extents))

    def straight(x, turned):
        rank = len(x.ty.shape)
        axes = [*range(rank - 2), rank - 1, rank - 2]
        return op.permute_dims(x, axes) if turned else x

    shapes = [
        shape(leading[0], (rows, depth), turned[0]),
        shape(leading[1], (depth, columns), turned[1]),
    ]
    check(shapes, lambda a, b: op.matmul(straight(a, turned[0]), straight(b, turned[1])))


@pytest.mark.parametrize("name", ["tall tile", "q.kT of a prompt", "q.kT of one token"])
def test_narrow_vectors(name):
    shapes, body, _ = CASES[name]
    check(shapes, body, targets=[SSE])


SHARED = {
    "matrices": ([(8, 24, 64), (8, 64, 96)], op.matmul),
    "blocks of columns": ([(24, 64), (64, 800)], op.matmul),
    "rows, columns packed before": ([(500, 64), (64, 50)], op.matmul),
    "one row": ([(1, 600), (600, 1024)], op.matmul),
    "dot products": ([(16, 1, 64), (16, 500, 64)], keys((0, 2, 1))),
    "dot products of one matrix": ([(1, 512), (1024, 512)], keys((1, 0))),
}


@pytest.mark.parametrize("name", SHARED)
def test_two_cores(name):
    shapes, body = SHARED[name]
    lowered = check(shapes, body, targets=[TWO_CORES])
    (kernel,) = kernels(lowered).values()
    assert "T.parallel" in schedule_kernel(kernel, TWO_CORES).script()


def test_small_products_stay_on_one_core():
    (kernel,) = kernels(LowerToTasks([TWO_CORES])(model([(16, 16), (16, 64)], op.matmul))).values()
    assert "T.parallel" not in schedule_kernel(kernel, TWO_CORES).script()


def test_a_constant_left_side():
    weight = relax.const(random(5, 21, 12))
    check([(12, 40)], lambda x: op.matmul(weight, x))
    check([(3, 12, 40)], lambda x: op.nn.relu(op.matmul(weight, x)))


@pytest.mark.parametrize("name", ["many rows", "q.kT of one token"])
def test_same_target_same_schedule(name):
    shapes, body, _ = CASES[name]
    texts = []
    for _ in range(2):
        (kernel,) = kernels(LowerToTasks([AVX512, AVX2])(model(shapes, body))).values()
        texts.append(schedule_kernel(kernel, AVX2).script())
    assert texts[0] == texts[1]


def test_dot_products_do_not_depend_on_the_target():
    shapes, body, _ = CASES["q.kT of one token"]
    inputs = [random(i, *shape) for i, shape in enumerate(shapes)]
    lowered = LowerToTasks([AVX512, AVX2])(model(shapes, body))
    results = [run(scheduled(lowered, t), t, *inputs) for t in (AVX512, AVX2) if runs_here(t)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_what_does_not_fit_the_caches_is_asked_for_ahead():
    (kernel,) = kernels(LowerToTasks([AVX512])(model([(1, 64), (64, 16384)], op.matmul))).values()
    assert "prefetch" in schedule_kernel(kernel, AVX512).script()
    (kernel,) = kernels(LowerToTasks([AVX512])(model([(1, 64), (64, 64)], op.matmul))).values()
    assert "prefetch" not in schedule_kernel(kernel, AVX512).script()
