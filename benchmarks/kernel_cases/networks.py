"""Operators of the nine light models, with the shapes of all they read and write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import onnx

from tvm_hetero.frontends.onnx import light_models

from .case import Shape


@dataclass(frozen=True)
class Operator:
    """A node of a model; ``attributes`` by name."""

    model: str
    kind: str
    shapes: tuple[Shape, ...]
    output: Shape
    attributes: dict[str, Any]

    def ints(self, name: str, default: list[int]) -> list[int]:
        """An attribute that is a list of integers."""
        return [int(v) for v in self.attributes.get(name, default)]


def operators(*kinds: str) -> Iterator[Operator]:
    """All operators of these kinds, model by model, in program order."""
    for name, path in light_models().items():
        yield from (op for op in _operators(name, str(path)) if op.kind in kinds)


@lru_cache(maxsize=16)
def _operators(name: str, path: str) -> tuple[Operator, ...]:
    # The models as shipped: weights are ConstantOfShape, so that reading them costs nothing, and
    # no simplification changes the shapes of what is collected here.
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    graph = model.graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in [*graph.input, *graph.value_info, *graph.output]
    }
    return tuple(
        Operator(
            name,
            node.op_type,
            tuple(shapes.get(i, ()) for i in node.input),
            shapes.get(node.output[0], ()),
            {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute},
        )
        for node in graph.node
    )
