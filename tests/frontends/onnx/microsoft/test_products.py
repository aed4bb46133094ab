"""FusedMatMul and FusedGemm beside ONNX Runtime."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.frontends.onnx.contributed import Draw, assert_same, one_node, rewritten
from tvm_hetero.errors import ModelError

FLIPS = list(product((0, 1), repeat=2))


def laid_out(x: np.ndarray, flip: int, batch: int) -> np.ndarray:
    """A matrix (b..., M, K) as FusedMatMul reads it with these flags."""
    x = x.swapaxes(-1, -2) if flip else x
    return np.ascontiguousarray(np.moveaxis(x, -2, 0) if batch else x)


@pytest.mark.parametrize(("a_flip", "b_flip"), FLIPS)
@pytest.mark.parametrize(("a_batch", "b_batch"), FLIPS)
def test_matrices_are_transposed_in_all_ways(
    a_flip: int, b_flip: int, a_batch: int, b_batch: int
) -> None:
    d = Draw()
    a = laid_out(d.normal(2, 3, 4, 5), a_flip, a_batch)
    b = laid_out(d.normal(2, 3, 5, 6), b_flip, b_batch)
    flags = {"transA": a_flip, "transB": b_flip, "transBatchA": a_batch, "transBatchB": b_batch}
    assert_same(*one_node("FusedMatMul", [a, b], alpha=0.5, **flags))


def test_a_product_without_a_factor_is_a_product_alone() -> None:
    d = Draw()
    model = assert_same(*one_node("TransposeMatMul", [d.normal(4, 3), d.normal(4, 5)], transA=1))
    assert [node.op_type for node in model.graph.node] == ["Transpose", "MatMul"]


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("Elu", {"alpha": 0.3}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("Selu", {"alpha": 1.2, "gamma": 1.1}),
        ("Softplus", {}),
        ("ThresholdedRelu", {"alpha": 0.3}),
    ],
)
def test_the_activation_of_a_gemm_has_its_parameters(
    activation: str, parameters: dict[str, float]
) -> None:
    d = Draw()
    given = {f"activation_{name}": value for name, value in parameters.items()}
    operands = [d.normal(4, 3), d.normal(5, 4), d.normal(5)]
    flags = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}
    assert_same(*one_node("FusedGemm", operands, activation=activation, **given, **flags))


def test_an_unknown_activation_is_refused_by_name() -> None:
    d = Draw()
    model, _ = one_node("FusedGemm", [d.normal(2, 3), d.normal(3, 2)], activation="Mystery")
    with pytest.raises(ModelError, match=r"FusedGemm\) has the activation 'Mystery'"):
        rewritten(model)
