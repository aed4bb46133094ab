"""DFT and STFT beside onnx's reference, which has NumPy's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.expansion.fourier import fourier_matrix, inverse_matrix

REAL = np.random.default_rng(0).standard_normal((2, 10, 3, 1)).astype(np.float32)
COMPLEX = np.random.default_rng(1).standard_normal((2, 10, 3, 2)).astype(np.float32)

# Operand, axis, length (0: as it is), attributes.
TRANSFORMS: list[tuple[str, int, int, dict[str, Any]]] = [
    ("real", 1, 0, {}),
    ("real", -2, 0, {"onesided": 1}),
    ("real", 1, 16, {"onesided": 1}),
    ("real", 1, 7, {}),
    ("complex", 1, 0, {}),
    ("complex", 1, 9, {"inverse": 1}),
    ("complex", 1, 0, {"inverse": 1, "onesided": 1}),
    ("complex", 1, 13, {"inverse": 1, "onesided": 1}),
]


def test_transforms_of_every_kind_are_those_of_numpy() -> None:
    nodes = []
    constants: dict[str, Array] = {}
    for n, (name, axis, length, attributes) in enumerate(TRANSFORMS):
        constants |= {f"axis{n}": np.array(axis), f"length{n}": np.array(length)}
        given = [name, f"length{n}" if length else "", f"axis{n}"]
        nodes.append(helper.make_node("DFT", given, [f"y{n}"], **attributes))
    feeds: dict[str, Array] = {"real": REAL, "complex": COMPLEX}
    model = typed_model(nodes, feeds, constants, opset=20)
    assert_same(model, feeds, evaluate(model, feeds), atol=1e-4)


def test_the_axis_of_opset_17_is_an_attribute() -> None:
    nodes = [helper.make_node("DFT", ["x"], ["y"]), helper.make_node("DFT", ["x"], ["z"], axis=2)]
    model = typed_model(nodes, {"x": COMPLEX}, opset=17)
    assert_same(model, {"x": COMPLEX}, evaluate(model, {"x": COMPLEX}), atol=1e-4)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_an_inverse_undoes_its_transform(length: int) -> None:
    there = fourier_matrix(length, length, 2, onesided=False).reshape(2 * length, -1)
    back = inverse_matrix(length, length, onesided=False).reshape(2 * length, -1)
    np.testing.assert_allclose(there @ back, np.eye(2 * length), atol=1e-12)


def test_frames_of_a_signal_are_transformed_under_their_window() -> None:
    rng = np.random.default_rng(2)
    signal = rng.standard_normal((2, 50, 1)).astype(np.float32)
    both = rng.standard_normal((1, 40, 2)).astype(np.float32)
    constants: dict[str, Array] = {
        "step": np.array(8),
        "window": np.hanning(16).astype(np.float32),
        "length": np.array(12),
    }
    nodes = [
        helper.make_node("STFT", ["x", "step", "window"], ["windowed"]),
        helper.make_node("STFT", ["x", "step", "", "length"], ["plain"]),
        helper.make_node("STFT", ["x", "step", "window"], ["all"], onesided=0),
        helper.make_node("STFT", ["both", "step", "window"], ["complex"], onesided=0),
    ]
    feeds = {"x": signal, "both": both}
    model = typed_model(nodes, feeds, constants, opset=17)
    frames = np.stack([signal[:, 8 * n : 8 * n + 12, 0] for n in range(5)], 1)
    half = np.fft.rfft(frames)
    wanted = evaluate(typed_model([nodes[0], *nodes[2:]], feeds, constants, opset=17), feeds)
    # Of opset 17 onnx's reference takes a missing `onesided` for 0.
    wanted[0] = wanted[0][:, :, :9]
    wanted.insert(1, np.stack([half.real, half.imag], -1).astype(np.float32))
    for output, array in zip(model.graph.output, wanted, strict=True):
        del output.type.tensor_type.shape.dim[:]
        output.type.tensor_type.ClearField("shape")
        assert array.ndim == 4
    assert_same(model, feeds, wanted, atol=1e-4)


def test_a_transform_whose_length_depends_on_data_is_refused() -> None:
    feeds: dict[str, Array] = {"x": REAL, "n": np.array(8)}
    node = helper.make_node("DFT", ["x", "n"], ["y"], name="spectrum")
    with pytest.raises(ModelError, match=r"'spectrum' \(DFT\) takes its length from 'n'"):
        from_onnx(typed_model([node], feeds, opset=20))
