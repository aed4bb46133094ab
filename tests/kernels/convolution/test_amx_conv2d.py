"""Convolutions of bytes and of bfloat16 by tile registers, on any machine (`emulated_tiles`)."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax import op

from tests.draws import draws
from tests.kernels.convolution.test_bytes_conv2d import CASES, Case, data, module, reference
from tests.kernels.emulated_tiles import emulate, held
from tests.kernels.helpers import AMX, PAIRS, kernels, model, random, run, runs_here, scheduled
from tvm_hetero.kernels import select
from tvm_hetero.kernels.bfloat16_tensors import reads_bfloat16, rounded_parameters
from tvm_hetero.kernels.convolution import amx_conv2d, amx_words
from tvm_hetero.kernels.convolution.amx_conv2d import convolve_by_tiles
from tvm_hetero.kernels.convolution.amx_words import AmxTiles
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.narrow_kernel import narrow_kernel
from tvm_hetero.kernels.select import rule_of, schedule_kernel
from tvm_hetero.kernels.tir.array_values import array_of
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TWO_CORES = tvm.target.Target({**AMX.export(), "num-cores": 2})
WORDS = Case(channels=64, size=(14, 14), outputs=32)
needs_vectors = pytest.mark.skipif(not runs_here(PAIRS), reason="other vectors")


@pytest.fixture(autouse=True)
def registers(monkeypatch):
    """The processor's, where it has them; also for what is too small to be worth it."""
    monkeypatch.setattr(AmxTiles, "estimate", 0)
    if runs_here(AMX):
        yield
        return
    emulate(monkeypatch)
    yield
    assert held() == 0


def module_of(case: Case) -> tvm.IRModule:
    return module(case, *data(case))


def check_bytes(case: Case, target: tvm.target.Target = AMX, rule: str = "amx") -> None:
    codes, weights = data(case)
    mod = scheduled(LowerToTasks([target])(module(case, codes, weights)), target)
    assert {rule_of(f) for f in kernels(mod).values()} == {rule}
    got = run(mod, target, codes)
    np.testing.assert_array_equal(got, reference(case, codes, weights).astype(np.float32))


@needs_vectors
@pytest.mark.parametrize("case", [
    replace(WORDS, window=1, pad=0),
    replace(WORDS, window=1, pad=0, stride=2),
    replace(WORDS, stride=2),
    replace(WORDS, channels=44, outputs=30, size=(7, 7)),  # few points, words that are no 16
    replace(WORDS, channels=40, outputs=72, size=(9, 37)),  # registers that do not come out even
    replace(WORDS, dilation=2, pad=2, dtype="int8", zero=-7),
    replace(WORDS, channels=128, outputs=64, groups=2),
    replace(WORDS, channels=32, outputs=24, window=5, pad=2),  # blocks of fewer channels
    replace(WORDS, column=1, window=5, pad=2, size=(30, 6)),
    replace(WORDS, stride=2, pad=0, size=(11, 11)),
], ids=str)  # fmt: skip
def test_sums_of_bytes_are_exact(case):
    check_bytes(case)


@needs_vectors
@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("case", [
    replace(WORDS, size=(32, 28)), replace(WORDS, outputs=256, size=(4, 8), window=1, pad=0)
], ids=str)  # fmt: skip
def test_cores_share_the_registers(case, near, monkeypatch):
    """A row of pairs of registers each, or a pair; weights that are far are read once."""
    for each in (amx_conv2d, amx_words):
        monkeypatch.setattr(each, "WORTH_SHARING", 0)
    one = replace(vector_unit(AMX), l2=vector_unit(AMX).l2 if near else 1024)
    monkeypatch.setattr(select, "vector_unit", lambda _: one)
    check_bytes(case, TWO_CORES)
    (kernel,) = kernels(LowerToTasks([AMX])(module_of(case))).values()
    text = schedule_kernel(kernel, TWO_CORES).script()
    assert "T.parallel" in text and "piece" in text


@needs_vectors
def test_weights_that_are_far_are_read_for_all_points(monkeypatch):
    one = replace(vector_unit(AMX), l2=1024)
    monkeypatch.setattr(select, "vector_unit", lambda _: one)
    check_bytes(replace(WORDS, outputs=48, size=(9, 20)))


def test_what_vectors_do_sooner_is_theirs(monkeypatch):
    monkeypatch.undo()
    few = replace(WORDS, window=1, pad=0, outputs=8, size=(56, 56))
    for case, rule in ((few, "packed"), (replace(WORDS, size=(28, 28)), "amx")):
        (kernel,) = kernels(LowerToTasks([AMX])(module_of(case))).values()
        assert rule_of(schedule_kernel(kernel, AMX)) == rule


@needs_vectors
def test_images_of_several_calls_at_once():
    """A batched kernel is one nest, of whose elements each has tensors of its own."""
    case = replace(WORDS, size=(6, 16))
    (kernel,) = kernels(LowerToTasks([AMX])(module_of(case))).values()
    shared = [i for i, p in enumerate(kernel.params) if str(p.ty.dtype) == "int32"]
    together = schedule_kernel(batch_kernel(kernel, 2, shared), AMX)
    assert rule_of(together) == "amx" and together.script().count('"tiles"') == 1


