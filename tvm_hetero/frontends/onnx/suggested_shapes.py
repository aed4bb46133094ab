"""Shapes for open inputs that the model is known to take: they were tried.

Each candidate gives every open dimension a size (`dimension_roles`); the walk over the graph infers
all shapes with it, and a candidate at which two operands do not fit, or something comes out empty
or other than declared, is dropped.  The first that passes is suggested.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx
from onnx import NodeProto, TypeProto, ValueInfoProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.dimension_roles import (
    IMAGE,
    convolved_channels,
    image_sizes,
    role_of,
    usual_sizes,
)
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute, static_dims

Shapes: TypeAlias = dict[str, tuple[int, ...]]

_TRIES = 24
_NODES = 6000
"""Nodes that may be looked at, or six candidates: some seconds at most where none fits."""


def suggest_shapes(
    model: onnx.ModelProto, inputs: Sequence[ValueInfoProto], limits: OnnxLimits
) -> Shapes | None:
    """Return a shape for each of the inputs that are open, or None where none is found.

    Parameters
    ----------
    model : onnx.ModelProto
        With data; not changed.
    inputs : sequence of ValueInfoProto
        Its inputs but for initializers.
    limits : OnnxLimits
        Caps for the walk.
    """
    inputs = [_with_rank(model, value) for value in inputs]
    operators = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    # With functions and branches opened; where these are refused whatever the sizes, without.
    tries = max(6, min(_TRIES, _NODES // len(model.graph.node)))
    for taken in (operators, None):
        for sizes in itertools.islice(_candidates(model, inputs), tries):
            shapes = {value.name: _shape(value, sizes) for value in inputs}
            if _works(model, inputs, shapes, taken, limits):
                return shapes
    return None


def _key(value: ValueInfoProto, axis: int) -> str:
    """What an open dimension shares its size with: all of the same symbol."""
    return value.type.tensor_type.shape.dim[axis].dim_param or f"{value.name}\0{axis}"


def _with_rank(model: onnx.ModelProto, value: ValueInfoProto) -> ValueInfoProto:
    """Return a value that has dimensions, if need be as many as a convolution wants."""
    copy = ValueInfoProto()
    copy.CopyFrom(value)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    wanted = convolved_channels(value.name, model.graph.node, constants)
    tensor = copy.type.tensor_type
    if not tensor.HasField("shape"):
        for _ in range(wanted[0] if wanted else 1):
            tensor.shape.dim.add()
    dims = tensor.shape.dim
    if wanted and wanted[0] == len(dims) and not dims[1].HasField("dim_value"):
        dims[1].dim_value = wanted[1]
    return copy


def _candidates(
    model: onnx.ModelProto, inputs: Sequence[ValueInfoProto]
) -> Iterator[Mapping[str, int]]:
    """Yield sizes by `_key`, the likeliest first."""
    roles: dict[str, str] = {}
    images: dict[str, int] = {}  # the place of an image's dimension: height 0, width 1
    fixed = []
    for value in inputs:
        seen = 0
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            role = role_of(value, axis)
            if dim.HasField("dim_value"):
                fixed += [dim.dim_value] if role == IMAGE else []
            else:
                roles.setdefault(_key(value, axis), role)
                images.setdefault(_key(value, axis), min(seen, 1))
            seen += role == IMAGE
    kinds = sorted(set(roles.values()))
    choices = [
        image_sizes(model, fixed) if kind == IMAGE else [(n, n) for n in usual_sizes(kind)]
        for kind in kinds
    ]
    ranked = itertools.product(*(enumerate(choice) for choice in choices))
    # Few dimensions of few kinds: some hundred combinations at most.
    for combination in sorted(ranked, key=lambda each: sum(rank for rank, _ in each)):
        chosen = {kind: size for kind, (_, size) in zip(kinds, combination, strict=True)}
        sizes = {key: chosen[role][images[key]] for key, role in roles.items()}
        yield {key: _sum_of(key, sizes) for key in sizes}


def _sum_of(symbol: str, sizes: Mapping[str, int]) -> int:
    """Return a size; that of ``past_length + length`` is a sum."""
    parts = [part.strip() for part in symbol.split("+")]
    if len(parts) > 1 and all(part in sizes or re.fullmatch(r"\d+", part) for part in parts):
        return sum(sizes.get(part, 0) or int(part) for part in parts)
    if symbol.startswith("total_") and f"past_{symbol[6:]}" in sizes and symbol[6:] in sizes:
        return sizes[f"past_{symbol[6:]}"] + sizes[symbol[6:]]
    return sizes[symbol]


def _shape(value: ValueInfoProto, sizes: Mapping[str, int]) -> tuple[int, ...]:
    dims = value.type.tensor_type.shape.dim
    return tuple(
        d.dim_value if d.HasField("dim_value") else sizes[_key(value, axis)]
        for axis, d in enumerate(dims)
    )


def _works(
    model: onnx.ModelProto,
    inputs: Sequence[ValueInfoProto],
    shapes: Shapes,
    taken: set[str] | None,
    limits: OnnxLimits,
) -> bool:
    """Whether all shapes that follow fit, hold something, and are those that are declared."""
    graph = OnnxGraph(model, limits)
    graph.inputs = [
        onnx.helper.make_tensor_value_info(
            value.name, value.type.tensor_type.elem_type, shapes[value.name]
        )
        for value in inputs
    ]
    declared = {value.name: static_dims(value) for value in graph.outputs}
    try:
        types = expand_graph(graph, taken, limits)
    except ModelError:
        return False
    for name, found in types.items():
        dims = _dims(found)
        if dims is None:
            continue
        if any(d <= 0 for d in dims) or declared.get(name) not in (None, dims):
            return False
    shapes_of = {name: _dims(found) for name, found in types.items()}
    return all(_windows_fit(node, shapes_of, graph) for node in graph.nodes)


def _windows_fit(
    node: NodeProto, dims: Mapping[str, tuple[int, ...] | None], graph: OnnxGraph
) -> bool:
    """Whether a convolution's window fits into its input; onnx rounds what is negative to 1."""
    if node.op_type not in ("Conv", "MaxPool", "AveragePool"):
        return True
    of_input = dims.get(node.input[0])
    window = attribute(node, "kernel_shape", [])
    if node.op_type == "Conv" and not window and node.input[1] in graph.constants:
        window = graph.shape(node.input[1])[2:]
    if of_input is None or attribute(node, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return True
    sizes = of_input[2:]
    pads = attribute(node, "pads", [0] * 2 * len(sizes))
    dilations = attribute(node, "dilations", [1] * len(sizes))
    return all(
        size + pads[i] + pads[i + len(sizes)] >= dilations[i] * (window[i] - 1) + 1
        for i, size in enumerate(sizes[: len(window)])
    )


def _dims(found: TypeProto) -> tuple[int, ...] | None:
    dims = found.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None
