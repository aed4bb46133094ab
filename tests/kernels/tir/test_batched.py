"""Kernels that compute several elements in one call compute what as many calls do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, s_tir, tirx

from tests.draws import draws
from tests.kernels.helpers import (
    AVX2,
    AVX512,
    CUDA,
    REFERENCE,
    SSE,
    TWO_CORES,
    model,
    random,
    runs_here,
    walk,
)
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.convolution.winograd.kernel import WINOGRAD
from tvm_hetero.kernels.convolution.winograd.match import is_convolution_3x3
from tvm_hetero.kernels.cpu.compilation import PIPELINE, build
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.batched import batch_kernel, batch_of_kernel, params_of, unbatch_kernel
from tvm_hetero.kernels.tir.blocks import uses
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, with_implementation
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

HERE = tvm.target.Target({"kind": "llvm", "mcpu": own_mcpu(), "num-cores": 1})

# A kernel and the positions of its weights.
Kernel = tuple[tirx.PrimFunc, list[int]]


def _const(*shape: int) -> relax.Expr:
    return relax.const(random(sum(shape), *shape) / 4)


def _conv(x: relax.Expr, out: int, size: int, **how: int) -> relax.Expr:
    channels = int(x.ty.shape[1]) // how.get("groups", 1)
    return relax.op.nn.conv2d(x, _const(out, channels, size, size), **how)


def _fused(x: relax.Expr, residual: relax.Expr) -> relax.Expr:
    y = relax.op.add(_conv(x, 8, 3, padding=1), _const(1, 8, 1, 1))
    return relax.op.nn.relu(relax.op.add(y, residual))


def _tiles(x: relax.Expr, residual: relax.Expr) -> relax.Expr:
    return relax.op.add(_conv(x, 64, 3, padding=1), residual)


def _dense(x: relax.Expr) -> relax.Expr:
    return relax.op.nn.relu(relax.op.add(relax.op.matmul(x, _const(24, 40)), _const(40)))


def _twice(x: relax.Expr) -> relax.Expr:
    weight = _const(8, 8)
    return relax.op.matmul(relax.op.matmul(x, weight), weight)


IMAGE = (1, 8, 7, 7)
MODELS: dict[str, tuple[list[tuple[int, ...]], Callable[..., relax.Expr]]] = {
    "dense": ([(1, 24)], _dense),
    "3x3 and a residual": ([IMAGE, IMAGE], _fused),
    "1x1": ([IMAGE], lambda x: _conv(x, 16, 1)),
    "strided": ([IMAGE], lambda x: _conv(x, 16, 3, padding=1, strides=2)),
    "depthwise": ([IMAGE], lambda x: _conv(x, 8, 3, padding=1, groups=8)),
    "pool": ([IMAGE], lambda x: relax.op.nn.max_pool2d(x, (3, 3), (2, 2))),
    "softmax": ([(3, 5)], lambda x: relax.op.nn.softmax(x)),
    "many channels": ([(1, 256, 5, 5)], lambda x: _conv(x, 512, 1)),
    "many channels 3x3": ([(1, 96, 6, 6)], lambda x: _conv(x, 96, 3, padding=1)),
    "tiles": ([(1, 64, 8, 8), (1, 64, 8, 8)], _tiles),
    "three rows": ([(1, 3, 256)], lambda x: relax.op.matmul(x, _const(256, 320))),
    "several results": ([IMAGE], lambda x: relax.op.split(x, 2, axis=1)),
    "one weight for two": ([(1, 8)], _twice),
}


@functools.cache
def _kernels(name: str, images: int = 1, plain_sums: bool = False) -> list[Kernel]:
    """The kernels of a model and which of their arguments are constants."""
    shapes, body = MODELS[name]
    taken = [(images * shape[0], *shape[1:]) for shape in shapes]
    mod = LowerToTasks([AVX512, AVX2, SSE], plain_sums)(model(taken, body))
    bindings = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    found: list[Kernel] = []
    for call in bindings:
        if isinstance(call, relax.Call) and call.op.name == "relax.call_tir":
            fields = call.args[1].fields
            constant = [i for i, a in enumerate(fields) if isinstance(a, tvm.ir.GenericConst)]
            found.append((mod[call.args[0]], constant))
    assert found
    return found


def _compiled(
    funcs: dict[str, tirx.PrimFunc], target: tvm.target.Target
) -> Callable[[str], Callable[..., None]]:
    mod = tvm.IRModule({n: f.with_attr("global_symbol", n) for n, f in funcs.items()})
    library = tvm.runtime.Executable(build(mod, target)).jit()
    return lambda name: library[name]


def _values(param: tirx.Var, seed: int) -> tvm.runtime.Tensor:
    shape = [int(e) for e in param.ty.shape]
    return tvm.runtime.tensor(random(seed, *shape).astype(str(param.ty.dtype)))


def _results(
    one: Callable[..., None], several: Callable[..., None], func: tirx.PrimFunc
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """All parameters after calls of one element each, and after one call of all of them."""
    places, values = params_of(func), [_values(p, i) for i, p in enumerate(func.params)]
    copies = [tvm.runtime.tensor(value.numpy()) for value in values]
    for element in range(batch_of_kernel(func)):
        one(*(values[place[min(element, len(place) - 1)]] for place in places))
    several(*copies)
    return [v.numpy() for v in values], [c.numpy() for c in copies]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=draws(1), deadline=None)
@given(count=st.integers(2, 4), images=st.integers(1, 2))
def test_it_computes_what_as_many_calls_do(name: str, count: int, images: int) -> None:
    kernels = _kernels(name, images)
    ones = {f"one{i}": f for i, (f, _) in enumerate(kernels)}
    both = {f"all{i}": batch_kernel(f, count, shared) for i, (f, shared) in enumerate(kernels)}
    compiled = _compiled(ones | both, REFERENCE)
    for i in range(len(kernels)):
        func = both[f"all{i}"]
        expected, actual = _results(compiled(f"one{i}"), compiled(f"all{i}"), func)
        assert len(func.params) == len(actual)
        for old, new in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize(
    ("target", "count"), [(HERE, 3), (AVX2, 4), (SSE, 5), (TWO_CORES, 2)], ids=str
)
def test_scheduled_it_computes_what_as_many_scheduled_calls_do(
    target: tvm.target.Target, count: int
) -> None:
    if not runs_here(target):
        pytest.skip("this machine has no such vectors")
    kernels = [kernel for name in MODELS for kernel in _kernels(name)]
    ones = {f"one{i}": schedule_kernel(f, target) for i, (f, _) in enumerate(kernels)}
    plain = [batch_kernel(f, count, shared) for f, shared in kernels]
    both = {f"all{i}": schedule_kernel(f, target) for i, f in enumerate(plain)}
    compiled = _compiled(ones | both, target)
    for i, func in enumerate(plain):
        made = both[f"all{i}"]
        assert len(made.params) == len(func.params)
        for param, expected in zip(made.params, func.params, strict=True):
            assert tvm_ffi.structural_equal(param.ty, expected.ty)
        # Images of few tiles have enough of them together.
        rules = {rule_of(ones[f"one{i}"])}
        rules |= {WINOGRAD} if is_convolution_3x3(kernels[i][0]) else set()
        assert batch_of_kernel(made) == count and rule_of(made) in rules
        for old, new in zip(*_results(compiled(f"one{i}"), compiled(f"all{i}"), func), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-4 * max(1.0, old.max()))


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=str)
@pytest.mark.parametrize("name", ["dense", "many channels", "many channels 3x3", "three rows"])
def test_a_block_of_weights_is_read_for_all_elements_before_the_next(
    name: str, target: tvm.target.Target
) -> None:
    ((func, shared),) = _kernels(name, plain_sums=True)
    made = schedule_kernel(batch_kernel(func, 4, shared), target)
    weights, elements = _loops_of_weights(made, made.params[4])
    assert weights and elements
    small = prod(int(e) for e in made.params[4].ty.shape) * 4 <= vector_unit(target).l2 // 2
    # Rows are elements inside of all loops over weights; images and matrices are where these
    # would not stay in the cache.
    if name == "dense" or not small:
        assert min(weights) < min(elements)


def _loops_of_weights(func: tirx.PrimFunc, weight: tirx.Var) -> tuple[list[int], list[int]]:
    """Where the loops are, from the outside, that decide which weights, which element are read.

    Those of more than one step, around the block that reads weights. Its accumulators have the
    elements first, or as rows where there is only one matrix.
    """
    found: list[tuple[list[int], list[int]]] = []

    def deciding(
        realize: s_tir.SBlockRealize, loops: list[tirx.For], index: tirx.PrimExpr
    ) -> list[int]:
        iters = [v.var for v in realize.block.iter_vars]
        (value,) = tirx.IndexMap(iters, [index], None).map_indices(list(realize.iter_values))
        long = [(i, loop.loop_var) for i, loop in enumerate(loops) if int(loop.extent) > 1]
        return [i for i, var in long if uses(value, var)]

    def meet(node: tirx.Stmt, loops: list[tirx.For]) -> None:
        if not isinstance(node, s_tir.SBlockRealize):
            return
        for region in node.block.reads:
            if region.source.same_as(weight):
                read = [i for r in region.region for i in deciding(node, loops, r.min)]
                written = node.block.writes[0]
                axis = 0 if int(written.source.ty.shape[0]) > 1 else 2
                found.append((read, deciding(node, loops, written.region[axis].min)))

    walk(func.body, meet)
    ((weights, elements),) = found
    return weights, elements


def test_the_virtual_machine_calls_it_with_all_tensors_and_takes_a_tuple() -> None:
    ((func, shared),) = _kernels("many channels")
    plain = batch_kernel(func, 2, shared)
    results = [_in_vm(f) for f in (plain, schedule_kernel(plain, HERE))]
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def _in_vm(func: tirx.PrimFunc) -> list[np.ndarray]:
    """What TVM's virtual machine makes of a kernel of two elements with one result."""
    types = [relax.TensorType(p.ty.shape, str(p.ty.dtype)) for p in func.params]
    inputs = [relax.Var(f"x{i}", ty) for i, ty in enumerate(types[:-2])]
    bb = relax.BlockBuilder()
    with bb.function("main", inputs):
        kernel = bb.add_func(func, "kernel")
        bb.emit_func_output(bb.emit(relax.call_tir(kernel, relax.Tuple(inputs), types[-2:])))
    vm = relax.VirtualMachine(tvm.compile(bb.get(), HERE, tir_pipeline=PIPELINE), tvm.cpu())
    values = [_values(p, i) for i, p in enumerate(func.params[:-2])]
    return [result.numpy() for result in vm["main"](*values)]


