"""What is in an ONNX file, and everything in it that cannot be imported.

Inputs that are left open do not end the look-out: where shapes are known that fit, the rest is
looked at with those, and they are among what is needed.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import NodeProto, ValueInfoProto

from tvm_hetero.errors import LIST_LINE, ModelError
from tvm_hetero.frontends.onnx.dimensions import is_closed, shape_text
from tvm_hetero.frontends.onnx.fixed_values import read_values
from tvm_hetero.frontends.onnx.importer import import_checked
from tvm_hetero.frontends.onnx.load import load_model, read_model
from tvm_hetero.frontends.onnx.model.isolation import run_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.open_inputs import find_open
from tvm_hetero.frontends.onnx.opsets import DEFAULT_DOMAINS, opset_version
from tvm_hetero.frontends.onnx.shapes import apply_shapes
from tvm_hetero.processes.forked_child import Section

_OPTION = re.compile(r"--value (?:'[^']*'|\S+)")


@dataclass(frozen=True)
class OnnxInput:
    """An input as the file has it; `open` where its shape is not known in numbers."""

    name: str
    dtype: str
    shape: str
    open: bool


@dataclass(frozen=True)
class OnnxReport:
    """What a file holds, and what stands in its way.

    Attributes
    ----------
    opset : int
        Version of the default operator set.
    operators : dict of str to int
        How often each occurs, the most frequent first; nested graphs are counted in.
    inputs : tuple of OnnxInput
        As in the file.
    problems : tuple of str
        Why it cannot be imported as asked, node by node.
    needed : tuple of str
        Options of the command line that would help.
    """

    opset: int
    operators: dict[str, int]
    inputs: tuple[OnnxInput, ...]
    problems: tuple[str, ...]
    needed: tuple[str, ...]


def onnx_check(
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> OnnxReport:
    """Say what of an ONNX file cannot be imported, and what would help.

    Parameters
    ----------
    path : path
        The file.
    shapes, values, limits
        As of :func:`~tvm_hetero.frontends.onnx.load.load_model`.

    Returns
    -------
    OnnxReport
        Without problems if and only if it can be imported so.

    Raises
    ------
    ModelError
        The file is no model, or a shape or value does not fit.
    """
    from tvm_hetero.frontends.onnx import graph_import  # noqa: F401  (TVM is loaded here, once)

    model = read_model(path, limits)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_input(v) for v in model.graph.input if v.name not in constants)
    operators = Counter(_operator(node) for node in _nodes(model.graph.node))
    opset = opset_version(model)

    def work() -> list[Section]:
        return [json.dumps(_look(model, Path(path), shapes, values, limits)).encode()]

    found = json.loads(bytes(run_isolated(work, model, limits)[0]))
    return OnnxReport(
        opset=opset,
        operators=dict(operators.most_common()),
        inputs=inputs,
        problems=tuple(map(str, found["problems"])),
        needed=tuple(map(str, found["needed"])),
    )


def _look(
    model: onnx.ModelProto,
    path: Path,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Any] | None,
    limits: OnnxLimits,
) -> dict[str, list[str]]:
    """Return what is wrong with a model, and which options would help."""
    constants = {tensor.name for tensor in model.graph.initializer}
    stated = {v.name: shape_text(v) for v in model.graph.input if v.name not in constants}
    found = find_open(model, apply_shapes(model, shapes, read_values(model, values)), limits)
    given = dict(shapes or {})
    problems: list[str] = []
    if found is not None:
        names = _names(found.inputs)
        listed = ", ".join(f"'{name}' {text}" for name, text in stated.items() if name in names)
        problems.append(f"the model leaves dimensions of its inputs open: {listed}")
        given.update(found.shapes or {})
    if found is None or found.shapes is not None:
        problems += _refusals(path, given, values, limits)
    needed = [] if found is None else found.options
    needed += [option for text in problems for option in _OPTION.findall(text)]
    return {"problems": problems, "needed": list(dict.fromkeys(needed))}


def _refusals(
    path: Path,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, Any] | None,
    limits: OnnxLimits,
) -> list[str]:
    """Try to import a file; returns why it fails, node by node."""
    try:
        model = load_model(path, shapes=shapes, values=values, limits=limits)
        import_checked(model, path.stem, limits=limits)
    except ModelError as error:
        first, *lines = str(error).split(LIST_LINE)
        return lines or [first]
    return []


def _names(values: Sequence[ValueInfoProto]) -> set[str]:
    return {value.name for value in values}


def _input(value: ValueInfoProto) -> OnnxInput:
    try:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
    except (KeyError, TypeError, ValueError):
        kind = "no tensor"
    return OnnxInput(value.name, kind, shape_text(value), not is_closed(value))


def _operator(node: NodeProto) -> str:
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}::{node.op_type}"


def _nodes(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes, and those of the graphs within them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)
