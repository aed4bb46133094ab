"""The Gelu family beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

from tests.frontends.onnx.contributed import Draw, assert_same, one_node, rewritten
from tests.frontends.onnx.models import run


@pytest.mark.parametrize("operator", ["Gelu", "FastGelu", "QuickGelu"])
def test_gelus_of_one_operand(operator: str) -> None:
    assert_same(*one_node(operator, [Draw().normal(3, 50) * 3]))


@pytest.mark.parametrize("operator", ["BiasGelu", "FastGelu"])
def test_the_bias_is_added_first(operator: str) -> None:
    d = Draw()
    assert_same(*one_node(operator, [d.normal(3, 50), d.normal(50)]))


def test_quick_gelu_has_its_factor() -> None:
    assert_same(*one_node("QuickGelu", [Draw().normal(3, 50)], alpha=1.1))


def test_the_left_half_is_multiplied_by_gelu_of_the_right_one() -> None:
    """ONNX Runtime has no kernel of it for CPUs: this is its description."""
    d = Draw()
    x, bias = d.normal(2, 3, 8), d.normal(8)
    model, feeds = one_node("BiasSplitGelu", [x, bias])
    left, right = np.split(x + bias, 2, axis=-1)
    wanted = left * right * (1 + erf(right / np.sqrt(2))) / 2
    np.testing.assert_allclose(run(rewritten(model), feeds)[0], wanted, rtol=1e-5, atol=1e-6)
