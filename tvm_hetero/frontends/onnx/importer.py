"""From an ONNX model to a Relax module that is ready to be lowered and partitioned."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.ignored_forms import refuse_ignored_forms
from tvm_hetero.frontends.onnx.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.load import check_model, load_model
from tvm_hetero.frontends.onnx.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.randomize import randomize_graph
from tvm_hetero.frontends.onnx.simplify import simplify_graph
from tvm_hetero.frontends.onnx.verify_types import verify_types
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES
from tvm_hetero.util.untrusted_names import identifier, printable

if TYPE_CHECKING:
    import numpy as np
    import tvm
    from tvm import relax


def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    random_weights: int | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> tvm.ir.IRModule:
    """Import an ONNX model into Relax.

    Parameters
    ----------
    model : path or onnx.ModelProto
        A file, or a model in memory (which is not changed).
    shapes : mapping of str to sequence of int, optional
        Shapes of inputs whose dimensions the model leaves open.
    random_weights : int, optional
        A seed: draw all weights at random (:func:`randomize_weights`).
    limits : Limits
        Caps on sizes and counts.

    Returns
    -------
    tvm.ir.IRModule
        One function, ``main``, with static shapes, the weights as constants and no
        operation on constants alone.  Attributes of ``main``: ``hetero_input_names``
        and ``hetero_output_names`` (the names in the ONNX model, in order; TVM's
        parameters bear identifiers made from them) and ``hetero_model_name``.

    Raises
    ------
    ModelError
        The model is refused, or TVM's importer cannot take it.
    """
    if isinstance(model, onnx.ModelProto):
        name = model.graph.name
        loaded = check_model(model, shapes=shapes, limits=limits)
    else:
        name = Path(model).stem
        loaded = load_model(model, shapes=shapes, limits=limits)
    graph = OnnxGraph(loaded)
    if random_weights is not None:
        randomize_graph(graph, random_weights, limits)
    simplify_graph(graph, limits)
    refuse_ignored_forms(graph)
    return _with_names(_import(graph), graph, identifier(name or "model"))


def _import(graph: OnnxGraph) -> tvm.ir.IRModule:
    """Return the Relax module of a simplified model."""
    try:
        with _quiet():
            module, values = _import_graph(graph)
    except Exception as error:
        lines = [line.strip(" .") for line in str(error).splitlines() if line.strip(" .")]
        reason = printable(lines[-1] if lines else "no reason given", 300)
        raise ModelError(
            f"TVM cannot import the model: {type(error).__name__}: {reason}. "
            "All its operators are known, so one has an attribute or operand that TVM does not "
            "take; export the model with another opset."
        ) from error
    verify_types(graph, values)
    _refuse_dynamic(module)
    return module


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep TVM's prints and Python warnings to ourselves: errors say what matters."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _import_graph(graph: OnnxGraph) -> tuple[tvm.ir.IRModule, dict[str, relax.Expr]]:
    """Run TVM's importer on the nodes, with the constants handed over beside them.

    Returns the module and what became of each value, by its name in the model.

    Its public function would serialize the model for a check that we have made: 4 of 14
    seconds for vgg19, and impossible above 2 GiB.  (`_nodes` is private: TVM is pinned.)
    """
    from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

    importer = ONNXGraphImporter({}, None, sanitize=False)
    renamed = _identifiers(graph)
    importer._nodes.update({k: _constant(graph.array(k)) for k in graph.constants})
    body = onnx.GraphProto(name="main")
    body.node.extend(graph.nodes)
    body.input.extend(graph.inputs)
    body.output.extend(graph.outputs)
    for value in [*body.input, *body.output]:
        value.name = renamed.get(value.name, value.name)
    for node in body.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    return importer.from_onnx(body, graph.opset), importer._nodes


def _constant(array: np.ndarray) -> relax.Constant:
    """Return a constant of the array's own type.

    Of a NumPy array `relax.const` would make int32 of int64 and float32 of float64: the end of
    ``x[:, 1:]``, which exporters write as the largest int64, became -1.
    """
    from tvm import relax
    from tvm.runtime import tensor

    return relax.const(tensor(array))


def _identifiers(graph: OnnxGraph) -> dict[str, str]:
    """Return new names for the inputs: unique identifiers, as Relax parameters must have."""
    taken = {o for node in graph.nodes for o in node.output} | set(graph.constants)
    renamed: dict[str, str] = {}
    for value in graph.inputs:
        renamed[value.name] = identifier(value.name, taken)
        taken.add(renamed[value.name])
    return renamed


def _refuse_dynamic(module: tvm.ir.IRModule) -> None:
    """Refuse values whose shape depends on data: no cost can be measured for them."""
    from tvm_hetero.frontends.onnx.static_types import dynamic_operators

    found = dynamic_operators(module)
    if found:
        raise ModelError(
            f"The shape of what {', '.join(found[:3])} makes depends on the data, so it cannot be "
            "measured ahead. Export the model with static shapes throughout."
        )


def _with_names(module: tvm.ir.IRModule, graph: OnnxGraph, name: str) -> tvm.ir.IRModule:
    """Return `module` with the ONNX names as attributes of ``main``."""
    attributes = {
        INPUT_NAMES: [i.name for i in graph.inputs],
        OUTPUT_NAMES: [o.name for o in graph.outputs],
        MODEL_NAME: name,
    }
    module["main"] = module["main"].with_attrs(attributes)
    return module
