"""Kernels that end in a weight: skipped where it is 0, and the same as ever where it is not."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

from tests.kernels.helpers import AVX2, CUDA, kernels, model, random
from tvm_hetero.frontends.huggingface.operators import gate_rows, route_tokens
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import PIPELINE, build
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.batched import batch_kernel, params_of
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, with_implementation
from tvm_hetero.kernels.tir.zero_skip import Guards, guards_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

DEPTH, WIDTH = 24, 40
MATRIX = random(7, DEPTH, WIDTH)


def expert(rows: int, *, residual: bool = False) -> tirx.PrimFunc:
    """``weight * silu(x @ MATRIX)``, as `LowerToTasks` makes one kernel of it."""
    bb = relax.BlockBuilder()
    shapes = {"x": [rows, DEPTH], "weight": [rows, 1], "y": [rows, WIDTH]}
    x, weight, y = (relax.Var(name, relax.TensorType(s, "float32")) for name, s in shapes.items())
    with bb.function("main", [x, weight, y]):
        with bb.dataflow():
            hidden = bb.emit(relax.op.nn.silu(relax.op.matmul(x, relax.const(MATRIX))))
            out = gate_rows(bb, hidden, weight, times=True)
            if residual:
                out = bb.emit(relax.op.add(out, y))
            out = bb.emit_output(out)
        bb.emit_func_output(out)
    (func,) = kernels(LowerToTasks([AVX2])(bb.get())).values()
    return func


def built(func: tirx.PrimFunc) -> tvm_ffi.Function:
    done = schedule_kernel(func, AVX2).with_attr("global_symbol", "kernel")
    library = build(tvm.IRModule({"kernel": done}), AVX2)
    return tvm.runtime.Executable(library).jit()["kernel"]


def arguments(func: tirx.PrimFunc, given: dict[str, np.ndarray]) -> list[tvm.runtime.Tensor]:
    """Tensors for the parameters: by their shapes, the packed matrix as it is packed."""
    (packed,) = [p for p in func.params if len(p.ty.shape) == 4]
    block = int(packed.ty.shape[3])
    padded = np.pad(MATRIX, ((0, 0), (0, -WIDTH % block)))
    blocks = padded.reshape(DEPTH, -1, block).swapaxes(0, 1)[None]
    by_shape = {values.shape: values for values in given.values()}
    shapes = [tuple(int(e) for e in p.ty.shape) for p in func.params]
    return [
        tvm.runtime.tensor(np.ascontiguousarray(blocks if len(s) == 4 else by_shape[s]))
        for s in shapes
    ]


def wanted(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    product = x @ MATRIX
    return weight * product / (1 + np.exp(-product))


def guarded_products(func: tirx.PrimFunc) -> list[bool]:
    """For each branch in a kernel that depends on its flag: whether the product is inside."""
    found: list[bool] = []

    def names(statement: tirx.Stmt) -> list[str]:
        inside: list[str] = []
        tvm_ffi.structural_walk(statement, (s_tir.SBlock, lambda b: inside.append(b.name_hint)))
        return inside

    def meet(branch: tirx.IfThenElse) -> None:
        found.append(any("product" in name for name in names(branch.then_case)))

    tvm_ffi.structural_walk(func.body, (tirx.IfThenElse, meet))
    return found


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("how", ["rule", DEFAULT])
def test_a_guarded_kernel_computes_what_it_did(rows, how):
    func = expert(rows)
    assert guards_of(func) is not None
    if how == DEFAULT:
        func = with_implementation(func, DEFAULT)
    run = built(func)
    x, weight = random(1, rows, DEPTH), random(2, rows, 1)
    for weights in (weight, np.where(np.arange(rows)[:, None] == rows - 1, weight, 0), 0 * weight):
        out = np.full((rows, WIDTH), np.nan, np.float32)
        given = arguments(func, {"x": x, "w": weights.astype(np.float32), "out": out})
        run(*given)
        np.testing.assert_allclose(given[-1].numpy(), wanted(x, weights), atol=1e-5)


def test_the_product_is_within_the_guard_and_the_rule_is_what_it_was():
    func = expert(1)
    done = schedule_kernel(func, AVX2)
    assert guarded_products(done) == [True]
    assert rule_of(done) == "gemm"
    assert guarded_products(schedule_kernel(func, CUDA)).count(True) == 0


def test_what_is_computed_from_a_guarded_value_is_not_skipped():
    """A residual that was fused into the kernel must not become 0."""
    func = expert(1, residual=True)
    assert guards_of(func) is None
    assert guarded_products(schedule_kernel(func, AVX2)) == []


def test_kernels_without_a_guard_have_none():
    lowered = LowerToTasks([AVX2])(
        model([(1, DEPTH)], lambda x: relax.op.matmul(x, relax.const(MATRIX)))
    )
    assert [guards_of(func) for func in kernels(lowered).values()] == [None]


def test_of_several_elements_each_is_right_and_all_are_skipped_together():
    one = expert(1)
    (packed,) = [i for i, p in enumerate(one.params) if len(p.ty.shape) == 4]
    func = batch_kernel(one, 2, [packed])
    weights = [p for i, p in enumerate(one.params) if [int(e) for e in p.ty.shape] == [1, 1]]
    assert len(weights) == 1
    guards = guards_of(func)
    assert isinstance(guards, Guards)
    assert (len(guards.weights), len(guards.outputs)) == (2, 2)
    run = built(func)
    xs = [random(e, 1, DEPTH) for e in range(2)]
    for pair in ([0.0, 0.0], [0.5, 0.0], [0.0, -2.0], [1.0, 2.0]):
        out = np.full((1, WIDTH), np.nan, np.float32)
        elements = [
            arguments(one, {"x": x, "w": np.float32([[w]]), "out": out})
            for x, w in zip(xs, pair, strict=True)
        ]
        given = [
            elements[e][i] for i, places in enumerate(params_of(func)) for e in range(len(places))
        ]
        run(*given)
        for e in range(2):
            expected = wanted(xs[e], np.float32([[pair[e]]]))
            np.testing.assert_allclose(elements[e][-1].numpy(), expected, atol=1e-5)


def router(rows: int, experts: int, chosen: int) -> tvm.IRModule:
    """``main`` of the logits alone: the weights of all experts side by side."""
    bb = relax.BlockBuilder()
    logits = relax.Var("logits", relax.TensorType([rows, experts], "float32"))
    with bb.function("main", [logits]):
        with bb.dataflow():
            weights = route_tokens(bb, logits, chosen)
            out = bb.emit_output(relax.op.concat(weights, axis=1))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize("chosen", [1, 2, 5])
def test_tokens_are_given_to_the_largest_logits(chosen):
    logits = np.round(random(3, 6, 5) * 2) / 2  # of equal ones the first is chosen
    lowered = LowerToTasks([AVX2])(router(*logits.shape, chosen))
    vm = relax.VirtualMachine(tvm.compile(lowered, AVX2, tir_pipeline=PIPELINE), tvm.cpu())
    got = vm["main"](tvm.runtime.tensor(logits.astype(np.float32))).numpy()
    order = np.argsort(-logits, axis=1, kind="stable")[:, :chosen]
    expected = np.zeros_like(logits)
    powers = np.exp(np.take_along_axis(logits, order, 1))
    np.put_along_axis(expected, order, powers / powers.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(got, expected, atol=1e-6)
