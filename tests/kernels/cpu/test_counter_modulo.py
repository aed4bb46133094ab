"""Repetitions and rearrangements are those of NumPy, though LLVM 22.1 gets some moduli wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tests.kernels.helpers import AVX2, AVX512, model, runs_here, scheduled
from tvm_hetero.kernels.cpu.compilation import PIPELINE, build
from tvm_hetero.kernels.cpu.counter_modulo import hide_counter_modulo
from tvm_hetero.kernels.tir.statements import UNROLLED, load, loop, store, tensor
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TARGETS = [pytest.param(t, id=str(t.attrs["mcpu"])) for t in (AVX2, AVX512)]
# What LLVM got wrong at x86-64-v4, and of them the last at x86-64-v3 too.
KNOWN = [((2, 3, 4, 5), (7, 6, 4, 2)), ((3, 4, 5), (6, 4, 2)), ((5, 4, 1), (3, 6, 3))]
EXTENTS, PARTS = (18, 16, 2, 3), 100

Counter = Any
Modulo = Callable[[Counter], Counter]


def int64(value: int) -> tirx.IntImm:
    return tirx.const(value, "int64")


MODULI: dict[str, tuple[Modulo, Callable[[np.ndarray], np.ndarray]]] = {
    "floored": (lambda j: (j % 4) * 3, lambda j: j % 4 * 3),
    "truncated": (lambda j: tirx.truncmod(j + j, int64(8)) // 2 * 3, lambda j: 2 * j % 8 // 2 * 3),
    "below zero": (
        lambda j: (tirx.truncmod(j - int64(9), int64(4)) + 3) * 3,
        lambda j: (np.fmod(j - 9, 4) + 3) * 3,
    ),
    "bits, the mask first": (
        lambda j: tirx.BitwiseAnd(int64(3), j) * 3,
        lambda j: (j & 3) * 3,
    ),
    "bits": (lambda j: tirx.bitwise_and(j, int64(3)) * 3, lambda j: (j & 3) * 3),
}


def repetition(modulo: Modulo) -> tirx.PrimFunc:
    """A row of three values for each j, written twice, from where the modulo of j says."""
    rows, columns, twice, row = EXTENTS
    x, y = tensor("x", (3 * PARTS,)), tensor("y", EXTENTS)

    def copy(i: Counter, j: Counter, again: Counter) -> tirx.Stmt:
        return loop(
            "k",
            row,
            lambda k: store(y, [i, j, again, k], load(x, i % 3 * PARTS + modulo(j) + k)),
            UNROLLED,
        )

    body = loop(
        "i",
        rows,
        lambda i: loop("j", columns, lambda j: loop("again", twice, lambda a: copy(i, j, a))),
    )
    attrs = {"global_symbol": "repeat", "tirx.noalias": True, "tirx.is_scheduled": True}
    return tirx.PrimFunc([x, y], body).with_attrs({**attrs, "s_tir": True})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODULI)
def test_a_modulo_of_a_counter_is_what_it_says(name, target):
    if not runs_here(target):
        pytest.skip("this machine has not its vectors")
    modulo, expected = MODULI[name]
    library = build(tvm.IRModule({"repeat": repetition(modulo)}), target)
    x = np.arange(3 * PARTS, dtype="float32")
    y = tvm.runtime.tensor(np.zeros(EXTENTS, "float32"))
    tvm.runtime.Executable(library).jit()["repeat"](tvm.runtime.tensor(x), y)
    i, j, _, k = np.meshgrid(*map(np.arange, EXTENTS), indexing="ij")
    np.testing.assert_array_equal(y.numpy(), x[i % 3 * PARTS + expected(j) + k])


def results(
    operators: Sequence[tuple[Sequence[int], Callable[[relax.Expr], relax.Expr]]],
    target: tvm.target.Target,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Input and result of each of several operators, in one module."""
    shapes = [shape for shape, _ in operators]

    def apply(*x: relax.Expr) -> relax.Expr:
        return relax.Tuple([f(v) for (_, f), v in zip(operators, x, strict=True)])

    made = model(shapes, apply)
    mod = scheduled(LowerToTasks([AVX2, AVX512])(made), target)
    vm = relax.VirtualMachine(tvm.compile(mod, target, tir_pipeline=PIPELINE), tvm.cpu())
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape).astype("float32") for shape in shapes]
    outputs = vm["main"](*(tvm.runtime.tensor(x) for x in inputs))
    return [(x, y.numpy()) for x, y in zip(inputs, outputs, strict=True)]


