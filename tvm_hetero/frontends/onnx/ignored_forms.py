"""Refuse forms of operators of which TVM's importer computes another one, of the same shape.

Types and shapes do not tell these (`verify_types` finds what they tell): attributes that TVM does
not read, and scales of Resize, in whose place it takes output over input size.  Each was found by
the node tests of the onnx wheel (`benchmarks/onnx_suite.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute, static_dims
from tvm_hetero.frontends.onnx.model.refusals import ANOTHER_FORM, refuse_all
from tvm_hetero.util.untrusted_names import printable

# Operator, attribute, its default, and whether TVM computes something else for a value of it.
_IGNORED: tuple[tuple[str, str, Any, Callable[[Any], bool]], ...] = (
    ("IsInf", "detect_negative", 1, lambda value: value == 0),
    ("IsInf", "detect_positive", 1, lambda value: value == 0),
    ("Resize", "antialias", 0, lambda value: value != 0),
    ("RoiAlign", "mode", b"avg", lambda value: value != b"avg"),
    ("SpaceToDepth", "mode", b"DCR", lambda value: value != b"DCR"),
)
# How far input size times scale may be from a whole number: float32, of sizes up to 10,000.
_NEAR = 2e-3


def refuse_ignored_forms(graph: OnnxGraph) -> None:
    """Refuse a model that has such a node.

    Parameters
    ----------
    graph : OnnxGraph
        Simplified, so that what can be known of scales is constant.

    Raises
    ------
    ModelError
        Names such nodes, and what of them TVM does not compute.
    """
    refusals = []
    for node in graph.nodes:
        problem = _ignored_attribute(node) or _inexact_scales(graph, node)
        if problem:
            refusals.append(
                f"{graph.describe(node)} of opset {graph.opset} is not taken in this form: it has "
                f"{problem}, and would be computed wrong. {ANOTHER_FORM}"
            )
    refuse_all(refusals, graph.opset)


def _ignored_attribute(node: NodeProto) -> str | None:
    for operator, name, default, is_other in _IGNORED:
        value = attribute(node, name, default) if node.op_type == operator else default
        if is_other(value):
            shown = value.decode(errors="replace") if isinstance(value, bytes) else value
            return f"{name} = {printable(str(shown))}"
    return None


def _inexact_scales(graph: OnnxGraph, node: NodeProto) -> str | None:
    """Scales that make no whole size of an input's, where what lies between points counts."""
    if node.op_type not in ("Resize", "Upsample"):
        return None
    if attribute(node, "mode", b"nearest") == b"nearest":
        return None
    name = next((n for n in node.input[-1:0:-1] if n), "") if len(node.input) < 4 else ""
    if name not in graph.constants or not graph.is_float(name):
        return None
    dims, scales = _dims(graph, node.input[0]), graph.array(name).astype(np.float64)
    axes = attribute(node, "axes")
    if dims is None or axes is not None or len(dims) != len(scales):
        return None
    sizes = np.array(dims) * scales
    if np.all(np.abs(sizes - np.round(sizes)) <= _NEAR):
        return None
    shape = "x".join(map(str, dims))
    return f"scales {np.round(scales, 4).tolist()} that make no whole sizes of {shape}"


def _dims(graph: OnnxGraph, name: str) -> tuple[int, ...] | None:
    inferred = graph.inferred().graph
    values = {v.name: v for v in [*inferred.input, *inferred.value_info, *inferred.output]}
    return static_dims(values[name]) if name in values else None
