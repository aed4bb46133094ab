"""Kernels that look at their indices before they use them, whichever rule schedules them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, te, tirx, topi
from tvm.script import tirx as T

from tests.kernels.helpers import AVX2, CUDA, SSE, TWO_CORES, kernels, scheduled
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.attention.cache_updates import update_rows
from tvm_hetero.kernels.cpu.compilation import PIPELINE, build
from tvm_hetero.kernels.indexing.checks import CHECKED, ERROR
from tvm_hetero.kernels.indexing.indirect_accesses import indirect_accesses
from tvm_hetero.kernels.indexing.masks import add_masks
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

Types = Sequence[tuple[Sequence[int], str]]
FLOAT, INT = "float32", "int64"
TABLE = np.arange(20, dtype=FLOAT).reshape(5, 4)


def kernel(types: Types, compute: Callable[..., te.Tensor]) -> tirx.PrimFunc:
    """One kernel, as LowerToTasks leaves it."""
    builder = relax.BlockBuilder()
    args = [relax.Var(f"x{i}", relax.TensorType(s, d)) for i, (s, d) in enumerate(types)]
    with builder.function("main", args):
        with builder.dataflow():
            out = builder.emit_output(builder.call_te(compute, *args, primfunc_name_hint="k"))
        builder.emit_func_output(out)
    return kernels(LowerToTasks([AVX2])(builder.get()))["k"]


def call(func: tirx.PrimFunc, *arrays: Any, target: tvm.target.Target = AVX2) -> None:
    """Run a kernel, as it is or scheduled, on arrays; results are written into the last ones."""
    module = tvm.IRModule({"k": func.with_attr("global_symbol", "k")})
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.runtime.Executable(build(module, target)).jit()["k"](*tensors)
    for tensor, array in zip(tensors, arrays, strict=True):
        array[...] = tensor.numpy()


def rows(table: te.Tensor, index: te.Tensor) -> te.Tensor:
    return topi.take(table, index, axis=0, mode="fast")


def test_the_kernel_of_a_gather_before_and_after() -> None:
    before = kernel([((5, 4), FLOAT), ((3,), INT)], rows)

    @T.prim_func(private=True, s_tir=True)
    def after(
        table: T.Buffer((T.int64(5), T.int64(4)), "float32"),
        index: T.Buffer((T.int64(3),), "int64"),
        out: T.Buffer((T.int64(3), T.int64(4)), "float32"),
    ) -> None:
        with T.sblock("root"):
            with T.sblock("check_indices"):
                T.reads()
                T.writes()
                bad = T.sblock_alloc_buffer((T.int64(1),), "int32", scope="local")
                bad[T.int64(0)] = 0
                for i in range(T.int64(3)):
                    bad[T.int64(0)] = bad[T.int64(0)] | T.Cast(
                        "int32", index[i] < T.int64(0) or index[i] >= T.int64(5)
                    )
                if bad[T.int64(0)] != 0:
                    for i in range(T.int64(3)):
                        if index[i] < T.int64(0) or index[i] >= T.int64(5):
                            T.call_packed(
                                "tvm_hetero.index_error", "'x0' (float32[5, 4])", T.int64(0),
                                index[i], T.int64(0), T.int64(5),
                            )  # fmt: skip
            for i, j in T.grid(T.int64(3), T.int64(4)):
                with T.sblock("T_take"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    T.reads(table[index[v_i], v_j], index[v_i])
                    T.writes(out[v_i, v_j])
                    out[v_i, v_j] = table[index[v_i], v_j]

    made = schedule_kernel(before, SSE)
    assert made.attrs[CHECKED] and rule_of(made) == "generic"
    assert tvm_ffi.structural_equal(made.body, after.body, map_free_vars=True)


IN_RANGE: dict[str, tuple[Types, Callable[..., te.Tensor]]] = {
    "clipped": (
        [((5, 4), FLOAT), ((3,), INT)],
        lambda t, i: topi.take(t, i, axis=0, mode="clip")),
    "wrapped": (
        [((5, 4), FLOAT), ((3,), INT)],
        lambda t, i: topi.take(t, i, axis=0, mode="wrap")),
    "a remainder": (
        [((5, 4), FLOAT), ((3,), INT)],
        lambda t, i: te.compute((3,), lambda a: t[tirx.floormod(i[a], 5), 0])),
    "all numbers of a type": ([((256,), FLOAT), ((3,), "uint8")], rows),
    "under a condition": (
        [((5, 4), FLOAT), ((3,), INT)],
        lambda t, i: te.compute((3,), lambda a: tirx.if_then_else(
            tirx.all(i[a] >= 0, i[a] < 5), t[i[a], 0], tirx.const(0.0, FLOAT)))),
    "compared": (
        [((3,), INT)], lambda i: te.compute((3, 5), lambda a, b: (i[a] == b).astype(FLOAT))),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_RANGE)
def test_what_is_in_bounds_for_any_data_is_not_looked_at(case: str) -> None:
    func = kernel(*IN_RANGE[case])
    assert indirect_accesses(func) == []
    assert ERROR not in schedule_kernel(func, AVX2).script()


def test_rows_of_a_cache_that_are_left_out_need_no_check() -> None:
    func = update_rows([2, 8, 4], 1, 3, FLOAT, "int32")
    assert ERROR not in schedule_kernel(func, AVX2).script()


FUSED: dict[str, Callable[..., te.Tensor]] = {
    "a sum": lambda t, i: topi.add(rows(t, i), tirx.const(1.0, FLOAT)),
    "a table that is computed": lambda t, i: rows(topi.exp(t), i),
    "an index that is computed": lambda t, i: rows(t, topi.add(i, tirx.const(0, INT))),
    "an index used twice": lambda t, i: topi.multiply(rows(t, i), topi.tanh(rows(t, i))),
    "an index that is looked up": lambda t, i: rows(t, topi.take(i, i, axis=0, mode="wrap")),
    "a transposed result": lambda t, i: topi.transpose(rows(t, i)),
    "a row sum": lambda t, i: topi.sum(rows(t, i), axis=1, keepdims=True),
    "an index by a reduction": lambda t, i: rows(t, topi.max(i, axis=0, keepdims=True)),
}


@pytest.mark.parametrize("target", [AVX2, TWO_CORES], ids=["one core", "two cores"])
@pytest.mark.parametrize("case", FUSED)
def test_kernels_of_several_operators_refuse_what_is_out_of_bounds(
    case: str, target: tvm.target.Target
) -> None:
    func = kernel([((5, 4), FLOAT), ((3,), INT)], FUSED[case])
    made = schedule_kernel(func, target)
    shape = [int(n) for n in func.params[-1].ty.shape]
    index = np.array([1, 4, 0])
    expected, found = np.zeros(shape, FLOAT), np.zeros(shape, FLOAT)
    call(func.with_attr("tirx.is_scheduled", True), TABLE, index, expected)
    call(made, TABLE, index, found, target=target)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for wrong in (5, 10**9, 2**62):
        message = f"index {wrong} is out of bounds for axis 0 of size 5"
        with pytest.raises(IndexError, match=message):
            call(made, TABLE, np.array([wrong] * 3), found, target=target)


def test_a_batched_kernel_looks_at_the_indices_of_each_element() -> None:
    func = kernel([((5, 4), FLOAT), ((3,), INT)], rows)
    made = schedule_kernel(batch_kernel(func, 2, [0]), AVX2)
    good, bad = np.array([0, 1, 4]), np.array([0, 7, 4])
    first, second = np.zeros((3, 4), FLOAT), np.zeros((3, 4), FLOAT)
    call(made, TABLE, good, good[::-1].copy(), first, second)
    np.testing.assert_array_equal(first, TABLE[good])
    np.testing.assert_array_equal(second, TABLE[good[::-1]])
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(IndexError, match="index 7 is out of bounds"):
            call(made, TABLE, *pair, first, second)


def test_kernels_that_nobody_scheduled_are_checked_when_they_are_compiled() -> None:
    func = kernel([((5, 4), FLOAT), ((3,), INT)], rows)
    with pytest.raises(IndexError, match="index -1 is out of bounds for axis 0 of size 5"):
        call(func, TABLE, np.array([0, -1, 2]), np.zeros((3, 4), FLOAT))


def test_the_vm_raises_it_and_goes_on() -> None:
    table = relax.const(TABLE)
    index = relax.Var("index", relax.TensorType((3,), INT))
    builder = relax.BlockBuilder()
    with builder.function("main", [index]):
        with builder.dataflow():
            found = builder.emit(relax.op.take(table, index, axis=0))
            out = builder.emit_output(relax.op.nn.relu(found))
        builder.emit_func_output(out)
    mod = LowerToTasks([AVX2])(builder.get())
    for each in (mod, scheduled(mod, AVX2)):
        executable = tvm.compile(each, AVX2, tir_pipeline=PIPELINE)
        main = relax.VirtualMachine(executable, tvm.cpu())["main"]
        with pytest.raises(IndexError, match="index 100000000 is out of bounds"):
            main(tvm.runtime.tensor(np.array([0, 10**8, 2])))
        right = np.array([4, 0, 2])
        np.testing.assert_array_equal(main(tvm.runtime.tensor(right)).numpy(), TABLE[right])


def test_a_mean_that_tvm_scatters_stays_in_its_tensor() -> None:
    def mean(data: te.Tensor, index: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return topi.scatter_elements(data, index, updates, axis=0, reduction="mean")

    func = kernel([((5, 4), FLOAT), ((2, 4), INT), ((2, 4), FLOAT)], mean)
    made, out = schedule_kernel(func, AVX2), np.zeros((5, 4), FLOAT)
    ones, far = np.ones((2, 4), FLOAT), np.full((2, 4), 2**40)
    with pytest.raises(IndexError, match="is out of bounds"):
        call(made, TABLE, far, ones, out)
    call(made, TABLE, np.array([[0] * 4, [-1] * 4]), ones, out)
    np.testing.assert_allclose(out[[0, 4]], (TABLE[[0, 4]] + 1) / 2)


def test_where_a_search_ends_is_checked_in_its_loop() -> None:
    func = kernel([((5,), FLOAT), ((3,), FLOAT)], lambda b, x: topi.searchsorted(b, x))
    out = np.zeros(3, str(func.params[-1].ty.dtype))
    borders, values = np.arange(5, dtype=FLOAT), np.array([-1, 2.5, 9], FLOAT)
    made = schedule_kernel(func, AVX2)
    assert ERROR in made.script() and "T.parallel" not in made.script()  # which loses errors
    call(made, borders, values, out)
    np.testing.assert_array_equal(out, np.searchsorted(borders, values))


def test_a_gpu_reads_nan_for_what_is_out_of_bounds() -> None:
    func = kernel([((5, 4), FLOAT), ((3,), INT)], rows)
    out = np.zeros((3, 4), FLOAT)
    assert indirect_accesses(add_masks(func)) == []  # as conditions, on any device
    call(add_masks(func), TABLE, np.array([4, 5, -(2**40)]), out)
    np.testing.assert_array_equal(out, [TABLE[4], [np.nan] * 4, [np.nan] * 4])
    assert tvm_ffi.structural_equal(add_masks(add_masks(func)), add_masks(func))
    assert "nan" in schedule_kernel(func, CUDA).script()


def test_a_gpu_writes_nothing_out_of_bounds() -> None:
    def put(data: te.Tensor, index: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return topi.scatter_elements(data, index, updates, axis=0)

    func = add_masks(kernel([((5, 4), FLOAT), ((1, 4), INT), ((1, 4), FLOAT)], put))
    out = np.zeros((5, 4), FLOAT)
    call(func, TABLE, np.array([[0, 10**9, -6, -1]]), np.full((1, 4), -1, FLOAT), out)
    expected = TABLE.copy()
    expected[0, 0] = expected[4, 3] = -1
    np.testing.assert_array_equal(out, expected)
