"""Normalizations over any axes, with all outputs, and in training, as ONNX Runtime has them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from tests.frontends.onnx.expansion.test_walk import same
from tests.frontends.onnx.running import Array, assert_same, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

X = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
SCALE = np.random.default_rng(1).standard_normal((2, 4, 3)).astype(np.float32)


def test_layers_are_normalized_over_any_axes_with_all_statistics() -> None:
    nodes: list[NodeProto] = []
    constants: dict[str, Array] = {"row": SCALE[0, 0]}
    for axis in (0, 1, 2, -1, -2):
        constants[f"s{axis}"] = SCALE[(0,) * (axis % 3)]
        outputs = [f"{o}{axis}" for o in ("y", "mean", "inverse")]
        operands = ["x", f"s{axis}", f"s{axis}"]
        nodes.append(helper.make_node("LayerNormalization", operands, outputs, axis=axis))
        nodes.append(
            helper.make_node(
                "LayerNormalization", operands[:2], [f"only{axis}"], axis=axis, epsilon=0.1
            )
        )
    nodes.append(helper.make_node("LayerNormalization", ["x", "row"], ["broadcast"], axis=1))
    model = typed_model(nodes, {"x": X}, constants)
    same(model, {"x": X})
    assert_same(model, {"x": X}, rtol=1e-4)


def test_statistics_of_double_precision_keep_their_digits() -> None:
    x = X.astype(np.float64)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean"], axis=1)
    model = typed_model([node], {"x": x}, {"s": SCALE[0].astype(np.float64)})
    same(model, {"x": x})


def test_means_of_squares_are_taken_over_all_axes() -> None:
    constants = {f"s{axis}": SCALE[(0,) * axis] for axis in (0, 1, 2)}
    nodes = [
        helper.make_node("RMSNormalization", ["x", f"s{axis}"], [f"y{axis}"], axis=axis)
        for axis in (0, 1, 2)
    ]
    assert_same(typed_model(nodes, {"x": X}, constants, opset=23), {"x": X}, rtol=1e-4)


def test_a_batch_normalized_by_its_own_statistics_moves_the_running_ones() -> None:
    given = {name: np.abs(SCALE[0, :, 0]) + i for i, name in enumerate("sbmv")}
    outputs = ["y", "running_mean", "running_var"]
    attributes = {"training_mode": 1, "momentum": 0.7, "epsilon": 0.01}
    node = helper.make_node("BatchNormalization", ["x", *given], outputs, **attributes)
    model = typed_model([node], {"x": X}, given)
    same(model, {"x": X})
    assert_same(model, {"x": X}, rtol=1e-4)


def test_dropout_at_inference_drops_nothing_and_says_so() -> None:
    nodes = [
        helper.make_node("Dropout", ["x"], ["kept", "mask"]),
        helper.make_node("Where", ["mask", "kept", "zero"], ["y"]),
    ]
    zero = {"zero": np.array(0, np.float32)}
    assert_same(typed_model(nodes, {"x": X}, zero), {"x": X}, [X])


def test_dropout_in_training_is_refused() -> None:
    node = helper.make_node("Dropout", ["x", "r", "t"], ["y"], name="drop")
    given = {"r": np.array(0.5, np.float32), "t": np.array(True)}
    model = typed_model([node], {"x": X}, given)
    with pytest.raises(ModelError, match=r"'drop' \(Dropout\) is in training mode"):
        from_onnx(model)


@pytest.mark.parametrize("axis", [3, 5, -4, 2**63 - 1])
@pytest.mark.parametrize("operator", ["RMSNormalization", "LayerNormalization"])
def test_an_axis_that_is_not_there_is_refused(operator: str, axis: int) -> None:
    node = helper.make_node(operator, ["x", "s"], ["y"], axis=axis)
    model = typed_model([node], {"x": X}, {"s": SCALE}, opset=23)
    with pytest.raises(ModelError, match=r"names axis|onnx finds the model invalid"):
        from_onnx(model)


def test_a_single_number_has_no_axis_to_be_normalized_over() -> None:
    node = helper.make_node("RMSNormalization", ["x", "s"], ["y"], axis=5)
    model = typed_model([node], {"x": X[0, 0, 0]}, {"s": SCALE[0, 0]}, opset=23)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(ModelError, match="names axis 5, and there are 0 dimensions"):
        from_onnx(model)


def test_layers_of_float64_are_normalized_in_it() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 4))
    constants = {"s": rng.standard_normal(4), "b": rng.standard_normal(4)}
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"], epsilon=0.01)
    away = x - x.mean(1, keepdims=True)
    wanted = away / np.sqrt((away**2).mean(1, keepdims=True) + np.float32(0.01))
    wanted = wanted * constants["s"] + constants["b"]
    assert_same(typed_model([node], {"x": x}, constants), {"x": x}, [wanted])