@needs_vectors
@pytest.mark.parametrize("case", [
    CASES["three channels"], CASES["1x1 of few points"], replace(WORDS, outputs=5),
], ids=str)  # fmt: skip
def test_what_leaves_registers_near_empty_is_for_vectors(case):
    check_bytes(case, rule="packed")


@needs_vectors
@settings(max_examples=draws(4))
@given(
    st.builds(
        Case,
        channels=st.integers(8, 24).map(lambda n: 4 * n),
        size=st.tuples(st.integers(5, 20), st.integers(5, 40)),
        outputs=st.integers(8, 70),
        window=st.sampled_from([1, 2, 3]),
        stride=st.integers(1, 2),
        pad=st.integers(0, 2),
        zero=st.integers(0, 255),
    )
)
def test_any_bytes(case):
    codes, weights = data(case)
    mod = scheduled(LowerToTasks([AMX])(module(case, codes, weights)), AMX)
    got = run(mod, AMX, codes)
    np.testing.assert_array_equal(got, reference(case, codes, weights).astype(np.float32))


def narrow_convolution(case: Case, images: int = 1):
    """A convolution with a bias, what is added and a lower limit behind, and its weights."""
    weights = random(1, case.outputs, case.channels, case.window, case.window)
    bias = random(2, 1, case.outputs, 1, 1)
    height, width = ((n + 2 * case.pad - case.window) // case.stride + 1 for n in case.size)

    def body(x, more):
        made = op.nn.conv2d(x, relax.const(weights), strides=case.stride, padding=case.pad)
        return op.nn.relu(op.add(op.add(made, relax.const(bias)), more))

    shapes = [(images, case.channels, *case.size), (images, case.outputs, height, width)]
    return shapes, model(shapes, body), weights, bias


@needs_vectors
@pytest.mark.parametrize(("case", "images", "cores"), [
    (Case(channels=32, size=(12, 17), outputs=40), 1, 1),
    (Case(channels=64, size=(9, 9), outputs=48, window=1, pad=0), 2, 1),
    (Case(channels=32, size=(14, 30), outputs=16, stride=2), 2, 2),
], ids=str)  # fmt: skip
def test_pairs_of_bfloat16(case, images, cores):
    shapes, mod, weights, bias = narrow_convolution(case, images)
    lowered = LowerToTasks([AMX])(mod)
    (kernel,) = kernels(lowered).values()
    narrow = narrow_kernel(kernel, 1.0)
    target = TWO_CORES if cores > 1 else AMX
    (data,) = rounded_parameters(narrow.func)
    short = reads_bfloat16(narrow.func, data, 1.0)
    done = [schedule_kernel(func, target) for func in (narrow.func, short)]
    assert [rule_of(func) for func in done] == ["amx", "amx"]
    call = lowered["main"].body.blocks[0].bindings[0].value
    packed, column = (array_of(a.value) for a in call.args[1].fields if isinstance(a, GenericConst))
    x, more = (random(seed, *shape) for seed, shape in enumerate(shapes, 3))
    given = {"x": x, "more": more, "packed": narrow.pack_weights(packed), "column": column}
    found = []
    for func, kind in zip(done, (np.float32, ml_dtypes.bfloat16), strict=True):
        library = build(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target)
        out = tvm.runtime.tensor(np.full(shapes[1], np.nan, np.float32))
        order = [given["x"].astype(kind), given["packed"], given["column"], given["more"]]
        tvm.runtime.Executable(library).jit()["main"](*map(tvm.runtime.tensor, order), out)
        found.append(out.numpy())
    np.testing.assert_array_equal(*found)

    def rounded(values):
        return values.astype(ml_dtypes.bfloat16).astype(np.float64)

    edge = [(0, 0), (0, 0), (case.pad, case.pad), (case.pad, case.pad)]
    window = (case.window, case.window)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(rounded(x), edge), window, (2, 3))
    windows = windows[:, :, :: case.stride, :: case.stride]
    sums = np.einsum("bcyxij,ocij->boyx", windows, rounded(weights))
    expected = np.maximum(sums + bias + more, 0)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5 * expected.max())


def test_registers_are_given_back(monkeypatch):
    """Once, after the last product; and four products need no more than four loads."""
    monkeypatch.undo()  # by instructions
    case = Case(channels=64, size=(32, 32), outputs=64)
    _, mod, *_ = narrow_convolution(case)
    (kernel,) = kernels(LowerToTasks([AMX])(mod)).values()
    done = convolve_by_tiles(narrow_kernel(kernel, 1.0).func, vector_unit(AMX), 1)
    text = build(
        tvm.IRModule({"main": done.with_attr("global_symbol", "main")}), AMX
    ).inspect_source("asm")
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert text.index("ldtilecfg") < text.index("tdpbf16ps") < text.index("tilerelease")
    assert text.count("tileloadd") <= text.count("tdpbf16ps")
