"""Kernels of bfloat16 are computed in float32, whatever functions are in them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, te, tirx
from tvm.relax import op
from tvm.script import tirx as T

from tests.draws import draws
from tests.kernels.helpers import AVX2, AVX512, kernels, random, run, runs_here, scheduled
from tests.kernels.tir.test_vector_math import REFERENCES, compiled
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.widening import widen
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

NARROW = ml_dtypes.bfloat16
TARGETS = {"v4": AVX512, "v3": AVX2}


def rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(NARROW)


def lowered(x: np.ndarray, body, target: tvm.target.Target) -> tvm.IRModule:
    """A model of one input like ``x``, its kernels scheduled."""
    bb = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with bb.function("main", [var]):
        with bb.dataflow():
            out = bb.emit_output(bb.normalize(body(var)))
        bb.emit_func_output(out)
    return scheduled(LowerToTasks([target])(bb.get()), target)


def nearest(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal but for the last bit, which an error of float32 may turn."""
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=2.0**-8 * 1.01)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", REFERENCES)
def test_functions(name, target):
    """TVM alone does not look at what is bound: exp was infinite, erf 2."""
    if not runs_here(TARGETS[target]):
        pytest.skip("this processor lacks the instructions")
    x = rounded(np.abs(random(1, 200)) + 0.1)
    data = te.placeholder((200,), "bfloat16", name="data")
    out = te.compute((200,), lambda i: getattr(tirx, name)(data[i]), name="out")
    func = schedule_kernel(te.create_prim_func([data, out]), TARGETS[target])
    result = tvm.runtime.tensor(np.zeros(200, NARROW))
    compiled(func, TARGETS[target])(tvm.runtime.tensor(x), result)
    nearest(result.numpy(), REFERENCES[name](x.astype(np.float64)))


ACTIVATIONS = {"gelu": op.nn.gelu, "gelu_tanh": op.nn.gelu_tanh, "silu": op.nn.silu,
               "tanh": op.tanh, "exp": op.exp, "sigmoid": op.sigmoid}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_product_that_is_rounded_behind_its_activation(name):
    """Could not be compiled: what is rounded was written down three times, its Lets too."""
    x, weight, bias = random(1, 8, 64), random(2, 64, 96) / 8, random(3, 96)

    def layer(v):
        total = op.add(op.matmul(v, relax.const(weight)), relax.const(bias))
        return ACTIVATIONS[name](total)

    exact = run(lowered(x, layer, AVX2), AVX2, x)
    mod = lowered(x, lambda v: op.astype(layer(v), "bfloat16"), AVX2)
    assert len(kernels(mod)) == 1
    np.testing.assert_array_equal(run(mod, AVX2, x), rounded(exact))


@pytest.mark.parametrize("name", [*ACTIVATIONS, "softmax"])
def test_models_of_bfloat16(name):
    x, weight = rounded(random(1, 8, 64)), rounded(random(2, 64, 96) / 8)

    def layer(v):
        product = op.matmul(v, relax.const(tvm.runtime.tensor(weight)))
        return op.nn.softmax(product) if name == "softmax" else ACTIVATIONS[name](product)

    actual = run(lowered(x, layer, AVX2), AVX2, x).astype(np.float32)
    product = rounded(x.astype(np.float32) @ weight.astype(np.float32)).astype(np.float32)
    functions = ACTIVATIONS | {"softmax": op.nn.softmax}
    expected = run(lowered(product, functions[name], AVX2), AVX2, product)
    np.testing.assert_allclose(actual, expected, rtol=0.03, atol=0.01 * np.abs(expected).max())


@settings(max_examples=draws(10))
@given(st.integers(0, 2**32 - 1))
def test_every_number_is_rounded_to_the_nearest(seed):
    bits = np.random.default_rng(seed).integers(0, 2**32, 512, dtype=np.uint32)
    x = bits.view(np.float32)
    x = np.where(np.isnan(x), np.float32(np.nan), x)
    mod = lowered(x, lambda v: op.astype(op.negative(op.abs(v)), "bfloat16"), AVX2)
    with np.errstate(over="ignore"):
        expected = rounded(-np.abs(x)).astype(np.float32)
    np.testing.assert_array_equal(run(mod, AVX2, x).astype(np.float32), expected)


