"""Which nodes became operators that nothing makes a kernel of: known before anything is measured.

Lowering would find them too, but it knows Relax's operators only.  Here the node is known: what a
node becomes is bound in the order of the nodes, so a binding belongs to the first node whose
results are not bound before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.refusals import ANOTHER_FORM, form_of

if TYPE_CHECKING:
    import tvm
    from tvm import relax

# Relax's own passes take these apart, or need no kernel for them.
_DECOMPOSED = frozenset(
    {
        "relax.call_tir", "relax.nn.batch_norm", "relax.nn.dropout", "relax.nn.layer_norm",
        "relax.reshape", "relax.nn.group_norm", "relax.shape_of", "relax.shape_to_tensor",
    }
)  # fmt: skip


def nodes_without_kernel(
    module: tvm.ir.IRModule, graph: OnnxGraph, values: Mapping[str, Any]
) -> list[str]:
    """Return a refusal for each node that has become an operator without a kernel.

    Parameters
    ----------
    module : tvm.ir.IRModule
        As converted.
    graph : OnnxGraph
        Of which it was made.
    values : mapping of str to relax.Expr
        What became of each value.
    """
    bindings = [b for block in module["main"].body.blocks for b in block.bindings]
    lost = [i for i, binding in enumerate(bindings) if not _has_kernel(binding.value)]
    if lost:
        needed = _needed(module["main"])
        lost = [i for i in lost if bindings[i].var in needed]
    positions = {binding.var: i for i, binding in enumerate(bindings)}
    refusals = []
    for node in graph.nodes:
        made = [positions[values[n]] for n in node.output if values.get(n) in positions]
        behind = [i for i in lost if made and i <= max(made)]
        lost = [i for i in lost if i not in behind]
        if behind:
            refusals.append(
                f"{graph.describe(node)} of opset {graph.opset} has no kernel in this form "
                f"({form_of(node)}). {ANOTHER_FORM}"
            )
    return refusals


def _needed(function: relax.Function) -> set[Any]:
    """Return the variables on which the result depends: TVM leaves others behind (`shape_of`)."""
    from tvm import relax

    needed = set(relax.analysis.free_vars(function.body.body))
    for block in reversed(function.body.blocks):
        for binding in reversed(block.bindings):
            if binding.var in needed:
                needed.update(relax.analysis.free_vars(binding.value))
    return needed


def _has_kernel(value: Any) -> bool:
    """Whether a bound value is no operator, or one that lowering makes kernels of."""
    import tvm
    from tvm import relax

    from tvm_hetero.kernels.legalize import RULES

    if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
        return True
    name = str(value.op.name)
    return name in RULES or name in _DECOMPOSED or value.op.get_attr("FLegalize") is not None
