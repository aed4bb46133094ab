"""Rewrite a model in a child, and take over what the child has made of it."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from tvm_hetero.frontends.onnx.model.isolation import is_isolated, run_isolated
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.model.model_answer import large_tensors, pack_model, unpack_model
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.processes.forked_child import Section


def rewrite_isolated(
    model: onnx.ModelProto,
    rewrite: Callable[[OnnxGraph], None],
    limits: OnnxLimits,
    *,
    draws: bool = False,
) -> onnx.ModelProto:
    """Return a model as `rewrite` leaves its graph.

    Parameters
    ----------
    model : onnx.ModelProto
        Not changed.
    rewrite : callable
        Works on the graph, in a child.
    limits : OnnxLimits
        Caps on what may be made.
    draws : bool
        Whether weights are drawn at random.

    Raises
    ------
    ModelError
        As `rewrite` raises it; or native code did not survive the model.
    """

    def made() -> tuple[onnx.ModelProto, set[str]]:
        before = large_tensors(model)
        graph = OnnxGraph(model, limits)
        rewrite(graph)
        kept = {name for name, t in graph.constants.items() if t is before.get(name)}
        return graph.to_model(), kept

    if is_isolated():
        return made()[0]
    sections: list[Section] = run_isolated(lambda: pack_model(*made()), model, limits, draws=draws)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    unpack_model(sections, result)
    return result
