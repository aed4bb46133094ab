"""Fused convolutions and pooling with channels last, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, assert_same, one_node, rewritten
from tests.frontends.onnx.models import run
from tvm_hetero.errors import ModelError

ACTIVATIONS: list[tuple[str, list[float]]] = [
    ("Relu", []),
    ("Sigmoid", []),
    ("Tanh", []),
    ("LeakyRelu", [0.3]),
    ("Clip", [-0.2, 0.4]),
    ("HardSigmoid", [0.3, 0.4]),
    ("HardSwish", [1 / 6, 0.5]),
    ("", []),
]


@pytest.mark.parametrize(("activation", "parameters"), ACTIVATIONS)
@pytest.mark.parametrize("is_added", [False, True])
def test_the_activation_is_of_the_sum(
    activation: str, parameters: list[float], is_added: bool
) -> None:
    d = Draw()
    operands = [d.normal(1, 3, 8, 8), d.normal(4, 3, 3, 3), d.normal(4)]
    given = {"activation": activation} if activation else {}
    more = {"activation_params": parameters} if parameters else {}
    rest = [d.normal(1, 4, 4, 4)] if is_added else []
    window = {"strides": [2, 2], "pads": [1, 1, 0, 0]}
    assert_same(*one_node("FusedConv", [*operands, *rest], **window, **given, **more))


def test_missing_parameters_are_refused() -> None:
    d = Draw()
    operands = [d.normal(1, 3, 8, 8), d.normal(4, 3, 3, 3)]
    model, _ = one_node("FusedConv", operands, activation="LeakyRelu")
    with pytest.raises(ModelError, match="has 0 parameters of its activation LeakyRelu, not 1"):
        rewritten(model)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_max_pooling_of_codes_with_channels_last(dtype: type) -> None:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0], "ceil_mode": 1}
    assert_same(*one_node("NhwcMaxPool", [Draw().codes(dtype, 1, 8, 8, 3)], **window))


def test_convolution_with_channels_last() -> None:
    """ONNX Runtime has no kernel of it for CPUs: it is Conv on transposed operands."""
    d = Draw()
    x, w = d.normal(1, 3, 8, 8), d.normal(4, 3, 3, 3)
    last = [np.ascontiguousarray(np.moveaxis(each, 1, -1)) for each in (x, w)]
    model, feeds = one_node("NhwcConv", last, pads=[1, 1, 1, 1])
    plain, plain_feeds = one_node("Conv", [x, w], domain="", pads=[1, 1, 1, 1])
    wanted = np.moveaxis(run(plain, plain_feeds)[0], 1, -1)
    np.testing.assert_allclose(run(rewritten(model), feeds)[0], wanted, rtol=1e-5, atol=1e-5)


def test_layouts_of_one_processor_are_refused_with_what_to_do() -> None:
    d = Draw()
    model, _ = one_node("Conv", [d.normal(1, 8, 8, 8)] * 2, domain="com.microsoft.nchwc")
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(ModelError, match="graph_optimization_level = ORT_ENABLE_EXTENDED"):
        rewritten(model)