@pytest.mark.parametrize("target", TARGETS)
def test_repetitions_are_those_of_numpy(target):
    if not runs_here(target):
        pytest.skip("this machine has not its vectors")
    random = np.random.default_rng(7)
    cases = list(KNOWN)
    for _ in range(12):
        rank = int(random.integers(2, 5))
        shape = [int(e) for e in random.choice([1, 2, 3, 4, 5, 8, 16], rank)]
        cases.append((tuple(shape), tuple(int(e) for e in random.integers(1, 8, rank))))
    operators = [(shape, lambda x, times=times: relax.op.tile(x, times)) for shape, times in cases]
    for (x, y), (_, times) in zip(results(operators, target), cases, strict=True):
        np.testing.assert_array_equal(y, np.tile(x, times))


def split(x: Any, extents: Sequence[int], axes: Sequence[int], shape: Sequence[int]) -> Any:
    """Dimensions taken apart, put into another order, and joined again; in Relax or NumPy."""
    if isinstance(x, np.ndarray):
        return x.reshape(extents).transpose(axes).reshape(shape)
    return relax.op.reshape(relax.op.permute_dims(relax.op.reshape(x, extents), axes), shape)


def rearrangements(n: int, c: int, h: int, w: int, b: int) -> list[tuple[Any, Any]]:
    """Depth to space, space to depth, a shuffle of channels and a split into heads."""
    wide, deep = c * b * b, (n, c, h * b, w * b)
    return [
        ((n, wide, h, w), ((n, b, b, c, h, w), (0, 3, 4, 1, 5, 2), deep)),
        ((n, wide, h, w), ((n, c, b, b, h, w), (0, 1, 4, 2, 5, 3), deep)),
        (deep, ((n, c, h, b, w, b), (0, 3, 5, 1, 2, 4), (n, wide, h, w))),
        ((n, wide, h, w), ((n, b, c * b, h, w), (0, 2, 1, 3, 4), (n, wide, h, w))),
        ((n, h * w, wide), ((n, h * w, b, c * b), (0, 2, 1, 3), (n, b, h * w, c * b))),
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_rearrangements_are_those_of_numpy(target):
    if not runs_here(target):
        pytest.skip("this machine has not its vectors")
    sizes = [(1, 4, 5, 3, 2), (2, 3, 4, 6, 4), (1, 8, 3, 5, 2)]
    cases = [case for size in sizes for case in rearrangements(*size)]
    operators = [(shape, lambda x, how=how: split(x, *how)) for shape, how in cases]
    for (x, y), (_, how) in zip(results(operators, target), cases, strict=True):
        np.testing.assert_array_equal(y, split(x, *how))


@pytest.mark.parametrize("target", TARGETS)
def test_enlarged_images_are_those_of_numpy(target):
    if not runs_here(target):
        pytest.skip("this machine has not its vectors")
    cases = [((1, 3, 5, 4), 2), ((2, 2, 3, 7), 4), ((1, 4, 8, 3), 8)]

    def enlarge(x: relax.Expr, times: int) -> relax.Expr:
        size = [int(e) * times for e in list(x.ty.shape)[2:]]
        how = {"method": "nearest_neighbor", "rounding_method": "floor"}
        return relax.op.image.resize2d(x, size, coordinate_transformation_mode="asymmetric", **how)

    operators = [(shape, lambda x, times=times: enlarge(x, times)) for shape, times in cases]
    for (x, y), (_, times) in zip(results(operators, target), cases, strict=True):
        np.testing.assert_array_equal(y, x.repeat(times, 2).repeat(times, 3))


def test_a_modulo_of_data_is_left_to_llvm():
    x, y = tensor("x", (64,), "int32"), tensor("y", (64,), "int32")
    four = tirx.const(4, "int32")
    data = loop("i", 64, lambda i: store(y, [i], load(x, i) % four))
    func = tirx.PrimFunc([x, y], data)
    assert hide_counter_modulo(tvm.IRModule({"main": func}))["main"].same_as(func)
