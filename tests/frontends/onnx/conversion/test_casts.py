"""Casts to and from every 8-bit float, packed types, and integers from beyond their range."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

RNG = np.random.default_rng(0)
# Infinities, NaN, ends of ranges and the halves beside them, denormals and their halves.
EDGES = [
    0, -0.0, np.nan, np.inf, -np.inf, 448, 449, 464, 465, -480, 240, 248, 250, 57344, 60000, 61440,
    61441, 1e38, 2**-9, 2**-10, 2**-10 * 1.01, 1.5 * 2**-9, 2**-17, 2**-16, 1.5 * 2**-16, -1e-10,
]  # fmt: skip
NUMBERS = np.concatenate([EDGES, RNG.standard_normal(99), np.exp(RNG.standard_normal(200) * 6)])
KINDS = {
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
}


def as_floats(arrays: list[Array]) -> list[Array]:
    """8-bit floats as float32, in which NaN are compared and not their bits."""
    return [a.astype(np.float32) if a.dtype.itemsize == 1 else a for a in arrays]


def test_numbers_become_8_bit_floats_as_onnx_says() -> None:
    with np.errstate(all="ignore"):
        feeds: dict[str, Array] = {t: NUMBERS.astype(t) for t in ("float16", "float32", "float64")}
    nodes = []
    for kind in KINDS.values():
        for saturate in (0, 1):
            for source in feeds:
                name = f"{kind}_{saturate}_{source}"
                nodes += [
                    helper.make_node("Cast", [source], [f"q{name}"], to=kind, saturate=saturate),
                    helper.make_node("Cast", [f"q{name}"], [f"y{name}"], to=TensorProto.FLOAT),
                ]
    model = typed_model(nodes, feeds, opset=19)
    with np.errstate(all="ignore"):
        assert_same(model, feeds, evaluate(model, feeds), rtol=0, atol=0)


def test_every_code_of_every_8_bit_float_is_read() -> None:
    codes = np.arange(256, dtype=np.uint8)
    feeds: dict[str, Array] = {k: codes.view(getattr(ml_dtypes, k)) for k in KINDS}
    feeds["float8_e8m0fnu"] = codes.view(ml_dtypes.float8_e8m0fnu)
    nodes = [
        helper.make_node("Cast", [name], [f"y_{name}_{to}"], to=to)
        for name in feeds
        for to in (TensorProto.FLOAT, TensorProto.DOUBLE)
    ]
    model = typed_model(nodes, feeds, opset=24)
    expected = [feeds[n].astype(t) for n in feeds for t in (np.float32, np.float64)]
    assert_same(model, feeds, expected, rtol=0, atol=0)


@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two_are_rounded_as_they_are_asked_to(saturate: int) -> None:
    x = np.abs(np.concatenate([NUMBERS, [3.4e38, 2**-127, 2**-128, 1e-40]])).astype(np.float32)
    nodes = []
    for mode in ("up", "down", "nearest"):
        cast = {"to": TensorProto.FLOAT8E8M0, "saturate": saturate, "round_mode": mode}
        nodes += [
            helper.make_node("Cast", ["x"], [f"q{mode}"], **cast),
            helper.make_node("Cast", [f"q{mode}"], [mode], to=TensorProto.FLOAT),
        ]
    model = typed_model(nodes, {"x": x}, opset=24)
    assert_same(model, {"x": x}, evaluate(model, {"x": x}), rtol=0, atol=0)


def test_packed_types_live_inside_a_model() -> None:
    x = np.array([0.2, 0.25, 0.26, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -3, 7.2, 10, -10], np.float32)
    whole = np.arange(-8, 8).astype(np.int8)
    constants: dict[str, Array] = {
        "int4": whole.astype(ml_dtypes.int4),
        "uint4": (whole + 8).astype(ml_dtypes.uint4),
        "float4": np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn),
    }
    to = TensorProto.FLOAT
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=TensorProto.FLOAT4E2M1),
        helper.make_node("Cast", ["q"], ["y"], to=to),
        helper.make_node("Cast", ["n"], ["p"], to=TensorProto.INT4),
        helper.make_node("Cast", ["p"], ["wrapped"], to=to),
    ]
    for name in constants:
        nodes += [
            helper.make_node("Cast", [name], [f"f_{name}"], to=to),
            helper.make_node("Add", [f"f_{name}", "zero"], [f"sum_{name}"]),
        ]
    feeds: dict[str, Array] = {"x": x, "n": np.array([7, 8, -8, -9], np.int32)}
    feeds["zero"] = np.zeros(16, np.float32)
    model = typed_model(nodes, feeds, constants, opset=23)
    expected = [
        x.astype(ml_dtypes.float4_e2m1fn).astype(np.float32),
        np.array([7, -8, -8, 7], np.float32),
        *(c.astype(np.float32) for c in constants.values()),
    ]
    assert_same(model, feeds, expected, rtol=0, atol=0)


def test_packed_inputs_and_outputs_are_refused_by_name() -> None:
    x = np.zeros(3, np.float32)
    model = typed_model(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)], {"x": x}, opset=23
    )
    with pytest.raises(ModelError, match="The output 'y' is of type int4, whose elements are no"):
        from_onnx(model)


def test_what_is_beyond_an_integer_becomes_its_smallest() -> None:
    x = np.array([1.9, -1.9, 3e9, -3e9, 3e19, np.nan, np.inf, -np.inf], np.float32)
    nodes = [
        helper.make_node("Cast", [source], [f"{source}_{to}"], to=to)
        for source in ("x", "half", "double")
        for to in (TensorProto.INT32, TensorProto.INT64, TensorProto.UINT64, TensorProto.BOOL)
    ]
    with np.errstate(all="ignore"):
        feeds: dict[str, Array] = {"x": x, "half": x.astype(np.float16), "double": x * 1.0}
    feeds["double"] = x.astype(np.float64)
    assert_same(typed_model(nodes, feeds), feeds)


def test_of_what_is_beyond_32_bits_the_last_are_left() -> None:
    x = np.array([-1.5, 5e9, -3e9, 2**32 - 1, 2**31, 1e30, np.nan, np.inf])
    model = typed_model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT32)], {"x": x})
    lasts = [2**32 - 1, 5 * 10**9 - 2**32, -3 * 10**9, 2**32 - 1, 2**31, 0, 0, 0]
    assert_same(model, {"x": x}, [np.array([n % 2**32 for n in lasts], np.uint32)])