@pytest.mark.parametrize("name", MODELS)
def test_single_gives_the_kernel_back(name: str) -> None:
    for func, shared in _kernels(name):
        made = batch_kernel(func, 3, shared)
        stored = tvm.ir.load_json(tvm.ir.save_json(made))
        for kernel in (made, stored):
            assert batch_of_kernel(kernel) == 3
            assert tvm_ffi.structural_equal(unbatch_kernel(kernel), func)
        assert unbatch_kernel(func).same_as(func) and batch_of_kernel(func) == 1


def test_parameters_stand_in_order_and_shared_ones_once() -> None:
    ((func, shared),) = _kernels("dense")
    assert shared == [1, 2] and len(func.params) == 4
    made = batch_kernel(func, 4, shared)
    assert params_of(made) == [range(4), range(4, 5), range(5, 6), range(6, 10)]
    assert [list(p.ty.shape) for p in made.params[:4]] == [[1, 24]] * 4
    assert made.params[4].same_as(func.params[1])
    names: list[str] = []
    tvm_ffi.structural_walk(
        made.body, (tvm.s_tir.SBlock, lambda block: names.append(str(block.name_hint)))
    )
    assert len(names) == len(set(names)) > 4


def test_kernels_for_gpus_are_those_of_one_element() -> None:
    ((func, shared),) = _kernels("dense")
    made, one = (schedule_kernel(f, CUDA) for f in (batch_kernel(func, 2, shared), func))
    assert rule_of(made) == rule_of(one) != DEFAULT
    assert [_threads(f) for f in (made, one)] == [2 * _threads(one), _threads(one)] != [0, 0]


