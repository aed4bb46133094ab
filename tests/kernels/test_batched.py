"""Kernels that compute several elements in one call compute what as many calls do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, tirx

from tests.kernels.helpers import AVX2, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.batched import batch_of_kernel, batched, params_of, single
from tvm_hetero.kernels.implementations import DEFAULT, with_implementation
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

PLAIN = tvm.target.Target("llvm")

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
    "several results": ([IMAGE], lambda x: relax.op.split(x, 2, axis=1)[1]),
    "one weight for two": ([(1, 8)], _twice),
}


def _kernels(
    shapes: Sequence[Sequence[int]], body: Callable[..., relax.Expr], images: int = 1
) -> list[Kernel]:
    """The kernels of a model and which of their arguments are constants."""
    taken = [(images * int(shape[0]), *shape[1:]) for shape in shapes]
    mod = LowerToTasks([AVX2])(model(taken, body))
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
    library = tvm.runtime.Executable(tvm.tirx.build(mod, target=target)).jit()
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
@settings(max_examples=2, deadline=None)
@given(count=st.integers(2, 5), images=st.integers(1, 2))
def test_it_computes_what_as_many_calls_do(name: str, count: int, images: int) -> None:
    kernels = _kernels(*MODELS[name], images)
    ones = {f"one{i}": f for i, (f, _) in enumerate(kernels)}
    both = {f"all{i}": batched(f, count, shared) for i, (f, shared) in enumerate(kernels)}
    compiled = _compiled(ones | both, PLAIN)
    for i in range(len(kernels)):
        func = both[f"all{i}"]
        expected, actual = _results(compiled(f"one{i}"), compiled(f"all{i}"), func)
        assert len(func.params) == len(actual)
        for old, new in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize("name", MODELS)
def test_single_gives_the_kernel_back(name: str) -> None:
    for func, shared in _kernels(*MODELS[name]):
        made = batched(func, 3, shared)
        stored = tvm.ir.load_json(tvm.ir.save_json(made))
        for kernel in (made, stored):
            assert batch_of_kernel(kernel) == 3
            assert tvm_ffi.structural_equal(single(kernel), func)
        assert single(func).same_as(func) and batch_of_kernel(func) == 1


def test_parameters_stand_in_order_and_shared_ones_once() -> None:
    ((func, shared),) = _kernels(*MODELS["dense"])
    assert shared == [1, 2] and len(func.params) == 4
    made = batched(func, 4, shared)
    assert params_of(made) == [range(4), range(4, 5), range(5, 6), range(6, 10)]
    assert [list(p.ty.shape) for p in made.params[:4]] == [[1, 24]] * 4
    assert made.params[4].same_as(func.params[1])
    names: list[str] = []
    tvm_ffi.structural_walk(
        made.body, (tvm.s_tir.SBlock, lambda block: names.append(str(block.name_hint)))
    )
    assert len(names) == len(set(names)) > 4


def test_how_a_kernel_is_computed_stays_written_on_it() -> None:
    ((func, shared),) = _kernels(*MODELS["dense"])
    default = with_implementation(func, DEFAULT)
    assert tvm_ffi.structural_equal(single(batched(default, 2, shared)), default)


def test_what_cannot_be_batched() -> None:
    ((func, shared),) = _kernels(*MODELS["dense"])
    with pytest.raises(ValueError, match="two at least"):
        batched(func, 1, shared)
    with pytest.raises(ValueError, match="2 elements already"):
        batched(batched(func, 2, shared), 2, shared)
    with pytest.raises(ValueError, match=r"\[7\] of 4"):
        batched(func, 2, [7])
    with pytest.raises(ValueError, match=r"writes its parameters \[3\]"):
        batched(func, 2, [3])
    with pytest.raises(ValueError, match="scheduled"):
        batched(schedule_kernel(func, AVX2), 2, shared)
    with pytest.raises(ValueError, match="scheduled"):
        single(schedule_kernel(batched(func, 2, shared), AVX2))
