"""Products of bfloat16 with constants of bfloat16, by tile registers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm.ir import GenericConst

from tests.draws import draws
from tests.kernels.helpers import AMX, kernels, random, runs_here
from tests.kernels.matmul.test_product_pairs import check, check_what_follows, lowered, narrow
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.array_values import array_of
from tvm_hetero.kernels.tir.batched import batch_kernel

TWO_CORES = tvm.target.Target({**AMX.export(), "num-cores": 2})


def check_tiles(x, weight, **how):
    check(x, weight, rules={"amx"}, target=how.pop("target", AMX), **how)


@pytest.mark.parametrize(("rows", "steps", "columns"), [
    (6, 32, 70), (5, 64, 33), (7, 96, 16), (8, 64, 48), (16, 288, 64), (64, 32, 100),
    (13, 544, 200), (96, 64, 48), (24, 64, 20), (160, 96, 31),
])  # fmt: skip
def test_products(rows, steps, columns):
    check_tiles(narrow(1, rows, steps), narrow(2, steps, columns))


def test_what_follows_is_done_with_the_sums():
    check_what_follows(rules={"amx"}, target=AMX)


def test_sums_are_of_float32_whatever_becomes_of_them():
    check_tiles(narrow(1, 8, 512), narrow(2, 512, 48), out="bfloat16", tolerance=2.0**-8)


def test_constants_that_come_from_far_are_asked_for():
    x, weight = narrow(1, 8, 1024), narrow(2, 1024, 2304)
    check_tiles(x, weight)
    (kernel,) = kernels(lowered(x, weight)).values()
    assert "llvm.prefetch" in schedule_kernel(kernel, AMX).script()


def test_cores_share_the_blocks():
    x, weight = narrow(1, 8, 1024), narrow(2, 1024, 2304)
    check_tiles(x, weight, target=TWO_CORES)
    (kernel,) = kernels(lowered(x, weight)).values()
    assert "T.parallel" in schedule_kernel(kernel, TWO_CORES).script()


def test_a_token_of_several_sequences():
    """Rows in tensors of their own meet the constants together."""
    weight = narrow(2, 64, 96)
    module = lowered(narrow(1, 1, 64), weight)
    (one,) = kernels(module).values()
    together = schedule_kernel(batch_kernel(one, 8, [1]), AMX)
    assert rule_of(together) == "amx"
    if runs_here(AMX):
        mod = tvm.IRModule({"main": together.with_attr("global_symbol", "main")})
        call = module["main"].body.blocks[0].bindings[0].value
        (packed,) = (array_of(a.value) for a in call.args[1].fields if isinstance(a, GenericConst))
        rows = narrow(3, 8, 64)
        outs = [tvm.runtime.tensor(np.zeros((1, 96), np.float32)) for _ in rows]
        given = [tvm.runtime.tensor(row[None]) for row in rows]
        tvm.runtime.Executable(build(mod, AMX)).jit()["main"](
            *given, tvm.runtime.tensor(packed), *outs
        )
        expected = rows.astype(np.float64) @ weight.astype(np.float64)
        got = np.concatenate([out.numpy() for out in outs])
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("x", "weight", "rule"), [
    (narrow(1, 1, 64), narrow(2, 64, 48), "gemm"),  # as fast as the memory
    (narrow(1, 4, 64), narrow(2, 64, 48), "pairs"),  # as fast as constants are put in turn
    (narrow(1, 8, 34), narrow(2, 34, 48), "pairs"),  # no whole register
    (random(1, 8, 64), narrow(2, 64, 48).astype(np.float32), "gemm"),  # not to be rounded
])  # fmt: skip
def test_all_others_are_computed_as_before(x, weight, rule):
    check(x, weight, rules={rule}, target=AMX)


def test_registers_are_given_back():
    """Once for each tile, after its last product: else each change of threads would save them."""
    (kernel,) = kernels(lowered(narrow(1, 64, 768), narrow(2, 768, 480))).values()
    mod = tvm.IRModule({"main": schedule_kernel(kernel, AMX).with_attr("global_symbol", "main")})
    text = build(mod, AMX).inspect_source("asm")
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert text.index("ldtilecfg") < text.index("tdpbf16ps") < text.index("tilerelease")
    # A register of the left side meets all three of a block of 48 columns.
    assert text.count("tileloadd") <= 1.5 * text.count("tdpbf16ps")


@settings(max_examples=draws(5))
@given(rows=st.integers(1, 8), more=st.integers(0, 1), steps=st.integers(1, 20),
       columns=st.integers(1, 150))  # fmt: skip
def test_any_sizes(rows, more, steps, columns):
    count = 16 * rows if more else 4 + rows
    check_tiles(narrow(1, count, 32 * steps), narrow(2, 32 * steps, columns))
