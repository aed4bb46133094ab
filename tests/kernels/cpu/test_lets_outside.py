"""A function within a product that all lanes share compiles, and is right."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.kernels.helpers import AVX2, check, kernels, model, scheduled
from tvm_hetero.kernels.cpu.lets_outside import bind_outside
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op


def scaled(x):
    """A product of a function, for all columns."""
    return op.broadcast_to(op.multiply(op.exp(x), relax.const(np.float32(1.7))), (4, 8))


def squared(x):
    """A function that is used twice."""
    return op.broadcast_to(op.multiply(op.tanh(x), op.tanh(x)), (4, 8))


def within(x):
    """A sum within a product."""
    return op.broadcast_to(op.multiply(op.add(op.exp(x), x), x), (4, 8))


@pytest.mark.parametrize("network", [scaled, squared, within])
def test_a_product_that_lanes_share_is_right(network) -> None:
    check([(4, 1)], network)


def test_what_binds_nothing_stays_as_it_is() -> None:
    lowered = LowerToTasks([AVX2])(model([(4, 8)], lambda x: op.multiply(x, x)))
    mod = scheduled(lowered, AVX2)
    before, after = kernels(mod), kernels(bind_outside(mod))
    assert before.keys() == after.keys()
    assert all(after[name].body.same_as(kernel.body) for name, kernel in before.items())
