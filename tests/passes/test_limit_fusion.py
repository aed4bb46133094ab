"""Long chains of operators become several kernels, short ones stay one."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import relax

from tests.kernels.helpers import AVX2, kernels, model, random, run, scheduled
from tvm_hetero.passes.limit_fusion import LimitFusion
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op


def functions(count):
    """Functions of functions: a chain whose code would double its length many times over."""

    def body(x):
        for i in range(count):
            x = (op.tanh, op.exp, op.sigmoid, op.negative, op.nn.relu)[i % 5](x)
        return x

    return body


def reference(count, x):
    steps = (np.tanh, np.exp, lambda v: 1 / (1 + np.exp(-v)), np.negative, lambda v: v.clip(0))
    for i in range(count):
        x = steps[i % 5](x)
    return x


def sums(count):
    def body(x):
        for i in range(count):
            x = op.add(x, relax.const(np.float32(i)))
        return x

    return body


@pytest.mark.parametrize("count", [4, 62, 200])
def test_functions_of_functions_are_compiled_apart(count):
    lowered = LowerToTasks([AVX2])(model([(3, 40)], functions(count)))
    assert (len(kernels(lowered)) > 1) == (count > 4)
    x = random(1, 3, 40)
    actual = run(scheduled(lowered, AVX2), AVX2, x)
    np.testing.assert_allclose(actual, reference(count, x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count, cut", [(64, False), (65, True), (300, True)])
def test_a_chain_has_an_end(count, cut):
    """The 65th operator is a kernel alone, also where its result is the model's."""
    lowered = LowerToTasks([AVX2])(model([(3, 40)], sums(count)))
    assert (len(kernels(lowered)) > 1) == cut
    x = random(1, 3, 40)
    actual = run(scheduled(lowered, AVX2), AVX2, x)
    np.testing.assert_allclose(actual, x + sum(range(count)), rtol=1e-4)


def test_a_product_begins_a_new_chain():
    weight = relax.const(random(2, 40, 40))

    def body(x):
        return sums(40)(op.matmul(sums(40)(x), weight))

    assert len(kernels(LowerToTasks([AVX2])(model([(3, 40)], body)))) == 2


def test_what_is_short_comes_back_as_it_is():
    legal = relax.transform.LegalizeOps()(model([(3, 40)], functions(3)))
    annotated = relax.transform.AnnotateTIROpPattern()(legal)
    assert tvm_ffi.structural_equal(LimitFusion()(annotated), annotated)
