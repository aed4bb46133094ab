"""Convolutions of bytes, exact in 32 bits on every target, by the bytes' own instructions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.kernels.helpers import AVX2, AVX512, SSE, kernels, run, runs_here, scheduled
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of, schedule_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

VNNI = tvm.target.Target({"kind": "llvm", "mcpu": "znver5", "num-cores": 1})
VNNI_256 = tvm.target.Target({"kind": "llvm", "mcpu": "alderlake", "num-cores": 1})
TARGETS = [pytest.param(t, id=str(t.attrs["mcpu"])) for t in (VNNI, VNNI_256, AVX512, AVX2, SSE)]


@dataclass(frozen=True)
class Case:
    """A convolution of square windows; by default one that has nothing special."""

    channels: int = 16
    size: tuple[int, int] = (9, 12)
    outputs: int = 20
    window: int = 3
    stride: int = 1
    pad: int = 1
    groups: int = 1
    dilation: int = 1
    zero: int = 3
    dtype: str = "uint8"
    flat: bool = False
    column: int = 0  # 1 for windows of one column

    @property
    def rank(self) -> int:
        """Spatial axes."""
        return 1 if self.flat else 2

    @property
    def kernel(self) -> tuple[int, ...]:
        """The window."""
        return (self.window,) * self.rank if self.column == 0 else (self.window, 1)


def data(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Codes and weights, the extreme ones among them."""
    d = np.random.default_rng(case.channels + case.outputs)
    least = 0 if case.dtype == "uint8" else -128
    image = (1, case.channels, *case.size[-case.rank :])
    codes = d.integers(least, least + 256, image).astype(case.dtype)
    filters = (case.outputs, case.channels // case.groups, *case.kernel)
    return codes, d.integers(-128, 128, filters).astype(np.int32)


def reference(case: Case, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums over windows in numpy."""
    image = codes.astype(np.int64) - case.zero
    if case.flat:
        image, weights = image[:, :, np.newaxis], weights[:, :, np.newaxis]
    rows, columns = (0 if case.flat else case.pad), (0 if case.column else case.pad)
    image = np.pad(image, [(0, 0), (0, 0), (rows, rows), (columns, columns)])
    s, d, g = case.stride, case.dilation, case.groups
    reach = [(k - 1) * d + 1 for k in weights.shape[2:]]
    windows = np.lib.stride_tricks.sliding_window_view(image, reach, axis=(2, 3))
    windows = windows[:, :, :: 1 if case.flat else s, :: 1 if case.column else s, ::d, ::d]
    parts = np.split(windows, g, axis=1), np.split(weights.astype(np.int64), g)
    sums = [np.einsum("bcyxij,ocij->boyx", a, w) for a, w in zip(*parts, strict=True)]
    total = np.concatenate(sums, axis=1)
    return total[:, :, 0] if case.flat else total


def module(
    case: Case, codes: np.ndarray, weights: np.ndarray, dtype: str = "float32"
) -> tvm.IRModule:
    """The sums in float32, or as another type."""
    bb = relax.BlockBuilder()
    image = relax.Var("codes", relax.TensorType(codes.shape, case.dtype))
    convolve = relax.op.nn.conv1d if case.flat else relax.op.nn.conv2d
    pads = [case.pad, 0] if case.column else [case.pad] * case.rank
    with bb.function("main", [image]):
        with bb.dataflow():
            numbers = bb.emit(relax.op.astype(image, "int32"))
            if case.zero:
                numbers = bb.emit(relax.op.subtract(numbers, relax.const(case.zero, "int32")))
            total = convolve(
                numbers,
                relax.const(tvm.runtime.tensor(weights)),
                strides=[case.stride, 1] if case.column else [case.stride] * case.rank,
                padding=pads * 2,
                dilation=[case.dilation] * case.rank,
                groups=case.groups,
            )
            result = bb.emit_output(relax.op.astype(bb.emit(total), dtype))
        bb.emit_func_output(result)
    return bb.get()


def assert_exact(case: Case, target: tvm.target.Target) -> None:
    codes, weights = data(case)
    lowered = LowerToTasks([target])(module(case, codes, weights))
    mod = scheduled(lowered, target)
    assert {rule_of(f) for f in kernels(mod).values()} <= {"packed", "depthwise"}
    if runs_here(target):
        got = run(mod, target, codes)
        np.testing.assert_array_equal(got, reference(case, codes, weights).astype(np.float32))


CASES = {
    "plain": Case(),
    "three channels": Case(channels=3),
    "channels and outputs that are no whole words or blocks": Case(channels=6, outputs=10),
    "no padding": Case(pad=0),
    "1x1": Case(window=1, pad=0),
    "1x1 of few points": Case(window=1, pad=0, size=(3, 3), channels=20, outputs=4),
    "1x1 by a stride": Case(window=1, pad=0, stride=2),
    "stride": Case(stride=2),
    "stride without padding": Case(stride=2, pad=0, size=(11, 11)),
    "dilated": Case(dilation=2, pad=2),
    "groups": Case(groups=2),
    "signed codes": Case(dtype="int8", zero=-7),
    "signed codes about zero": Case(dtype="int8", zero=0, channels=5),
    "depthwise": Case(channels=8, groups=8, outputs=8, size=(20, 20)),
    "depthwise by a stride": Case(channels=8, groups=8, outputs=8, size=(20, 20), stride=2),
    "windows of one column": Case(column=1, window=5, pad=2, size=(30, 6)),
    "one row": Case(flat=True, size=(1, 40), window=5, pad=2),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_sums_are_exact_by_whatever_instructions(name: str, target: tvm.target.Target) -> None:
    assert_exact(CASES[name], target)


@settings(max_examples=draws(12))
@given(
    st.builds(
        Case,
        channels=st.integers(1, 40),
        size=st.tuples(st.integers(5, 24), st.integers(5, 40)),
        outputs=st.integers(1, 70),
        window=st.sampled_from([1, 2, 3, 5]),
        stride=st.integers(1, 3),
        pad=st.integers(0, 2),
        zero=st.integers(0, 255),
    )
)
def test_any_convolution(case: Case) -> None:
    assert_exact(case, VNNI if runs_here(VNNI) else AVX2)


def test_the_greatest_sums_fit() -> None:
    case = Case(channels=3640, size=(3, 16), outputs=1, zero=0)
    codes = np.full((1, 3640, 3, 16), 255, np.uint8)
    weights = np.full((1, 3640, 3, 3), -128, np.int32)
    mod = scheduled(LowerToTasks([AVX2])(module(case, codes, weights)), AVX2)
    got = run(mod, AVX2, codes)
    np.testing.assert_array_equal(got, reference(case, codes, weights).astype(np.float32))


def test_depthwise_sums_too_large_for_float32_are_exact() -> None:
    case = Case(channels=4, groups=4, outputs=4, size=(40, 40), window=31, pad=15, zero=0)
    codes = np.full((1, 4, 40, 40), 255, np.uint8)
    codes[..., ::3] = 254
    weights = np.full((4, 1, 31, 31), -127, np.int32)
    mod = scheduled(LowerToTasks([AVX2])(module(case, codes, weights, "int32")), AVX2)
    np.testing.assert_array_equal(run(mod, AVX2, codes), reference(case, codes, weights))


@pytest.mark.parametrize(
    ("target", "instruction"),
    [(VNNI, "vpdpbusd"), (VNNI_256, "vpdpbusd"), (AVX512, "vpmaddwd"), (SSE, "pmaddwd")],
)
def test_the_sums_are_of_the_instructions_that_the_target_has(
    target: tvm.target.Target, instruction: str
) -> None:
    (kernel,) = kernels(
        LowerToTasks([target])(module(CASES["plain"], *data(CASES["plain"])))
    ).values()
    main = schedule_kernel(kernel, target).with_attr("global_symbol", "main")
    assembly = build(tvm.IRModule({"main": main}), target).inspect_source("asm")
    assert assembly.count(f"\t{instruction}") > 8


def test_scheduled_it_is_right_in_tvms_own_pipeline() -> None:
    case = CASES["plain"]
    codes, weights = data(case)
    mod = scheduled(LowerToTasks([AVX2])(module(case, codes, weights)), AVX2)
    got = relax.VirtualMachine(tvm.compile(mod, AVX2), tvm.cpu())["main"](tvm.runtime.tensor(codes))
    np.testing.assert_array_equal(got.numpy(), reference(case, codes, weights).astype(np.float32))


NEON = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]})
CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_80"})


@pytest.mark.parametrize(
    "targets", [[NEON], [VNNI, NEON], [VNNI, CUDA]], ids=["arm", "both", "gpu"]
)
def test_where_a_target_multiplies_no_bytes_it_is_of_floats(
    targets: list[tvm.target.Target],
) -> None:
    case = CASES["plain"]
    codes, weights = data(case)
    lowered = LowerToTasks(targets)(module(case, codes, weights))
    assert not [name for name in kernels(lowered) if "bytes" in name]
    got = run(scheduled(lowered, AVX2), AVX2, codes)
    np.testing.assert_array_equal(got, reference(case, codes, weights).astype(np.float32))


def test_groups_of_no_whole_words_are_of_floats() -> None:
    case = Case(channels=6, groups=2)
    codes, weights = data(case)
    lowered = LowerToTasks([AVX2])(module(case, codes, weights))
    assert not [name for name in kernels(lowered) if "bytes" in name]
    got = run(scheduled(lowered, AVX2), AVX2, codes)
    np.testing.assert_array_equal(got, reference(case, codes, weights).astype(np.float32))


@pytest.mark.parametrize("change", ["weights", "zero"])
def test_what_is_no_convolution_of_codes_is_left_to_tvm(change: str) -> None:
    case = Case(zero=300 if change == "zero" else 3)
    codes, weights = data(case)
    if change == "weights":
        weights = weights * 100
    lowered = LowerToTasks([AVX2])(module(case, codes, weights))
    assert not [name for name in kernels(lowered) if "bytes" in name]
    got = run(scheduled(lowered, AVX2), AVX2, codes)
    np.testing.assert_array_equal(got, reference(case, codes, weights).astype(np.float32))
