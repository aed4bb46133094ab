"""exp, log, tanh, erf and the sigmoid as arithmetic, against float64 over all floats."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir, te, tirx

from tests.kernels.helpers import AVX2, AVX512, check, kernels, runs_here
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.tir.vector_math import FUNCTIONS, expand

X86_64_V2 = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1})
TARGETS = {"v4": AVX512, "v3": AVX2, "v2": X86_64_V2}

REFERENCES = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
# Largest error in units in the last place; without fused multiply-adds tanh has 6.5.
ULPS = {"exp": 1.5, "log": 1.5, "tanh": 7, "erf": 1.5, "sigmoid": 2.5}
SMALLEST_NORMAL = np.finfo(np.float32).tiny

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, -1e-40, SMALLEST_NORMAL,
     np.finfo(np.float32).max, np.finfo(np.float32).min, 88.72283, 88.7229, -86.6, -87.3, -104.1,
     1.0, -1.0, 0.9277343, 0.9277344, -0.9277344, 4e-4, 7.905311, 0.70710677, 1.4142135],
    dtype=np.float32,
)  # fmt: skip


@cache
def values() -> np.ndarray:
    """Special values, all magnitudes, and more of those where the functions bend."""
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, 6000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [rng.uniform(-s, s, 4000).astype(np.float32) for s in (1.5, 12.0, 105.0)]
    return np.concatenate([SPECIAL, anything, *near])[: 16 * 1100]


def one_call(name: str, size: int) -> tirx.PrimFunc:
    data = te.placeholder((size,), "float32", name="data")
    out = te.compute((size,), lambda i: getattr(tirx, name)(data[i]), name="out")
    return te.create_prim_func([data, out])


def compiled(func: tirx.PrimFunc, target: tvm.target.Target):
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    return tvm.runtime.Executable(build(mod, target)).jit()["main"]


def computed(name: str, target: tvm.target.Target) -> np.ndarray:
    x = values()
    out = tvm.runtime.tensor(np.empty_like(x))
    compiled(schedule_kernel(one_call(name, len(x)), target), target)(tvm.runtime.tensor(x), out)
    return out.numpy()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", REFERENCES)
def test_every_float(name, target):
    if not runs_here(TARGETS[target]):
        pytest.skip("this processor lacks the instructions")
    actual = computed(name, TARGETS[target])
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](values().astype(np.float64))
        rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(rounded))
    finite = np.isfinite(rounded)
    rest = ~finite & ~np.isnan(rounded)
    np.testing.assert_array_equal(actual[rest], rounded[rest])
    error = np.abs(actual[finite].astype(np.float64) - exact[finite])
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), SMALLEST_NORMAL)).astype(np.float64)
    if name in ("exp", "sigmoid"):  # below 2 ** -125 it may be zero
        error = np.where(rounded[finite] < 2 * SMALLEST_NORMAL, 0, error)
        assert (actual[finite] >= 0).all()
    assert (error / unit).max() <= ULPS[name]


@pytest.mark.parametrize("name", REFERENCES)
def test_no_call_is_left(name):
    assert f"tirx.{name}" in FUNCTIONS
    text = expand(one_call(name, 64)).script()
    assert f"T.{name}(" not in text


def test_vectors():
    """A vectorised loop stays one: what the packed kernels' epilogues need."""
    func = one_call("erf", 64)
    sch = s_tir.Schedule(tvm.IRModule({"main": func}))
    _, lanes = sch.split(sch.get_loops(sch.get_sblock("out"))[0], [None, 8])
    sch.vectorize(lanes)
    lib = tvm.tirx.build(
        tvm.IRModule({"main": expand(sch.mod["main"]).with_attr("global_symbol", "main")}), AVX2
    )
    text = lib.inspect_source("ll")
    assert "fmul <8 x float>" in text or "<8 x float> @llvm.fmuladd" in text
    assert "erff" not in text


def test_a_function_without_calls_is_the_same():
    func = one_call("sqrt", 64)
    assert expand(func).same_as(func)


def test_half_precision_goes_through_single():
    data = te.placeholder((8,), "float16", name="data")
    func = te.create_prim_func([data, te.compute((8,), lambda i: tirx.exp(data[i]), name="out")])
    x = np.linspace(-3, 3, 8).astype(np.float16)
    out = tvm.runtime.tensor(np.empty_like(x))
    compiled(schedule_kernel(func, AVX2), AVX2)(tvm.runtime.tensor(x), out)
    np.testing.assert_allclose(out.numpy(), np.exp(x.astype(np.float32)), rtol=1e-3)


def test_functions_of_functions():
    """TVM writes out what is bound by Let: too deep, and the outer ones stay calls."""
    data = te.placeholder((40,), "float32", name="data")
    functions = (tirx.erf, tirx.sigmoid, tirx.tanh, tirx.exp, tirx.log)

    def nested(i):
        value = data[i]
        for function in functions:
            value = function(value)
        return value

    func = te.create_prim_func([data, te.compute((40,), nested, name="out")])
    text = schedule_kernel(func, AVX2).script()
    assert "T.log(" in text and "T.erf(" not in text


def test_operators_with_functions_are_not_nested_so_deep():
    """Each is written out, in several kernels (`passes.limit_fusion`)."""

    def body(x):
        y = relax.op.nn.gelu(relax.op.nn.silu(x))
        return relax.op.log(relax.op.exp(relax.op.tanh(relax.op.sigmoid(relax.op.erf(y)))))

    found = kernels(check([(3, 40)], body, targets=[AVX2])).values()
    assert len(found) > 1
    assert not any(re.search(r"T\.(log|erf)\(", schedule_kernel(f, AVX2).script()) for f in found)


def test_a_function_between_two_roundings_compiles() -> None:
    """As quantised networks have it; TVM's vectorizer refused its own form of rounding there."""

    def rounded(value: tirx.PrimExpr) -> tirx.PrimExpr:
        return tirx.nearbyint(value / tirx.const(0.5, "float32")) * tirx.const(0.5, "float32")

    values = np.linspace(-4, 4, 64, dtype=np.float32)
    x = te.placeholder(values.shape, "float32", "x")
    y = te.compute(x.shape, lambda i: rounded(tirx.erf(rounded(x[i]))), name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    schedule.vectorize(schedule.get_loops(schedule.get_sblock("y"))[0])
    kernel = expand(schedule.mod["main"]).with_attr("global_symbol", "main")
    library = build(tvm.IRModule({"main": kernel}), X86_64_V2)
    found = tvm.runtime.empty(values.shape, "float32")
    library["main"](tvm.runtime.tensor(values), found)
    ends = np.array([math.erf(each) for each in np.rint(values / 0.5) * 0.5])
    np.testing.assert_array_equal(found.numpy(), np.rint(ends / 0.5) * 0.5)
