"""Products of bfloat16 with constants of bfloat16, by tile registers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

from tests.kernels.helpers import AMX, kernels, random
from tests.kernels.test_product_pairs import check, lowered, narrow
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.compilation import build

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
    x, weight, bias = narrow(1, 8, 64), narrow(2, 64, 96), random(3, 96)

    def behind(bb, product):
        return bb.emit(op.nn.relu(bb.emit(op.add(product, relax.const(bias)))))

    check_tiles(x, weight, behind=behind, after=lambda p: np.maximum(p + bias, 0))


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


@settings(max_examples=5)
@given(rows=st.integers(1, 8), more=st.integers(0, 1), steps=st.integers(1, 20),
       columns=st.integers(1, 150))  # fmt: skip
def test_any_sizes(rows, more, steps, columns):
    count = 16 * rows if more else 4 + rows
    check_tiles(narrow(1, count, 32 * steps), narrow(2, 32 * steps, columns))
