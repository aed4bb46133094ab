"""Products with weights of few bits and a scale for each group."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.kernels.helpers import (
    AMX,
    AVX2,
    AVX512,
    SSE,
    TWO_CORES,
    kernels,
    random,
    run,
    runs_here,
    scheduled,
)
from tvm_hetero.errors import ModelError
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.amx import SIGNED
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.quantized.product import groupwise_dense, quantize
from tvm_hetero.kernels.quantized.tile import tile_of
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def model(rows, weight):
    """A product of so many rows with a bias, gelu and a residual behind it."""
    depth, columns = weight.shape
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, depth), "float32"))
    rest = relax.Var("rest", relax.TensorType((rows, columns), "float32"))
    with bb.function("main", [x, rest]):
        with bb.dataflow():
            product = bb.emit(groupwise_dense(bb, x, weight))
            biased = bb.emit(relax.op.add(product, relax.const(random(4, columns))))
            out = bb.emit_output(relax.op.add(bb.emit(relax.op.nn.relu(biased)), rest))
        bb.emit_func_output(out)
    return bb.get()


def product_alone(rows, weight):
    """A product of so many rows."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, weight.shape[0]), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(groupwise_dense(bb, x, weight))
        bb.emit_func_output(out)
    return bb.get()


def bound(x, dense):
    """By how much sums may be off: one unit in the last place for every summand, and half a step of
    the left side's whole numbers, of which the largest of each 8 values has no fewer than 15 bits.
    """
    steps = np.abs(x).max(axis=1, keepdims=True) * np.ones_like(x) / 32767
    return x.shape[1] * 2.0**-24 * 4 * (np.abs(x) @ np.abs(dense) + 20) + steps @ np.abs(dense) / 2


def check(rows, weight, targets=(AVX512, AVX2)):
    dense = weight.dense().astype(np.float64)
    x, rest = random(0, rows, weight.shape[0]), random(2, rows, weight.shape[1])
    expected = np.maximum(x @ dense + random(4, weight.shape[1]), 0) + rest
    lowered = LowerToTasks(targets)(model(rows, weight))
    assert len(kernels(lowered)) == 1  # bias, activation and residual are inside
    for target in filter(runs_here, targets):
        mod = scheduled(lowered, target)
        assert [rule_of(f) for f in kernels(mod).values()] == ["groupwise"]
        error = np.abs(run(mod, target, x, rest) - expected)
        assert np.all(error <= bound(x, dense))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_equals_float64(bits, rows):
    check(rows, quantize(random(1, 96, 130), bits))


@pytest.mark.parametrize("columns", [4, 17])
def test_few_columns(columns):
    """Parts of a block that are nothing but padding."""
    check(16, quantize(random(1, 32, columns), 8), [AVX512, AVX2, SSE])