def test_what_is_only_moved_is_not_computed_with():
    mod = lowered(rounded(random(1, 8, 64)), lambda v: op.permute_dims(v), AVX2)
    (kernel,) = kernels(mod).values()
    assert "float32" not in kernel.script()


def test_kernels_without_bfloat16_are_the_same():
    data = te.placeholder((8,), "float32", name="data")
    func = te.create_prim_func([data, te.compute((8,), lambda i: tirx.exp(data[i]), name="out")])
    assert widen(func).same_as(func)


def test_the_kernel_before_and_after():
    @T.prim_func(s_tir=True)
    def before(x: T.Buffer((8,), "bfloat16"), out: T.Buffer((8,), "bfloat16")):
        made = T.sblock_alloc_buffer((8,), "bfloat16")
        for i in range(8):
            with T.sblock("made"):
                v = T.axis.spatial(8, i)
                made[v] = x[v] + T.bfloat16(1)
        for i in range(8):
            with T.sblock("out"):
                v = T.axis.spatial(8, i)
                out[v] = T.exp(made[v])

    @T.prim_func(s_tir=True)
    def after(x: T.Buffer((8,), "bfloat16"), out: T.Buffer((8,), "bfloat16")):
        made = T.sblock_alloc_buffer((8,), "float32")
        for i in range(8):
            with T.sblock("made"):
                v = T.axis.spatial(8, i)
                made[v] = T.reinterpret(
                    "float32",
                    T.shift_left(T.Cast("uint32", T.reinterpret("uint16", x[v])), T.uint32(16)),
                ) + T.float32(1)
        for i in range(8):
            with T.sblock("out"):
                v = T.axis.spatial(8, i)
                bits = T.uint32()
                out[v] = T.reinterpret(
                    "bfloat16",
                    T.Let(
                        T.Cast(
                            "uint16",
                            T.shift_right(
                                bits
                                + (
                                    T.bitwise_and(T.shift_right(bits, T.uint32(16)), T.uint32(1))
                                    + T.uint32(0x7FFF)
                                ),
                                T.uint32(16),
                            ),
                        ),
                        where={bits: T.reinterpret("uint32", T.exp(made[v]))},
                    ),
                )

    done = widen(before.with_attr("global_symbol", "after"))
    tvm.ir.assert_structural_equal(done, after)


def test_variables_hold_float32():
    """The largest number's place: what is largest so far is a variable of the reduction."""
    x = rounded(random(1, 6, 50))
    mod = lowered(x, lambda v: op.argmax(v, axis=-1), AVX2)
    np.testing.assert_array_equal(run(mod, AVX2, x), x.astype(np.float32).argmax(1))
    (kernel,) = kernels(mod).values()
    assert rule_of(kernel) != "default"


def normalized(x, axes):
    off = x - x.mean(axes, keepdims=True)
    return off / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


OPERATORS = {
    "layer norm": (
        lambda v, one, none: op.nn.layer_norm(v, one, none, axes=[-1]),
        lambda x: normalized(x, (-1,)),
    ),
    "instance norm": (
        lambda v, one, none: op.nn.instance_norm(v, one, none, channel_axis=1, axes=[2]),
        lambda x: normalized(x, (2,)),
    ),
    "power": (
        lambda v, one, none: op.power(op.abs(v), op.multiply(one, one)),
        lambda x: np.abs(x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_tvm_has_for_wider_types_alone(name):
    x = rounded(random(1, 2, 8, 8))
    ours, theirs = OPERATORS[name]
    one, none = (relax.const(tvm.runtime.tensor(np.full(8, v, NARROW))) for v in (1, 0))
    mod = lowered(x, lambda v: ours(v, one, none), AVX2)
    nearest(run(mod, AVX2, x), theirs(x.astype(np.float64)))


def test_a_kernel_that_has_bfloat16_only_inside_has_a_rule_too():
    """What looked for it asked TVM's FFI for a name that this version has not; none fitted then."""
    x = random(5, 4, 33)
    mod = lowered(x, lambda v: op.astype(op.astype(v, "bfloat16"), "float32"), AVX2)
    assert [rule_of(f) for f in kernels(mod).values()] == ["generic"]
    nearest(run(mod, AVX2, x), x)  # no number in between is rounded
