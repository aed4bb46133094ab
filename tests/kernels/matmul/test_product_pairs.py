"""Products of bfloat16 with constants of bfloat16, two steps to an instruction."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

from tests.draws import draws
from tests.kernels.helpers import AVX512, PAIRS, ZEN4, innermost, kernels, random, run, runs_here
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TWO_CORES_WITH_PAIRS = tvm.target.Target({**PAIRS.export(), "num-cores": 2})


def narrow(seed, *shape):
    return random(seed, *shape).astype(ml_dtypes.bfloat16)


def lowered(x, weight, *, out="float32", behind=lambda bb, product: product):
    """The product of an input like ``x`` with constants, and what is to be done with it."""
    bb = relax.BlockBuilder()
    left = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with bb.function("main", [left]):
        with bb.dataflow():
            constants = relax.const(tvm.runtime.tensor(weight))
            product = bb.emit(op.matmul(left, constants, out_dtype=out))
            result = bb.emit_output(behind(bb, product))
        bb.emit_func_output(result)
    return LowerToTasks([PAIRS])(bb.get())


def scheduled(mod, target):
    done = {
        gv: schedule_kernel(f, target) if isinstance(f, tvm.tirx.PrimFunc) else f
        for gv, f in mod.functions_items()
    }
    return tvm.IRModule(done, attrs=mod.attrs), {rule_of(f) for f in kernels_of(done)}


def kernels_of(functions):
    return [f for f in functions.values() if isinstance(f, tvm.tirx.PrimFunc)]


def check(x, weight, *, rules=frozenset({"pairs"}), target=PAIRS, tolerance=1e-5, **how):
    """The same as NumPy's, where it can be run; always by these rules."""
    after = how.pop("after", lambda product: product)
    mod, found = scheduled(lowered(x, weight, **how), target)
    assert found == set(rules)
    if runs_here(target):
        expected = after(x.astype(np.float64) @ weight.astype(np.float64))
        actual = run(mod, target, x).astype(np.float64)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(("rows", "steps", "columns"), [
    (4, 40, 70), (5, 66, 33), (7, 96, 16), (8, 64, 48), (16, 128, 64), (64, 34, 100), (13, 2, 200),
])  # fmt: skip
def test_products(rows, steps, columns):
    check(narrow(1, rows, steps), narrow(2, steps, columns))


def test_sums_are_of_float32_whatever_becomes_of_them():
    x, weight = narrow(1, 8, 512), narrow(2, 512, 48)
    check(x, weight, out="bfloat16", tolerance=2.0**-8)


def check_what_follows(**how):
    """A bias and an activation behind the product."""
    x, weight, bias = narrow(1, 8, 64), narrow(2, 64, 96), random(3, 96)

    def behind(bb, product):
        return bb.emit(op.nn.relu(bb.emit(op.add(product, relax.const(bias)))))

    check(x, weight, behind=behind, after=lambda p: np.maximum(p + bias, 0), **how)


def test_what_follows_is_done_with_the_sums():
    check_what_follows()


def test_leading_dimensions_are_rows():
    check(narrow(1, 2, 3, 64), narrow(2, 64, 96))


def test_constants_that_come_from_far_are_asked_for():
    x, weight = narrow(1, 8, 1024), narrow(2, 1024, 2304)
    check(x, weight)
    (kernel,) = kernels(lowered(x, weight)).values()
    assert "llvm.prefetch" in schedule_kernel(kernel, PAIRS).script()


@pytest.mark.parametrize(("rows", "target", "caches"), [
    (4, PAIRS, "3, 1"), (8, PAIRS, "3, 1"), (4, ZEN4, None), (8, ZEN4, "1, 1"),
])  # fmt: skip
def test_where_a_prefetcher_follows_less_is_asked_for(rows, target, caches):
    (kernel,) = kernels(lowered(narrow(1, rows, 1024), narrow(2, 1024, 2304))).values()
    done = schedule_kernel(kernel, target)
    assert rule_of(done) == "pairs"
    asked = set(re.findall(r"llvm\.prefetch.*, 0, (\d, \d)\)", done.script()))
    assert asked == ({caches} if caches else set())


def test_cores_share_the_blocks():
    x, weight = narrow(1, 8, 1024), narrow(2, 1024, 2304)
    check(x, weight, target=TWO_CORES_WITH_PAIRS)
    (kernel,) = kernels(lowered(x, weight)).values()
    assert "T.parallel" in schedule_kernel(kernel, TWO_CORES_WITH_PAIRS).script()


@pytest.mark.parametrize(("x", "weight", "target"), [
    (narrow(1, 3, 64), narrow(2, 64, 48), PAIRS),  # as fast as the memory
    (narrow(1, 8, 33), narrow(2, 33, 48), PAIRS),  # an odd number of steps
    (narrow(1, 8, 64), narrow(2, 64, 48), AVX512),  # no such instruction
    (random(1, 8, 64), narrow(2, 64, 48).astype(np.float32), PAIRS),  # not to be rounded
])  # fmt: skip
def test_all_others_are_computed_as_before(x, weight, target):
    check(x, weight, rules={"gemm"}, target=target)


def test_no_sum_leaves_its_register():
    """Eight rows of three vectors of sums, and what they are made of, are 32 registers."""
    (kernel,) = kernels(lowered(narrow(1, 8, 768), narrow(2, 768, 480))).values()
    mod = tvm.IRModule({"main": schedule_kernel(kernel, PAIRS).with_attr("global_symbol", "main")})
    bodies = innermost(build(mod, PAIRS).inspect_source("asm"))
    (products,) = [body for body in bodies if "vdpbf16ps" in body]
    assert products.count("vdpbf16ps") == 8 * 3
    assert "%rsp" not in products


@settings(max_examples=draws(8))
@given(
    rows=st.integers(4, 40), steps=st.integers(1, 60), columns=st.integers(1, 150),
)  # fmt: skip
def test_any_sizes(rows, steps, columns):
    check(narrow(1, rows, 2 * steps), narrow(2, 2 * steps, columns))
