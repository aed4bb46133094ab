"""What is no node of ONNX, or none that we compute, is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.recurrent.nodes import Node
from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.recurrent.activations import CellActivation, activations_of
from tvm_hetero.kernels.recurrent.kernel import recur
from tvm_hetero.kernels.recurrent.recurrence import GRU, LSTM, RNN, Recurrence

REFUSED = {
    "direction 'backward': expected one of forward": {"direction": "backward"},
    "layout 2: expected 0 or 1": {"layout": 2},
    "hidden_size 6: R is for 5 units": {"hidden_size": 6},
    "activation 'Gelu': expected one of Affine": {"activations": ["Gelu", "Tanh", "Tanh"]},
    "activations Tanh, Tanh: expected 3 for each direction": {"activations": ["Tanh", "Tanh"]},
    "Affine without a value in activation_alpha": {"activations": ["Affine", "Tanh", "Tanh"]},
    "ThresholdedRelu without a value": {"activations": ["ThresholdedRelu", "Tanh", "Tanh"]},
    "activation_alpha has 2 values for the 1 of": {
        "activations": ["Elu", "Tanh", "Tanh"], "activation_alpha": [0.1, 0.2]},
    "clip -1.0: expected a number that is not negative": {"clip": -1.0},
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_an_attribute_that_no_kernel_computes_is_refused(message: str) -> None:
    node = Node(LSTM, attributes=REFUSED[message])
    with pytest.raises(ModelError, match=message):
        node.module(node.operands())


WRONG = {
    r"w of float32\[1, 20, 4\]: expected float32\[1, 20, 3\]": ("w", (1, 20, 4), "float32"),
    r"b of float32\[1, 20\]: expected float32\[1, 40\]": ("b", (1, 20), "float32"),
    r"b of float64\[1, 40\]: expected float32": ("b", (1, 40), "float64"),
    r"sequence_lens of int32\[3\]: expected int32 or int64\[2\]": ("sequence_lens", (3,), "int32"),
    r"initial_h of float32\[2, 2, 5\]: expected float32\[1, 2, 5\]": (
        "initial_h", (2, 2, 5), "float32"),
    r"X of shape \[4, 3\]": ("x", (4, 3), "float32"),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_an_operand_of_another_shape_or_type_is_refused(message: str) -> None:
    node, (name, shape, dtype) = Node(LSTM), WRONG[message]
    with pytest.raises(ModelError, match=message):
        node.module({**node.operands(), name: np.zeros(shape, dtype)})


def test_an_input_that_the_cell_has_not_is_refused() -> None:
    node = Node(GRU, given="bp")
    with pytest.raises(ModelError, match="GRU with p: it has no such input"):
        node.module(node.operands())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": "MGU"}, "'MGU': expected one of LSTM, GRU, RNN"),
        ({"steps": 0}, "0 steps, 2 sequences and 5 units: expected at least one of each"),
        ({"activations": ()}, "0 activations a direction: expected 1"),
        ({"dtype": "int32"}, "RNN of int32: expected one of float32, float64"),
    ],
)
def test_what_is_no_recurrence_is_refused(change: dict[str, Any], message: str) -> None:
    fields = {
        "cell": RNN,
        "steps": 3,
        "batch": 2,
        "hidden": 5,
        "activations": activations_of(["Tanh"]),
    }
    with pytest.raises(ModelError, match=message):
        recur(Recurrence(**{**fields, **change}))


def test_values_for_functions_that_take_none_say_nothing() -> None:
    assert activations_of(["tanh"], [0.5], [0.5]) == (CellActivation("Tanh"),)
