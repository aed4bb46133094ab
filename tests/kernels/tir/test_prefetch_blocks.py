"""Convolutions ask for the whole next block of weights while they use one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from tests.kernels.helpers import AVX2, AVX512, SSE, kernels, model, random, walk
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.tir.prefetch import LINE
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

# A load that is asked for, in these loops, from the outside.
Asked = tuple[tirx.BufferLoad, list[tirx.For]]


def _convolution(channels: int, size: int, width: int, images: int = 1) -> tirx.PrimFunc:
    weight = relax.const(random(0, 2 * channels, channels, size, size))
    mod = model(
        [(images, channels, width, width)],
        lambda x: relax.op.nn.conv2d(x, weight, padding=size // 2),
    )
    (func,) = kernels(LowerToTasks([AVX512, AVX2, SSE])(mod)).values()
    return func


def _asked(func: tirx.PrimFunc) -> list[Asked]:
    """What a kernel asks for, with the loops around it."""
    found: list[Asked] = []

    def meet(node: tirx.Stmt, loops: list[tirx.For]) -> None:
        if isinstance(node, tirx.Evaluate):
            loads: list[tirx.BufferLoad] = []
            tvm_ffi.structural_walk(node, (tvm.ir.expr.TensorLoad, loads.append))
            found.extend((load, loops) for load in loads)

    walk(func.body, meet)
    return found


def _lines(asked: Asked, weights: tirx.Var, fixed: dict[int, int]) -> set[int]:
    """The lines of the cache that it asks for, in all steps of the loops that are not fixed."""
    load, loops = asked
    assert load.source.same_as(weights)
    shape = [int(e) for e in weights.ty.shape]
    places = tirx.IndexMap([loop.loop_var for loop in loops], list(load.indices), None)
    steps: list[Sequence[int]] = [
        [fixed[i]] if i in fixed else range(int(loop.extent)) for i, loop in enumerate(loops)
    ]
    found: set[int] = set()
    for values in product(*steps):
        at = 0
        indices = places.map_indices([tirx.const(v, "int64") for v in values])
        for index, extent in zip(indices, shape, strict=True):
            at = at * extent + int(index)
        found.add(at * 4 // LINE)
    return found


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=str)
@pytest.mark.parametrize(("channels", "size", "width"), [(384, 1, 4), (104, 3, 5)])
def test_all_of_the_next_block_is_asked_for(
    channels: int, size: int, width: int, target: tvm.target.Target
) -> None:
    func = schedule_kernel(_convolution(channels, size, width), target)
    weights = func.params[1]
    shape = [int(e) for e in weights.ty.shape]
    asked = _asked(func)
    assert asked
    blocks = 1  # loops: the image, of which there is one, blocks, rows or tiles ...
    parts = int(asked[0][1][blocks].extent) // shape[0]
    lines: set[int] = set()
    for part in range(parts):
        for one in asked:
            lines |= _lines(one, weights, {blocks: parts + part})
    each = prod(shape[1:]) * 4 // LINE
    assert set(range(2 * each, 3 * each)) <= lines
    assert len(lines) < 3 * each


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=str)
def test_weights_that_stay_in_the_cache_are_not_asked_for(target: tvm.target.Target) -> None:
    func = schedule_kernel(_convolution(64, 1, 4), target)
    size = prod(int(e) for e in func.params[1].ty.shape) * 4
    assert size <= vector_unit(target).l2 // 2
    assert not _asked(func)