@settings(max_examples=draws(5))
@given(
    rows=st.integers(1, 18),
    depth=st.integers(1, 12).map(lambda n: 8 * n),
    columns=st.integers(1, 150),
    bits=st.sampled_from([8, 4]),
)
def test_any_product(rows, depth, columns, bits):
    check(rows, quantize(random(1, depth, columns), bits), [AVX512])


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 3])
def test_several_elements_read_the_codes_once(bits, rows):
    weight = quantize(random(1, 64, 130), bits)
    (kernel,) = kernels(LowerToTasks([AVX2])(model(rows, weight))).values()
    several = schedule_kernel(batch_kernel(kernel, 3, [1, 2, 3]), AVX2)
    assert rule_of(several) == "groupwise"
    assert several.script().count('T.sblock("product")') == 1  # one nest for all
    inputs = [random(i, rows, 64) for i in range(3)]
    rests = [random(9 + i, rows, 130) for i in range(3)]
    shared = [weight.codes, weight.scales, random(4, 130)]
    outs = [np.zeros((rows, 130), np.float32) for _ in range(3)]
    tensors = [tvm.runtime.tensor(a) for a in [*inputs, *shared, *rests, *outs]]
    mod = tvm.IRModule({"main": several.with_attr("global_symbol", "main")})
    tvm.runtime.Executable(build(mod, AVX2)).jit()["main"](*tensors)
    dense = weight.dense().astype(np.float64)
    for x, rest, out in zip(inputs, rests, tensors[-3:], strict=True):
        expected = np.maximum(x @ dense + shared[-1], 0) + rest
        assert np.all(np.abs(out.numpy() - expected) <= bound(x, dense))


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE])
@pytest.mark.parametrize(("depth", "whole"), [(64, True), (40, False), (0, False)])
def test_in_whole_numbers_where_a_group_is_whole_vectors(target, depth, whole):
    """40 steps have groups of 8: too few for two vectors of more than 4 lanes."""
    whole = whole or (depth > 0 and target is SSE)
    weight = quantize(random(1, depth or 64, 64), 8)
    (kernel,) = kernels(LowerToTasks([target])(model(1, weight))).values()
    if not depth:
        target = tvm.target.Target({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})
    script = schedule_kernel(kernel, target).script()
    assert ("pmadd" in script or 'T.sblock("numbers")' in script) == whole


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_none(bits, wrong):
    """Rows without it are what they were."""
    mod = scheduled(LowerToTasks([AVX2])(product_alone(3, quantize(random(1, 96, 40), bits))), AVX2)
    x = random(0, 3, 96)
    right = run(mod, AVX2, x)
    x[1, 50] = wrong
    got = run(mod, AVX2, x)
    np.testing.assert_array_equal(got[[0, 2]], right[[0, 2]])
    assert not np.isfinite(got[1]).any()


def test_a_large_value_costs_nothing_outside_its_group():
    """Nothing but what float32 loses of all other values beside it."""
    weight = quantize(random(1, 96, 40), 8)
    mod = scheduled(LowerToTasks([AVX2])(product_alone(1, weight)), AVX2)
    dense, others = weight.dense().astype(np.float64), np.delete(np.arange(96), slice(32, 64))
    large = random(0, 1, 96)
    large[0, 50] = 1e4
    alone = large.copy()
    alone[0, others] = 0
    got = run(mod, AVX2, large) - run(mod, AVX2, alone)
    rest = large[:, others]
    lost = np.abs(large @ dense).max() * 2.0**-22
    assert lost < 0.1 * 1e4 / 32767  # half a step, if it were that of the whole row
    assert np.all(np.abs(got - rest @ dense[others]) <= lost + bound(rest, dense[others]))


@pytest.mark.parametrize("value", [0.0, 1e-38, 1e-20, 1e30])
def test_very_small_and_very_large_values(value):
    weight = quantize(random(1, 64, 40), 8)
    mod = scheduled(LowerToTasks([AVX2])(product_alone(1, weight)), AVX2)
    x = random(0, 1, 64) * np.float32(value)
    dense = weight.dense().astype(np.float64)
    error = np.abs(run(mod, AVX2, x) - x @ dense)
    assert np.all(error <= np.maximum(1e-4 * value, 1e-30) * np.abs(dense).sum())


def test_cores_share_the_columns():
    weight = quantize(random(1, 512, 1024), 8)
    check(3, weight, [TWO_CORES])
    (kernel,) = kernels(LowerToTasks([TWO_CORES])(model(3, weight))).values()
    assert "T.parallel" in schedule_kernel(kernel, TWO_CORES).script()


@pytest.mark.parametrize(("bits", "most"), [(8, 127), (4, 8)])
def test_weights_are_off_by_half_a_scale(bits, most):
    values = random(1, 128, 70)
    largest = np.abs(values.reshape(-1, 32, 70)).max(axis=1).repeat(32, axis=0)
    error = np.abs(quantize(values, bits).dense() - values)
    # A scale is a bfloat16; with 4 bits the other sign's largest have no code of their own.
    allowed = largest / most * (0.5 if bits == 8 else 1.0) * (1 + 2**-7)
    assert np.all(error <= allowed)
    assert np.mean(error <= largest / most * 0.5 * (1 + 2**-7)) > 0.97


