"""What TVM's importer would compute wrongly, in the right shape, is refused with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.models import make, run, value
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

ONE = [1, 1, 4, 4]


def resize(scales: list[float], shape: list[int] | None = None, **attributes: Any) -> Any:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], "up", **attributes)
    constants = {"s": np.array(scales, np.float32)}
    return make([node], {"x": shape or ONE}, ["y"], constants, opset=19)


def isinf(**attributes: int) -> Any:
    nodes = [
        helper.make_node("IsInf", ["x"], ["b"], **attributes),
        helper.make_node("Cast", ["b"], ["y"], to=1),
    ]
    return make(nodes, {"x": ONE}, ["y"], opset=20)


def roi_align(mode: str) -> Any:
    node = helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], mode=mode)
    rois = {"r": np.array([[0, 0, 3, 3]], np.float32), "i": np.array([0])}
    return make([node], {"x": ONE}, ["y"], rois, opset=16)


REFUSED = [
    (isinf(detect_negative=0), r"\(IsInf\) .* has detect_negative = 0"),
    (isinf(detect_positive=0), r"\(IsInf\) .* has detect_positive = 0"),
    (roi_align("max"), r"\(RoiAlign\) .* has mode = max"),
    (resize([1, 1, 0.5, 0.5], mode="linear", antialias=1), r"'up' \(Resize\) .* has antialias = 1"),
    (resize([1, 1, 0.6, 0.6], mode="linear"), "'up' .* has scales .* no whole sizes of 1x1x4x4"),
    (resize([1, 1, 0.8, 0.8], mode="cubic"), "'up' .* has scales .* no whole sizes of 1x1x4x4"),
]


@pytest.mark.parametrize(("model", "reason"), REFUSED)
def test_forms_that_tvm_ignores_are_refused(model: Any, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        from_onnx(model)


@pytest.mark.parametrize("declared", [None, [1, 1, 5, 10]])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_are_those_that_float32_makes_of_scales(mode: str, declared: Any) -> None:
    """Of 3 times 5/3 onnx infers 4, since the float32 next to 5/3 is below it."""
    up = helper.make_node("Resize", ["x", "", "s"], ["m"], "up", mode=mode)
    again = helper.make_node("Resize", ["m", "", "s2"], ["y"], mode=mode)
    scales = {"s": np.array([1, 1, 5 / 3, 5 / 3], np.float32)}
    scales["s2"] = np.array([1, 1, 1, 1.6], np.float32)
    model = make([up, again], {"x": [1, 1, 3, 6]}, ["y"], scales, opset=19)
    if declared is not None:
        model = make([up], {"x": [1, 1, 3, 6]}, ["m"], {"s": scales["s"]}, opset=19)
        model.graph.output[0].CopyFrom(value("m", declared))
    (expected,) = run(model, {"x": np.zeros((1, 1, 3, 6), np.float32)})
    body = from_onnx(model)["main"].ret_ty
    assert tuple(int(n) for n in body.shape.values) == expected.shape
    assert expected.shape == (1, 1, 5, 10 if declared else 16)


KEPT = [
    isinf(detect_negative=1),
    roi_align("avg"),
    resize([1, 1, 2, 2], mode="linear"),
    resize([1, 1, 0.5, 0.5], mode="cubic"),
    resize([1, 1, 4 / 3, 5 / 3], [1, 1, 3, 6], mode="linear"),  # in float32 not exactly 4 and 10
    resize([1, 1, 0.6, 0.6], mode="nearest"),
]


@pytest.mark.parametrize("model", KEPT)
def test_forms_that_tvm_computes_are_imported(model: Any) -> None:
    assert "main" in {gvar.name_hint for gvar in from_onnx(model).functions}
