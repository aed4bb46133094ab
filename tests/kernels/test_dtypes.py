"""Types other than float32: half precision and integers compile everywhere and are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, s_tir, tirx
from tvm.ir import GenericConst

from tests.kernels.helpers import AVX2, AVX512, SSE, kernels, run, runs_here, scheduled
from tvm_hetero.kernels.matmul.dense import narrow
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.block_roles import LEFT, find_role
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op
NUMPY = {"bfloat16": ml_dtypes.bfloat16}
# Largest error over the spread of the results (TVM's own convolutions sum in the result's type).
TOLERANCE = {"float64": 1e-14, "float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}
TARGETS = (AVX512, AVX2, SSE)


def values(seed: int, shape: Sequence[int], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.startswith(("int", "uint")):
        return rng.integers(0 if dtype.startswith("u") else -100, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(NUMPY.get(dtype, dtype))


def constant(value: np.ndarray) -> relax.Expr:
    return relax.const(tvm.runtime.tensor(value))


def model(inputs: Sequence[np.ndarray], body: Callable[..., relax.Expr]) -> tvm.IRModule:
    bb = relax.BlockBuilder()
    parameters = [
        relax.Var(f"x{i}", relax.TensorType(x.shape, str(x.dtype))) for i, x in enumerate(inputs)
    ]
    with bb.function("main", parameters):
        with bb.dataflow():
            out = bb.emit_output(bb.normalize(body(*parameters)))
        bb.emit_func_output(out)
    return bb.get()


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)


def assert_equal(actual: np.ndarray, expected: np.ndarray) -> None:
    if actual.dtype.kind in "iu":  # sums wrap around
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
    else:
        error = np.abs(wide(actual) - expected).max() / max(expected.std(), 1e-3)
        assert error < TOLERANCE[str(actual.dtype)]


def computed(inputs, body, targets=TARGETS):
    """The results on every target that runs here, and the names of the rules of the first."""
    lowered = LowerToTasks(targets)(model(inputs, body))
    results = [run(scheduled(lowered, t), t, *inputs) for t in targets if runs_here(t)]
    functions = [f for _, f in scheduled(lowered, targets[0]).functions_items()]
    return results, [rule_of(f) for f in functions if isinstance(f, tirx.PrimFunc)]


TYPES = [
    ("float16", None),
    ("float16", "float32"),
    ("bfloat16", None),
    ("bfloat16", "float32"),
    ("int8", None),
    ("int8", "int32"),
    ("uint8", "int32"),
    ("int32", None),
    ("float64", None),
]


@pytest.mark.parametrize(("dtype", "out"), TYPES)
@pytest.mark.parametrize("weights", ["constant", "variable"])
def test_products(dtype, out, weights):
    for rows, depth, columns, targets in [(1, 32, 64, (AVX512,)), (11, 21, 37, (AVX2, SSE))]:
        x, w = values(1, (rows, depth), dtype), values(2, (depth, columns), dtype)
        if weights == "constant":
            weight = constant(w)
            results, rules = computed(
                [x], lambda a, weight=weight: op.matmul(a, weight, out_dtype=out), targets
            )
        else:
            results, rules = computed([x, w], lambda a, b: op.matmul(a, b, out_dtype=out), targets)
        assert rules == ["gemm"]
        for result in results:
            assert str(result.dtype) == (out or dtype)
            assert_equal(result, wide(x) @ wide(w))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_dot_products(dtype):
    out = "int32" if dtype == "int8" else "float32"
    q, k = values(1, (2, 1, 32), dtype), values(2, (2, 9, 32), dtype)

    def body(a, b):
        return op.matmul(a, op.permute_dims(b, [0, 2, 1]), out_dtype=out)

    results, rules = computed([q, k], body)
    assert rules == ["dot"]
    for result in results:
        assert_equal(result, wide(q) @ wide(k).transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float16"])
def test_weights_that_are_only_cast_stay_as_narrow_as_they_were_stored(dtype):
    """The kernel reads one or two bytes a weight and multiplies in float32."""
    x, w = values(1, (3, 40), "float32"), values(2, (40, 70), dtype)

    def body(a):
        return op.matmul(a, op.astype(constant(w), "float32"))

    lowered = LowerToTasks(TARGETS)(model([x], body))
    (binding, *_) = lowered["main"].body.blocks[0].bindings
    (packed,) = [a for a in binding.value.args[1].fields if isinstance(a, GenericConst)]
    assert str(packed.value.dtype) == dtype
    for target in TARGETS:
        if runs_here(target):
            assert_equal(run(scheduled(lowered, target), target, x), wide(x) @ wide(w))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "copied"), [(1, False), (2, True), (4, True)])
def test_narrow_left_sides_of_several_rows_are_widened_once(rows, copied, dtype):
    """Not in the innermost loop: on AVX2 that took up to half as long again."""
    x, w = values(1, (rows, 40), dtype), values(2, (40, 70), dtype)
    results, rules = computed([x], lambda a: op.matmul(a, constant(w), out_dtype="float32"))
    assert rules == ["gemm"]
    for result in results:
        assert_equal(result, wide(x) @ wide(w))
    module = model([x], lambda a: op.matmul(a, constant(w), out_dtype="float32"))
    (kernel,) = kernels(LowerToTasks(TARGETS)(module)).values()
    assert (find_role(s_tir.Schedule(kernel), LEFT) is not None) == copied


def test_narrowing_loses_nothing():
    exact = values(1, (70, 70), "float32")
    assert narrow(exact) is exact
    assert narrow(exact.astype(np.float16).astype(np.float32)).dtype == np.float16
    assert narrow(exact.astype(ml_dtypes.bfloat16).astype(np.float32)).dtype == "bfloat16"
    assert narrow(np.array([[1.0, -128.0]], np.float32)).dtype == np.int8
    for special in (np.inf, np.nan, -0.0, 65536.0 + 1):
        kept = narrow(np.array([[special, 1.0]], np.float32)).astype(np.float32)
        np.testing.assert_array_equal(kept, np.array([[special, 1.0]], np.float32))
        assert np.signbit(kept[0, 0]) == np.signbit(np.float32(special))
    hidden = np.zeros((200, 200), np.float32)
    hidden[-1, -1] = 0.1  # no sample sees it
    assert narrow(hidden) is hidden


def test_dequantized_weights_are_computed_once():
    """Scales are multiplied when the model is compiled; the product is that of float32."""
    x, w = values(1, (2, 24), "float32"), values(2, (24, 40), "int8")
    scale, zero = values(3, (40,), "float32"), np.zeros(40, np.int8)

    def body(a):
        weight = op.dequantize(constant(w), constant(scale), constant(zero), axis=1)
        return op.matmul(a, weight)

    results, rules = computed([x], body)
    assert rules == ["gemm"]
    for result in results:
        assert_equal(result, wide(x) @ (wide(w) * wide(scale)))


@pytest.mark.parametrize(
    ("dtype", "out"), [("float16", None), ("bfloat16", None), ("int8", "int32")]
)
def test_convolutions_fall_back(dtype, out):
    x, w = values(1, (1, 3, 6, 6), dtype), values(2, (4, 3, 1, 1), dtype)
    results, _ = computed([x], lambda a: op.nn.conv2d(a, constant(w), out_dtype=out))
    expected = np.einsum("nchw,oc->nohw", wide(x), wide(w)[:, :, 0, 0])
    for result in results:
        assert_equal(result, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_embeddings(dtype):
    table, tokens = values(1, (50, 24), dtype), values(2, (2, 7), "int32") % 50

    def body(t):
        return op.astype(op.take(constant(table), op.reshape(t, (-1,)), axis=0), "float32")

    results, _ = computed([tokens], body)
    for result in results:
        np.testing.assert_array_equal(result, table[tokens.reshape(-1)].astype(np.float32))