def test_exact_values_stay_exact():
    codes = np.random.default_rng(0).integers(-7, 8, (64, 40)).astype(np.float32)
    codes[::32] = -8  # the largest of every group
    for values in (codes, -codes):
        scaled = values * np.float32(0.25)
        np.testing.assert_array_equal(quantize(scaled, 4).dense(), scaled)
    assert not quantize(np.zeros((32, 5), np.float32), 4).dense().any()


def test_bytes():
    values = random(1, 1024, 256)
    assert quantize(values, 8).nbytes == 1024 * 256 * (1 + 2 / 32)
    assert quantize(values, 4, group=64).nbytes == 1024 * 256 * (0.5 + 2 / 64)
    assert quantize(values[:48], 8).group == 16  # what divides 48 rows


@pytest.mark.parametrize(
    ("values", "bits", "match"),
    [
        (random(1, 64, 8), 3, "8 or 4 bits"),
        (random(1, 64), 8, "expected a matrix"),
        (random(1, 50, 8), 4, "multiple of 8"),
        (np.full((32, 8), np.nan, np.float32), 8, "no numbers"),
    ],
)
def test_no_such_weights(values, bits, match):
    with pytest.raises(ModelError, match=match):
        quantize(values, bits)


def test_sides_must_fit():
    x = relax.Var("x", relax.TensorType((2, 32), "float32"))
    with pytest.raises(ModelError, match=r"\[2, 32\] and \[64, 8\]"):
        groupwise_dense(relax.BlockBuilder(), x, quantize(random(1, 64, 8), 8))


@given(
    rows=st.integers(1, 40),
    block=st.sampled_from([16, 32, 64, 128]),
    unit=st.sampled_from([vector_unit(t) for t in (AVX512, AVX2, SSE)]),
)
def test_a_tile_divides_the_product_and_its_sums_fit_the_registers(rows, block, unit):
    tile = tile_of(block, rows, unit)
    assert rows % tile.rows == 0 and block % (tile.vectors * unit.lanes) == 0
    assert tile.rows * tile.vectors <= 0.75 * unit.registers


@pytest.mark.parametrize(("rows", "depth", "columns", "bits", "group"), [
    (5, 64, 128, 8, 32), (8, 96, 200, 8, 32), (8, 96, 200, 4, 32), (16, 128, 40, 4, 64),
    (16, 128, 40, 8, 64), (7, 32, 17, 4, 32), (32, 64, 256, 8, 32), (48, 160, 130, 4, 32),
])  # fmt: skip
def test_by_tile_registers(rows, depth, columns, bits, group):
    """The same sums of whole numbers as by vectors, so nearly the same results."""
    weight = quantize(random(1, depth, columns), bits, group)
    (kernel,) = kernels(LowerToTasks([AMX])(model(rows, weight))).values()
    assert SIGNED in schedule_kernel(kernel, AMX).script()
    check(rows, weight, [AMX])
    if runs_here(AMX):
        mod = LowerToTasks([AMX, AVX512])(model(rows, weight))
        x, rest = random(0, rows, depth), random(2, rows, columns)
        one, other = (run(scheduled(mod, target), target, x, rest) for target in (AMX, AVX512))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(other).max())


@pytest.mark.parametrize(("rows", "group"), [(4, 32), (8, 128)])
def test_what_tile_registers_are_not_for(rows, group):
    weight = quantize(random(1, 256, 64), 8, group)
    (kernel,) = kernels(LowerToTasks([AMX])(model(rows, weight))).values()
    done = schedule_kernel(kernel, AMX)
    assert rule_of(done) == "groupwise" and SIGNED not in done.script()


def test_numbers_that_are_none_stay_so_in_tile_registers():
    weight = quantize(random(1, 64, 128), 4)
    x = random(0, 8, 64)
    x[3, 5], x[5, 40] = np.nan, np.inf
    if runs_here(AMX):
        got = run(scheduled(LowerToTasks([AMX])(product_alone(8, weight)), AMX), AMX, x)
        assert not np.isfinite(got[[3, 5]]).any()
        assert np.isfinite(got[[0, 1, 2, 4, 6, 7]]).all()
