"""Convolutions by tiles of 4x4 results: right, and taken where they should gain."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.ir.instrument import PassTimingInstrument

from tests.draws import draws
from tests.kernels.convolution.test_conv2d import conv
from tests.kernels.helpers import (
    AVX2,
    AVX512,
    REFERENCE,
    SSE,
    TWO_CORES,
    kernels,
    model,
    random,
    run,
    runs_here,
    scheduled,
)
from tests.models import equal_cpus
from tvm_hetero.cost_models.kernels_alone.candidates import make_jobs
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.convolution.winograd.kernel import (
    CLEAR,
    WINOGRAD,
    make_winograd,
    share_of_plain,
)
from tvm_hetero.kernels.convolution.winograd.match import convolution_of, is_convolution_3x3
from tvm_hetero.kernels.cpu.compilation import WRITTEN_OUT, build
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.select import SCHEDULED, rule_of
from tvm_hetero.kernels.tir.implementation_attr import DIRECT, with_implementation
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.pipeline.hetero_partition import HeteroPartition

# Of the largest result: several times what is measured (1e-5).
TOLERANCE = 5e-5


def lowered(shapes, body, targets=(AVX512, AVX2), **how) -> tvm.IRModule:
    return LowerToTasks(list(targets), **how)(model(shapes, body))


def only_kernel(mod: tvm.IRModule) -> tirx.PrimFunc:
    (func,) = kernels(mod).values()
    return func


def rules(mod: tvm.IRModule, target: tvm.target.Target) -> set[str]:
    return {rule_of(f) for f in kernels(scheduled(mod, target)).values()}


def by_tiles(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The module with its kernel by tiles if that can be done, be it quicker or not."""

    def made(func: tirx.PrimFunc) -> tirx.PrimFunc:
        try:
            return make_winograd(func, vector_unit(target), 1).with_attr(SCHEDULED, True)
        except ValueError:
            return func

    functions = dict(mod.functions_items())
    replaced = {gv: made(f) if isinstance(f, tirx.PrimFunc) else f for gv, f in functions.items()}
    return tvm.IRModule(replaced, attrs=mod.attrs)


def assert_right(shapes, body, target, rule=WINOGRAD, packed_for=None) -> None:
    """The rule takes the kernel and its results are those of plain TVM."""
    mod = lowered(shapes, body, packed_for or [target])
    assert rules(mod, target) == {rule}
    if runs_here(target):
        inputs = [random(i, *shape) for i, shape in enumerate(shapes)]
        expected = run(model(shapes, body), REFERENCE, *inputs)
        actual = run(scheduled(mod, target), target, *inputs)
        assert np.abs(actual - expected).max() <= TOLERANCE * np.abs(expected).max()


