"""Matrix products with constant weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.ir import GenericConst

from tests.draws import draws
from tests.kernels.helpers import (
    AVX2,
    SSE,
    TWO_CORES,
    assert_sums_stay_in_registers,
    check,
    kernels,
    model,
    random,
)
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def dense(depth, out_channels, transposed=True):
    weight = random(3, out_channels, depth) if transposed else random(3, depth, out_channels)
    bias = relax.const(random(4, out_channels))

    def body(x):
        w = relax.const(weight)
        product = relax.op.matmul(x, relax.op.permute_dims(w) if transposed else w)
        return relax.op.nn.relu(relax.op.add(product, bias))

    return body


@pytest.mark.parametrize("rows", [1, 7, 16, 37])
@pytest.mark.parametrize("out_channels", [1, 48, 100])
def test_equals_plain_tvm(rows, out_channels):
    lowered = check([(rows, 20)], dense(20, out_channels))
    assert len(kernels(lowered)) == 1  # the transposition is gone, bias and relu are inside


@pytest.mark.parametrize("rows", [1, 16])
def test_few_columns_in_a_block_for_wider_vectors(rows):
    """Four columns are one vector of SSE in a block of two, of which one is padding."""
    check([(rows, 20)], dense(20, 4), targets=[SSE, AVX2])


def test_more_dimensions_and_plain_weights():
    check([(2, 3, 20)], dense(20, 33, transposed=False))


@settings(max_examples=draws(8), deadline=None, derandomize=True)
@given(rows=st.integers(1, 40), depth=st.integers(1, 50), out_channels=st.integers(1, 90))
def test_any_product(rows, depth, out_channels):
    check([(rows, depth)], dense(depth, out_channels))


def test_two_cores():
    for rows in (1, 40):
        lowered = check([(rows, 600)], dense(600, 1000), targets=[TWO_CORES])
        (kernel,) = kernels(lowered).values()
        assert "T.parallel" in schedule_kernel(kernel, TWO_CORES).script()


@pytest.mark.parametrize("leading", [((3,), (3,)), ((2, 1), (3,)), ((), (3,)), ((2,), (1,))])
def test_constant_weights_for_each_matrix(leading):
    weight = relax.const(random(5, *leading[1], 20, 40))
    check([(*leading[0], 7, 20)], lambda x: relax.op.matmul(x, weight))


def test_vectors():
    matrix, vector = random(5, 20, 40), random(6, 20)
    check([(20,)], lambda x: relax.op.nn.relu(relax.op.matmul(x, relax.const(matrix))))
    check([(40,)], lambda x: relax.op.nn.relu(relax.op.matmul(relax.const(matrix), x)))
    check([(3, 20)], lambda x: relax.op.nn.relu(relax.op.matmul(x, relax.const(vector))))


def test_packed_values():
    """Channel o of the weights stands at [0, o // B, :, o % B], padding is zero."""
    mod = LowerToTasks(None)(model([(1, 4)], dense(4, 10)))
    constants = packed_constants(mod)
    (packed,) = [c[0] for c in constants if c.ndim == 4]
    weight = random(3, 10, 4)
    block = packed.shape[2]
    for o in range(10):
        np.testing.assert_array_equal(packed[o // block, :, o % block], weight[o])
    assert packed.sum() == pytest.approx(weight.sum(), rel=1e-5)


def packed_constants(mod):
    arguments = [
        argument
        for binding in mod["main"].body.blocks[0].bindings
        for argument in binding.value.args[1].fields
    ]
    return [a.value.numpy() for a in arguments if isinstance(a, GenericConst)]


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("cores", [1, 2])
def test_weights_are_asked_for_ahead_and_accumulators_stay_in_registers(cores, count):
    """In a parallel loop too: nothing is stored in the loop that asks (see `compilation`)."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": cores})
    weight = relax.const(random(3, 768, 50257))
    lowered = LowerToTasks([target])(model([(1, 768)], lambda x: relax.op.matmul(x, weight)))
    (kernel,) = kernels(lowered).values()
    weights = [i for i, p in enumerate(kernel.params) if math.prod(map(int, p.shape)) >= 1e7]
    kernel = schedule_kernel(batch_kernel(kernel, count, weights) if count > 1 else kernel, target)
    assert ("T.parallel" in kernel.script()) == (cores > 1)
    assert_sums_stay_in_registers(kernel, target)
