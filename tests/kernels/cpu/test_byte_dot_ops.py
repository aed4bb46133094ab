"""Sums of products of bytes as operations of TIR: before, after, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule

from tests.kernels.helpers import AVX2, AVX512, SSE, runs_here
from tvm_hetero.kernels.cpu.byte_dot_ops import use_byte_dots
from tvm_hetero.kernels.cpu.byte_dots import plain_dot
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.cpu.vector_unit import known_units, vector_unit
from tvm_hetero.kernels.tir.block_roles import BYTES_DOT

VNNI = tvm.target.Target({"kind": "llvm", "mcpu": "znver5", "num-cores": 1})
LENGTH, STEPS = 48, 5


def sums(*, marked: bool = True) -> tirx.PrimFunc:
    """``out[i] = sum over k of codes[k, i] . weights[k, i]``, in words."""
    codes, weights = (te.placeholder((STEPS, LENGTH), "int32", n) for n in ("codes", "weights"))
    k = te.reduce_axis((0, STEPS), "k")
    out = te.compute(
        (LENGTH,),
        lambda i: te.sum(plain_dot(codes[k, i], weights[k, i]), axis=[k]),
        name="out",
        attrs={BYTES_DOT: 1} if marked else {},
    )
    return te.create_prim_func([codes, weights, out])


def vectorized(lanes: int) -> tirx.PrimFunc:
    sch = Schedule(sums())
    block = sch.get_sblock("out")
    i, k = sch.get_loops(block)
    outer, inner = sch.split(i, [None, lanes])
    sch.reorder(outer, k, inner)
    sch.vectorize(inner)
    sch.decompose_reduction(block, k)
    return sch.mod["main"]


def reference(codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    bytes_of = codes.view(np.uint8).astype(np.int64), weights.view(np.int8).astype(np.int64)
    return (bytes_of[0] * bytes_of[1]).reshape(STEPS, LENGTH, 4).sum(axis=(0, 2))


@pytest.mark.parametrize("lanes", [16, 8, 4, 3, 1])
@pytest.mark.parametrize("target", [VNNI, AVX512, AVX2, SSE], ids=lambda t: str(t.attrs["mcpu"]))
def test_vectors_of_any_length_are_right(target: tvm.target.Target, lanes: int) -> None:
    func = use_byte_dots(vectorized(lanes), vector_unit(target)).with_attr("global_symbol", "main")
    library = build(tvm.IRModule({"main": func}), target)
    if not runs_here(target):
        return
    d = np.random.default_rng(lanes)
    sides = [d.integers(-(2**31), 2**31, (STEPS, LENGTH)).astype(np.int32) for _ in range(2)]
    out = tvm.runtime.tensor(np.zeros(LENGTH, np.int32))
    library["main"](*(tvm.runtime.tensor(side) for side in sides), out)
    np.testing.assert_array_equal(out.numpy(), reference(*sides))


def test_one_operation_takes_the_place_of_the_arithmetic() -> None:
    func = vectorized(16)
    made = use_byte_dots(func, vector_unit(VNNI)).script()
    assert ">>" in func.script() and ">>" not in made
    assert made.count("tvm_hetero.byte_dot") == 1


def test_what_is_not_marked_stays() -> None:
    func = sums(marked=False)
    assert use_byte_dots(func, vector_unit(VNNI)).same_as(func)


def test_every_unit_has_its_operation() -> None:
    for unit in known_units():
        assert "tvm_hetero.byte_dot" in use_byte_dots(sums(), unit).script()
