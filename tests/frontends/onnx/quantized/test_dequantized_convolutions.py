"""Convolutions of dequantized codes are convolutions of the codes, where these are bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, number
from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import compute, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.quantized.dequantized_convolutions import convolve_codes

CHANNELS, OUTPUTS = 16, 32


@dataclass
class Qdq:
    """A convolution in the form of QDQ; what differs from the plain one is said."""

    codes: type = np.uint8
    filters: type = np.int8
    by_channel: bool = False
    bias: str = "codes"  # or "numbers", "another scale", "none"
    between: str = ""  # an operator between the convolution and the next quantizer
    quantized: bool = True
    image: tuple[int, ...] = (9, 12)
    attributes: dict[str, Any] = field(default_factory=lambda: {"pads": [1, 1, 1, 1]})

    def model(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model and its feeds."""
        d = Draw()
        groups = self.attributes.get("group", 1)
        window = [3] * len(self.image)
        scale = d.scales(OUTPUTS) if self.by_channel else number(0.02)
        constants = {
            "xs": number(0.03), "xz": np.array(17, self.codes),
            "w": d.codes(self.filters, OUTPUTS, CHANNELS // groups, *window),
            "ws": scale, "wz": np.full(scale.shape, 128 * (self.filters is np.uint8), self.filters),
            "ys": number(0.5), "yz": np.array(5, self.codes),
            "b": d.codes(np.int16, OUTPUTS).astype(np.int32), "bn": d.normal(OUTPUTS),
            "bs": (np.float32(0.03) * scale).astype(np.float32),
        }  # fmt: skip
        if self.bias == "another scale":
            constants["bs"] = (constants["bs"] * np.float32(1.5)).astype(np.float32)
        axis = {"axis": 0} if self.by_channel else {}
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["numbers"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["weights"], **axis),
        ]
        operands = ["numbers", "weights"]
        if self.bias in ("codes", "another scale"):
            nodes.append(helper.make_node("DequantizeLinear", ["b", "bs"], ["bias"], **axis))
            operands.append("bias")
        operands += ["bn"] if self.bias == "numbers" else []
        nodes.append(helper.make_node("Conv", operands, ["c"], **self.attributes))
        last = "c"
        if self.between:
            nodes.append(helper.make_node(self.between, [last], ["between"]))
            last = "between"
        if self.quantized:
            nodes.append(helper.make_node("QuantizeLinear", [last, "ys", "yz"], ["y"]))
        read = {name for node in nodes for name in node.input}
        feeds = {"x": d.normal(1, CHANNELS, *self.image)}
        return typed_model(nodes, feeds, {k: v for k, v in constants.items() if k in read}), feeds


