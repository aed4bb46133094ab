"""The nodes of a random model or of a loop's body in it, and what all bodies of a model share."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

Array: TypeAlias = np.ndarray[Any, Any]

OPSETS = (13, 16, 18)

# Constants of the model that all bodies may read.
AROUND: dict[str, Array] = {
    "go": np.array(True), "stop": np.array(False), "zero": np.array(0), "one": np.array(1),
    "half": np.array([0.5, 0.5], np.float32),
    "scalar_shape": np.array([], np.int64), "vector_shape": np.array([1]),
}  # fmt: skip


def onnx_type(dtype: str) -> int:
    """ONNX's number of a NumPy type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def as_type(value: float, dtype: str, shape: Sequence[int] = ()) -> Array:
    """A number as another type, whatever becomes of it there, in each element of an array."""
    with np.errstate(all="ignore"):
        return np.full(shape, np.array(value).astype(dtype))


@dataclass(frozen=True)
class Number:
    """A value of one element: its name, NumPy type and shape."""

    name: str
    dtype: str = "int64"
    shape: tuple[int, ...] = ()


class Writer:
    """What is drawn and named for a model, and its constants."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.opset = self.rng.choice(OPSETS)
        self.constants = dict(AROUND)
        self._number = itertools.count()

    def name(self, stem: str) -> str:
        """A name that nothing has."""
        return f"{stem}{next(self._number)}"

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return self.rng.random() < share


class Block:
    """Nodes in their order, and initializers beside them; the model's own, or those of a body."""

    def __init__(self, writer: Writer, *, is_model: bool = False) -> None:
        self.writer, self.rng, self.is_model = writer, writer.rng, is_model
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def add(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node of one output; returns the name of that."""
        made = self.writer.name(operator.lower())
        self.nodes.append(helper.make_node(operator, inputs, [made], **attributes))
        return made

    def constant(self, array: Array) -> str:
        """Add a constant as a node, as an initializer of the block, or as one of the model."""
        name = self.writer.name("k")
        place = self.rng.choice(("node", "block", "model"))
        if place == "node":
            return self.add("Constant", [], value=numpy_helper.from_array(array, name))
        if place == "block":
            self.initializers.append(numpy_helper.from_array(array, name))
        else:
            self.writer.constants[name] = array
        return name
