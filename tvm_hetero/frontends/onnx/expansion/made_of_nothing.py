"""Operators that make something of a tensor of no elements: sums over nothing, and products.

Of a reduction of no rounds TVM writes nothing, not even what the first round would begin with: what
comes out is whatever the memory held. A tensor of no elements is a constant here (`folding`), so
where the other operands are constants as well the result is computed; else the node is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from onnx import NodeProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.expansion.computed_constants import Constant, compute_constants
from tvm_hetero.frontends.onnx.expansion.folding import LARGEST_FOLD
from tvm_hetero.frontends.onnx.expansion.known_values import KnownValues
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.refusals import ANOTHER_FORM
from tvm_hetero.util.untrusted_names import printable

_COPIES = frozenset({"Concat"})
"""What writes each element that it makes, whatever else it reads."""
_REFUSES = frozenset({"Gather", "GatherElements"})
"""What finds each index out of range as it runs."""
_FACTORS = {"Einsum": 3, "MatMul": 2, "Gemm": 2, "Conv": 2, "ConvTranspose": 2, "GatherND": 2}
"""How many of the first operands count; of others, the first one."""


def made_of_nothing(
    graph: OnnxGraph, values: KnownValues, node: NodeProto, origin: str
) -> Mapping[str, Constant]:
    """Return what a node makes of a tensor of no elements, by name; nothing if it reads none.

    Parameters
    ----------
    graph, values
        What is known, the types of its results too.
    node : NodeProto
        Of the default domain.
    origin : str
        The node in words.

    Raises
    ------
    ModelError
        The result depends on data.
    """
    read = [n for n in node.input[: _FACTORS.get(node.op_type, 1)] if n in graph.constants]
    nothing = next((name for name in read if not graph.size(name)), None)
    made = [values.known(name) for name in node.output if name]
    shapes = [known.dims for known in made if known is not None and known.dims is not None]
    if nothing is None or node.op_type in _COPIES or not any(map(math.prod, shapes)):
        return {}
    operands = [name for name in node.input if name]
    size = sum(map(math.prod, shapes))
    is_known = all(name in graph.constants for name in operands)
    if node.op_type in _REFUSES and not is_known:
        return {}
    if size > LARGEST_FOLD or not is_known:
        raise ModelError(
            f"{origin} makes something of '{printable(nothing)}', which has no elements: there is "
            f"no kernel for that. {ANOTHER_FORM}"
        )
    graph.made.charge(8 * size, origin)
    return compute_constants(node, graph, {name: graph.array(name) for name in operands}, origin)
