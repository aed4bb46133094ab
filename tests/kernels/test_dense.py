"""Matrix products with constant weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.ir import GenericConst

from tests.kernels.helpers import TWO_CORES, check, kernels, model, random
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def dense(depth, out_channels, transposed=True):
    weight = random(3, out_channels, depth) if transposed else random(3, depth, out_channels)
    bias = relax.const(random(4, out_channels))

    def body(x):
        w = relax.const(weight)
        product = relax.op.matmul(x, relax.op.permute_dims(w) if transposed else w)
        return relax.op.nn.relu(relax.op.add(product, bias))

    return body


@pytest.mark.parametrize("rows", [1, 2, 7, 16, 37])
@pytest.mark.parametrize("out_channels", [1, 10, 48, 100])
def test_equals_plain_tvm(rows, out_channels):
    lowered = check([(rows, 20)], dense(20, out_channels))
    assert len(kernels(lowered)) == 1  # the transposition is gone, bias and relu are inside


def test_more_dimensions_and_plain_weights():
    check([(2, 3, 20)], dense(20, 33, transposed=False))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(rows=st.integers(1, 40), depth=st.integers(1, 50), out_channels=st.integers(1, 90))
def test_any_product(rows, depth, out_channels):
    check([(rows, depth)], dense(depth, out_channels))


def test_two_cores():
    check([(5, 20)], dense(20, 100), targets=[TWO_CORES])


def test_a_product_of_two_inputs_is_left_to_tvm():
    lowered = check([(4, 6), (6, 5)], relax.op.matmul)
    assert [len(f.params) for f in kernels(lowered).values()] == [3]


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
