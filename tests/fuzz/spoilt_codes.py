"""What quantisers do not write, and files have: done to a model in bytes at random, in place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Rng = np.random.Generator


def spoil(model: onnx.ModelProto, rng: Rng) -> None:
    """Do none to five of the things below."""
    nodes = [n for n in model.graph.node if n.op_type == "DequantizeLinear"]
    for _ in range(int(rng.integers(6)) if nodes else 0):
        change = _CHANGES[int(rng.integers(len(_CHANGES)))]
        change(model, nodes[int(rng.integers(len(nodes)))], rng)


def _scale(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> None:
    """Another scale: 0, negative, or twice the one there was; of one channel, or of all."""
    (tensor,) = (t for t in model.graph.initializer if t.name == node.input[1])
    values = numpy_helper.to_array(tensor).copy()
    place: Any = int(rng.integers(values.size)) if rng.random() < 0.5 else slice(None)
    flat = values.reshape(-1)
    flat[place] *= (0, -1, 2)[int(rng.integers(3))]
    reads = [
        n for n in model.graph.node if n.op_type == "QuantizeLinear" and tensor.name in n.input
    ]
    if not reads or (values > 0).all():  # no code stands for a number over 0
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _axis(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> None:
    """Another axis, which may not be there."""
    kept = [a for a in node.attribute if a.name != "axis"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("axis", int(rng.integers(-5, 6)))])


def _zero(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> None:
    """No zero point where numbers are made of codes; others of weights."""
    if rng.random() < 0.5 or len(node.input) < 3:
        del node.input[2:]
        return
    (tensor,) = (t for t in model.graph.initializer if t.name == node.input[2])
    values = numpy_helper.to_array(tensor)
    if values.dtype != np.int32:
        other = rng.integers(0, 20, values.shape).astype(values.dtype)
        tensor.CopyFrom(numpy_helper.from_array(other, tensor.name))


def _some_value(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> str:
    """The name of the node's codes, of its numbers, or of what some codes are made of."""
    before = [n.input[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    names = [node.input[0], node.output[0], *before]
    return str(names[int(rng.integers(len(names)))])


def _output(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> None:
    """Some value is an output too."""
    name = _some_value(model, node, rng)
    taken = {v.name for v in model.graph.output} | {v.name for v in model.graph.input}
    if name in taken | {t.name for t in model.graph.initializer}:
        return
    model.graph.output.append(onnx.ValueInfoProto(name=name))
    _type_outputs(model)


def _captured(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> None:
    """An If whose branches read some value."""
    name, condition = _some_value(model, node, rng), f"captures_{len(model.graph.node)}"
    branches = {}
    for side in ("then", "else"):
        made = f"{condition}_{side}"
        last = helper.make_node("Cast", [name], [made], to=TensorProto.FLOAT)
        value = helper.make_tensor_value_info(made, TensorProto.FLOAT, None)
        branches[f"{side}_branch"] = helper.make_graph([last], made, [], [value])
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), condition))
    model.graph.node.append(helper.make_node("If", [condition], [f"{condition}_y"], **branches))
    model.graph.output.append(onnx.ValueInfoProto(name=f"{condition}_y"))
    _type_outputs(model)


def _again(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> None:
    """Codes of the same value by other scales, or by the same ones, whose numbers are an output."""
    made = [n for n in model.graph.node if n.output[0] == node.input[0]]
    if not made or made[0].op_type != "QuantizeLinear":
        return
    base, place = f"again_{len(model.graph.node)}", list(model.graph.node).index(made[0]) + 1
    scale = made[0].input[1]
    if rng.random() < 0.5:
        (tensor,) = (t for t in model.graph.initializer if t.name == scale)
        scale = f"{base}_scale"
        values = 2 * numpy_helper.to_array(tensor)
        model.graph.initializer.append(numpy_helper.from_array(values, scale))
    quantizer = [scale, *made[0].input[2:]]
    model.graph.node.insert(
        place, helper.make_node("QuantizeLinear", [made[0].input[0], *quantizer], [base])
    )
    model.graph.node.insert(
        place + 1, helper.make_node("DequantizeLinear", [base, *quantizer], [f"{base}_y"])
    )
    model.graph.output.append(onnx.ValueInfoProto(name=f"{base}_y"))
    _type_outputs(model)


def _views(model: onnx.ModelProto, node: NodeProto, rng: Rng) -> None:
    """Codes, or numbers, in two shapes, of which both are outputs."""
    name = _some_value(model, node, rng)
    base = f"view_{len(model.graph.node)}"
    shapes = {f"{base}_flat": [-1], f"{base}_row": [1, -1]}
    for made, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(shape), f"{made}_shape"))
        model.graph.node.append(helper.make_node("Reshape", [name, f"{made}_shape"], [made]))
        model.graph.output.append(onnx.ValueInfoProto(name=made))
    _type_outputs(model)


def _type_outputs(model: onnx.ModelProto) -> None:
    """State the types of outputs, as files do; what onnx finds none of is no output."""
    outputs = list(model.graph.output)
    with contextlib.suppress(onnx.shape_inference.InferenceError):
        found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
        for ours, theirs in zip(outputs, found, strict=True):
            if not ours.HasField("type"):
                ours.type.CopyFrom(theirs.type)
    kept = [value for value in outputs if value.type.tensor_type.elem_type]
    del model.graph.output[:]
    model.graph.output.extend(kept)


_CHANGES: list[Callable[[onnx.ModelProto, NodeProto, Rng], None]] = [
    _scale, _scale, _axis, _zero, _output, _captured, _captured, _again, _views,
]  # fmt: skip
