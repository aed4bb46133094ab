"""What a case is: an operator (or a short chain of them) as an ONNX model, and how much it does.

The one model goes to ONNX Runtime as it is and to us through the front end, so that both compute
the same thing from the same weights.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Shape = tuple[int, ...]
Nodes = tuple[onnx.NodeProto, ...]
# What limits a kernel at best: multiply-adds, a copy loop, or a loop that only reads.
Bound = Literal["compute", "copy", "read"]
OPSET = 17
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Case:
    """One operator with its shapes.

    Attributes
    ----------
    name
        Shapes and attributes, unique in its family.
    nodes
        ONNX nodes; the last one's first output is the result.
    inputs
        Shapes of what varies, by name.
    weights
        Shapes of constants that are drawn at random, or the value of a scalar.
    work
        Floating-point operations, or bytes read and written at least once (see ``bound``).
    where
        Which network the shapes are from.
    dtype
        Of everything, in NumPy's words.
    """

    name: str
    nodes: Nodes
    inputs: Mapping[str, Shape]
    weights: Mapping[str, Shape | float]
    work: float
    bound: Bound
    where: str = ""
    dtype: str = "float32"

    @property
    def unit(self) -> str:
        """What the speed is given in."""
        return "GFLOP/s" if self.bound == "compute" else "GB/s"

    @property
    def weight_bytes(self) -> int:
        """Size of the constants."""
        shapes = [w for w in self.weights.values() if isinstance(w, tuple)]
        return np.dtype(self.dtype).itemsize * sum(math.prod(shape) for shape in shapes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Inputs, the same in every run."""
        return {name: _random(name, shape, self.dtype) for name, shape in self.inputs.items()}

    def model(self) -> onnx.ModelProto:
        """The case as a whole ONNX model."""
        constants = [
            numpy_helper.from_array(
                _random(name, w, self.dtype) if isinstance(w, tuple) else np.array(w, self.dtype),
                name,
            )
            for name, w in self.weights.items()
        ]
        graph = helper.make_graph(
            list(self.nodes),
            "case",
            [_tensor(name, shape, self.dtype) for name, shape in self.inputs.items()],
            [_tensor(self.nodes[-1].output[0], None, self.dtype)],
            constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        return model


def _tensor(name: str, shape: Shape | None, dtype: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def _random(name: str, shape: Shape, dtype: str) -> NDArray[Any]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)


def node(kind: str, inputs: Sequence[str], output: str = "y", **attributes: Any) -> onnx.NodeProto:
    """An ONNX node with one output."""
    return helper.make_node(kind, list(inputs), [output], **attributes)


def moved(*shapes: Shape) -> float:
    """Bytes of float32 tensors of these shapes."""
    return float(FLOAT_BYTES * sum(math.prod(shape) for shape in shapes))
