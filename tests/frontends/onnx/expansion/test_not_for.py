"""What tvm_hetero is not for is refused with what to do."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx


@pytest.mark.parametrize("operator", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
def test_random_numbers_are_refused_by_the_name_of_the_operator(operator: str) -> None:
    nodes = [helper.make_node(operator, ["x"], ["n"], name="noise")]
    nodes.append(helper.make_node("Add", ["x", "n"], ["y"]))
    model = typed_model(nodes, {"x": np.zeros((2, 3), np.float32)}, opset=22)
    with pytest.raises(ModelError, match=rf"'noise' \({operator}\) draws random numbers"):
        from_onnx(model)


def test_files_of_images_are_refused() -> None:
    node = helper.make_node("ImageDecoder", ["x"], ["y"], name="decode")
    model = typed_model([node], {"x": np.zeros(9, np.uint8)}, opset=20)
    with pytest.raises(ModelError, match=r"'decode' \(ImageDecoder\) decodes image files"):
        from_onnx(model)