def _threads(func: tirx.PrimFunc) -> int:
    """How many loops are bound to threads."""
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, found.append))
    return sum(loop.thread_binding is not None for loop in found)


def test_how_a_kernel_is_computed_stays_written_on_it() -> None:
    ((func, shared),) = _kernels("dense")
    default = with_implementation(func, DEFAULT)
    assert tvm_ffi.structural_equal(unbatch_kernel(batch_kernel(default, 2, shared)), default)


def test_what_cannot_be_batched() -> None:
    ((func, shared),) = _kernels("dense")
    with pytest.raises(ValueError, match="two at least"):
        batch_kernel(func, 1, shared)
    with pytest.raises(ValueError, match="2 elements already"):
        batch_kernel(batch_kernel(func, 2, shared), 2, shared)
    with pytest.raises(ValueError, match=r"\[7\] of 4"):
        batch_kernel(func, 2, [7])
    with pytest.raises(ValueError, match=r"writes its parameters \[3\]"):
        batch_kernel(func, 2, [3])
    with pytest.raises(ValueError, match="scheduled"):
        batch_kernel(schedule_kernel(func, AVX2), 2, shared)
    with pytest.raises(ValueError, match="scheduled"):
        unbatch_kernel(schedule_kernel(batch_kernel(func, 2, shared), AVX2))