# Shapes of the inputs (the second one is added to the results), convolution.
CASES = {
    "whole tiles": ([(1, 32, 16, 16)], conv(32, 32, (3, 3), padding=1)),
    "a residual": ([(1, 32, 14, 14), (1, 32, 14, 14)], conv(32, 32, (3, 3), padding=1)),
    "several blocks of tiles": ([(1, 16, 57, 62)], conv(16, 48, (3, 3), padding=1)),
    "the last block begins earlier": ([(1, 32, 50, 33)], conv(32, 32, (3, 3), padding=1)),
    "no padding": ([(1, 32, 19, 21)], conv(32, 32, (3, 3))),
    "uneven padding": ([(1, 32, 17, 15)], conv(32, 32, (3, 3), 1, (0, 2, 1, 0))),
    "much padding": ([(1, 32, 12, 12)], conv(32, 64, (3, 3), padding=3)),
    "several images": ([(3, 32, 13, 13)], conv(32, 32, (3, 3), padding=1)),
    "images of few tiles": ([(4, 64, 7, 7)], conv(64, 64, (3, 3), padding=1)),
    "one column of tiles": ([(1, 32, 40, 4)], conv(32, 32, (3, 3), padding=1)),
    "sums in parts": ([(1, 192, 14, 14)], conv(192, 64, (3, 3), padding=1)),
    "several parts of the results": ([(1, 32, 20, 20)], conv(32, 144, (3, 3), padding=1)),
    "no epilogue": ([(1, 32, 14, 14)], conv(32, 32, (3, 3), padding=1, epilogue=False)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shapes, body = CASES[name]
    assert_right(shapes, body, AVX512 if runs_here(AVX512) else AVX2)


@pytest.mark.parametrize("name", ["the last block begins earlier", "images of few tiles"])
def test_in_vectors_of_eight(name):
    shapes, body = CASES[name]
    assert_right(shapes, body, AVX2)


def test_narrow_vectors_read_what_is_packed_for_wide_ones():
    shapes, body = CASES["a residual"]
    assert_right(shapes, body, SSE, packed_for=[AVX512, AVX2, SSE])


def test_vectors_read_several_packed_blocks():
    """Where an image is wide, lanes of the plain sums are points, and blocks are narrow."""
    shapes, body = [(1, 64, 64, 64)], conv(64, 64, (3, 3), padding=1)
    packed = int(convolution_of(only_kernel(lowered(shapes, body, [AVX512]))).packed)
    assert packed % vector_unit(AVX512).lanes
    assert_right(shapes, body, AVX512)


def test_two_cores():
    shapes, body = CASES["several blocks of tiles"]
    assert_right(shapes, body, TWO_CORES)


@settings(max_examples=draws(6), deadline=None, derandomize=True)
@given(
    images=st.integers(1, 3),
    channels=st.integers(1, 5),
    out_channels=st.integers(1, 9),
    size=st.tuples(st.integers(2, 45), st.integers(2, 45)),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    residual=st.booleans(),
)
def test_any_size(images, channels, out_channels, size, padding, residual):
    """Whichever rule takes it: what the tiles cannot do is left to the plain sums."""
    channels, out_channels = 8 * channels, 8 * out_channels
    height, width = (
        max(3, n) + a + b - 2 for n, a, b in zip(size, padding[:2], padding[2:], strict=True)
    )
    shapes = [(images, channels, max(3, size[0]), max(3, size[1]))]
    shapes += [(images, out_channels, height, width)] * residual
    body = conv(channels, out_channels, (3, 3), padding=padding)
    mod = by_tiles(lowered(shapes, body, [AVX2]), AVX2)
    inputs = [random(i, *shape) for i, shape in enumerate(shapes)]
    expected = run(model(shapes, body), REFERENCE, *inputs)
    actual = run(scheduled(mod, AVX2), AVX2, *inputs)
    assert np.abs(actual - expected).max() <= TOLERANCE * np.abs(expected).max()


NOT_BY_TILES = {
    "stride": ([(1, 32, 28, 28)], conv(32, 32, (3, 3), stride=2, padding=1)),
    "dilation": ([(1, 32, 28, 28)], conv(32, 32, (3, 3), padding=2, dilation=2)),
    "groups": ([(1, 64, 28, 28)], conv(64, 64, (3, 3), padding=1, groups=2)),
    "window": ([(1, 32, 28, 28)], conv(32, 32, (5, 5), padding=2)),
    "channels": ([(1, 3, 28, 28)], conv(3, 32, (3, 3), padding=1)),
    "out channels": ([(1, 32, 28, 28)], conv(32, 20, (3, 3), padding=1)),
    "few tiles": ([(1, 256, 7, 7)], conv(256, 256, (3, 3), padding=1)),
    "few pixels": ([(1, 32, 3, 3)], conv(32, 32, (3, 3), padding=1)),
}


@pytest.mark.parametrize("name", NOT_BY_TILES)
def test_left_to_the_plain_sums(name):
    shapes, body = NOT_BY_TILES[name]
    assert rules(lowered(shapes, body, [AVX512]), AVX512) == {"packed"}


def test_what_follows_may_read_other_tensors_only_as_images():
    """A tensor of rows that all channels share is no image: the plain sums can do that."""

    def body(x, row):
        return relax.op.add(conv(32, 32, (3, 3), padding=1, epilogue=False)(x), row)

    shapes = [(1, 32, 28, 28), (1, 1, 1, 28)]
    assert_right(shapes, body, AVX2, rule="packed")


def test_on_request_sums_are_plain():
    shapes, body = CASES["whole tiles"]
    assert rules(lowered(shapes, body, plain_sums=True), AVX512) == {"packed"}
    func = with_implementation(only_kernel(lowered(shapes, body)), DIRECT)
    assert rule_of(schedule_kernel(func, AVX512)) == "packed"


def test_kernels_are_compiled_where_passes_are_timed():
    """Some passes are left out for these kernels, in a context of their own (it once aborted)."""
    shapes, body = CASES["whole tiles"]
    func = schedule_kernel(only_kernel(lowered(shapes, body)), AVX2)
    assert WRITTEN_OUT in func.attrs
    timing = PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[timing]):
        build(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), AVX2)
        assert "LowerKernels" in timing.render()


def test_the_pass_hands_the_request_on():
    shapes, body = CASES["whole tiles"]
    cpus = [replace(d, peak_flops=1e11, bandwidth=1e10) for d in equal_cpus().devices]
    platform = replace(equal_cpus(), devices=tuple(cpus))
    for plain in (False, True):
        partition = HeteroPartition(platform, cost_model="analytical", plain_sums=plain)
        placed = kernels(partition(model(shapes, body)))
        assert {is_convolution_3x3(f) for f in placed.values()} == {not plain}


def _share(side: int, channels: int, images: int = 1) -> float:
    body = conv(channels, channels, (3, 3), padding=1)
    func = only_kernel(lowered([(images, channels, side, side)], body, [AVX512]))
    return share_of_plain(func, vector_unit(AVX512))


def test_more_tiles_and_more_channels_gain_more():
    sides = [_share(side, 128) for side in (8, 12, 16, 28)]
    channels = [_share(28, c) for c in (16, 32, 64, 256)]
    images = [_share(7, 128, images) for images in (1, 2, 4)]
    for shares in (sides, channels, images):
        assert all(later < before for before, later in itertools.pairwise(shares))


def test_only_where_the_gain_is_uncertain_plain_sums_are_tried(tmp_path):
    for side, clear in ((28, True), (8, False)):
        func = only_kernel(lowered([(1, 128, side, side)], conv(128, 128, (3, 3), padding=1)))
        store = CostStore(tmp_path / "costs.sqlite")
        (job,) = make_jobs([Kernel("conv", func)], AVX512, schedule_kernel, store, lambda *_: None)
        assert job.rule == WINOGRAD and (_share(side, 128) < CLEAR) == clear
        assert [other.implementation for other in job.others] == ([] if clear else [DIRECT])


def test_a_kernel_that_is_no_convolution_is_refused():
    mod = lowered([(1, 32, 8, 8)], lambda x: relax.op.nn.max_pool2d(x, (3, 3)))
    with pytest.raises(ValueError, match="no convolution of 3x3 windows"):
        make_winograd(only_kernel(mod), vector_unit(AVX2), 1)