def run_by_default(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs by ONNX Runtime as its users run it: it convolves codes, too."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


def operators(model: onnx.ModelProto) -> list[str]:
    graph = OnnxGraph(model)
    convolve_codes(graph)
    graph.sweep()
    return [node.op_type for node in graph.nodes]


def assert_same_codes(got: np.ndarray, want: np.ndarray, most: int) -> None:
    """Codes are the same, or a few of them differ by at most so much."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    differ = np.abs(got.astype(int) - want.astype(int))
    assert differ.max() <= most
    assert np.mean(differ > 0) < 1e-2


PLAIN = ["QuantizeLinear", "QLinearConv"]
ALONE = ["QuantizeLinear", "ConvInteger", "Add", "Cast", "Mul"]
CASES = {
    "plain": (Qdq(), PLAIN),
    "a scale for each channel": (Qdq(by_channel=True), PLAIN),
    "unsigned weights": (Qdq(filters=np.uint8), PLAIN),
    "without a bias": (Qdq(bias="none"), PLAIN),
    "groups": (Qdq(attributes={"group": 4, "pads": [1, 1, 1, 1]}), PLAIN),
    "depthwise": (Qdq(attributes={"group": 16, "strides": [2, 2], "pads": [0, 0, 1, 1]}), PLAIN),
    "one row": (Qdq(image=(40,), attributes={"pads": [1, 1]}), PLAIN),
    "pads of the shape": (Qdq(attributes={"auto_pad": "SAME_LOWER", "strides": [2, 2]}), PLAIN),
    "not quantized": (Qdq(quantized=False), ALONE),
    "not quantized, by channel": (Qdq(quantized=False, by_channel=True), ALONE),
    "a function between": (Qdq(between="Sigmoid"), [*ALONE, "Sigmoid", "QuantizeLinear"]),
    "a bias of numbers": (
        Qdq(bias="numbers"),
        ["QuantizeLinear", "ConvInteger", "Cast", "Mul", "Reshape", "Add", "QuantizeLinear"],
    ),
    "a bias of another scale": (
        Qdq(bias="another scale"),
        ["QuantizeLinear", "DequantizeLinear", "ConvInteger", "Cast", "Mul", "Reshape", "Add",
         "QuantizeLinear"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_codes_are_convolved_as_they_are(name: str) -> None:
    case, expected = CASES[name]
    if len(case.image) == 1:
        case.attributes.setdefault("kernel_shape", [3])
    model, feeds = case.model()
    assert sorted(operators(model)) == sorted(expected)
    (want,), (got,) = run_by_default(model, feeds), compute(model, feeds)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
    else:  # what lies between two codes may go either way where numbers were added
        assert_same_codes(got, want, most=0 if expected == PLAIN else 1)


def test_signed_codes_are_convolved_too() -> None:
    """ONNX Runtime adds up numbers there, which may round the other way between two codes."""
    model, feeds = Qdq(codes=np.int8).model()
    assert operators(model) == PLAIN
    (want,), (got,) = run(model, feeds), compute(model, feeds)
    assert_same_codes(got, want, most=1)


def test_a_result_that_others_read_too_stays_numbers() -> None:
    model, feeds = Qdq().model()
    model.graph.node.append(helper.make_node("Relu", ["c"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    assert "QLinearConv" not in operators(model)
    outputs = run(model, feeds), compute(model, feeds)
    np.testing.assert_allclose(outputs[1][1], outputs[0][1], rtol=1e-5, atol=1e-4)


def test_a_result_that_a_branch_reads_too_stays_numbers() -> None:
    model, feeds = Qdq().model()
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(kind, ["c"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)],
        )
        for name, kind in (("then", "Relu"), ("else", "Neg"))
    }
    model.graph.node.append(helper.make_node("If", ["hold"], ["z"], **branches))
    model.graph.input.append(helper.make_tensor_value_info("hold", onnx.TensorProto.BOOL, []))
    model.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    assert "QLinearConv" not in operators(model)
    given = feeds | {"hold": np.array(True)}
    want, got = run(model, given), compute(model, given)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"ws": np.full(CHANNELS, 0.02, np.float32), "wz": np.zeros(CHANNELS, np.int8)},
        {"w": np.full((OUTPUTS, CHANNELS, 3, 3), 255, np.uint8), "wz": np.array(0, np.uint8)},
    ],
    ids=["a scale for each input channel", "weights that are no signed bytes"],
)
def test_other_convolutions_stay_as_they_are(change: dict[str, np.ndarray]) -> None:
    model, _ = Qdq(bias="none").model()
    for tensor in model.graph.initializer:
        if tensor.name in change:
            tensor.CopyFrom(onnx.numpy_helper.from_array(change[tensor.name], tensor.name))
    assert "Conv" in operators(model)


@pytest.mark.parametrize(("value", "axis"), [("weights", 4), ("weights", -5), ("bias", 1)])
def test_an_axis_that_is_not_there_is_refused_not_wrapped_around(value: str, axis: int) -> None:
    model, _ = Qdq(by_channel=True).model()
    (node,) = (node for node in model.graph.node if node.output[0] == value)
    node.attribute[0].i = axis
    with pytest.raises(ModelError, match=rf"names axis {axis}, and there are"):
        from_onnx(model)


@pytest.mark.parametrize("bias", ["numbers", "codes"])
def test_a_bias_of_another_length_is_refused_not_repeated(bias: str) -> None:
    model, _ = Qdq(bias=bias).model()
    (given,) = (t for t in model.graph.initializer if t.name in ("b", "bn"))
    one = onnx.numpy_helper.to_array(given)[:1]
    given.CopyFrom(onnx.numpy_helper.from_array(one, given.name))
    with pytest.raises(ModelError, match=r"bias"):
        from_onnx(model)


def test_a_bias_that_int32_does_not_hold_beside_the_sums_is_added_behind() -> None:
    model, feeds = Qdq(quantized=False).model()
    (given,) = (t for t in model.graph.initializer if t.name == "b")
    large = np.full(OUTPUTS, 2**31 - 1, np.int32)
    given.CopyFrom(onnx.numpy_helper.from_array(large, "b"))
    (want,), (got,) = run(model, feeds), compute(model, feeds)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_scales_whose_product_float32_does_not_hold_multiply_one_after_the_other() -> None:
    model, _ = Qdq(quantized=False, bias="none").model()
    scales = {"xs": np.float32(1e-20), "ws": np.float32(1e-20)}
    for tensor in model.graph.initializer:
        if tensor.name in scales:
            tensor.CopyFrom(onnx.numpy_helper.from_array(scales[tensor.name], tensor.name))
    assert "Conv" in operators(model)
