"""Which operators TVM's ONNX importer takes, and the refusal of all others by node.

TVM's importer looks at an operator's name alone: not at its domain, so that
``com.microsoft::Attention`` and the standard ``Attention`` of opset 23 are one
to it, and not at nested graphs except those of ``If``.
"""

from __future__ import annotations

import functools

import onnx

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.tensors import describe
from tvm_hetero.util.untrusted_names import printable

DEFAULT_DOMAINS = frozenset({"", "ai.onnx"})

# Under these names TVM implements contributed operators of ONNX Runtime, whose operands
# differ from the standard operator of the same name.
_OTHER_MEANING = frozenset({"Attention"})


@functools.cache
def supported_operators() -> frozenset[str]:
    """Return the names of the standard operators that TVM imports, asked of TVM itself."""
    from tvm.relax.frontend.onnx import onnx_frontend

    return frozenset(onnx_frontend._get_convert_map()) - _OTHER_MEANING | {"Constant"}


def check_operators(model: onnx.ModelProto) -> None:
    """Refuse nodes that cannot be imported, naming the first.

    Raises
    ------
    ModelError
        A node of a custom domain, with a nested graph, or of an operator that onnx or TVM
        does not know; the text gives the node's index, name and operator, and the opset.
    """
    for index, node in enumerate(model.graph.node):
        problem = _problem(node, opset_version(model))
        if problem:
            raise ModelError(f"{describe(node, index)} {problem}")


def opset_version(model: onnx.ModelProto) -> int:
    """Return the version of the default operator set, 0 where the model names none."""
    versions = [o.version for o in model.opset_import if o.domain in DEFAULT_DOMAINS]
    return max(versions, default=0)


def _problem(node: onnx.NodeProto, opset: int) -> str | None:
    """Return what is wrong with `node`, as the rest of a sentence; None if nothing is."""
    operator = printable(node.op_type)
    if node.domain not in DEFAULT_DOMAINS:
        return (
            f"is of the custom domain '{printable(node.domain)}', whose operators cannot be "
            "imported. Export the model with standard ONNX operators only."
        )
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return (
            "contains a graph of its own (control flow), which cannot be partitioned. "
            "Export the model without it, for one fixed path and number of steps."
        )
    if not onnx.defs.has(node.op_type, opset):
        return f"is no operator of ONNX in opset {opset}. Check the exporter or its opset."
    if node.op_type not in supported_operators():
        return (
            f"is not supported: TVM's importer has no {operator} (opset {opset}). "
            "Export the model with other operators in its place."
        )
    return None
