"""From an ONNX model to a Relax module that is ready to be lowered and partitioned."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import microsoft, quantized  # noqa: F401  (register rewriters)
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.identity_removal import no_training
from tvm_hetero.frontends.onnx.index_ranges import index_ranges
from tvm_hetero.frontends.onnx.load import check_model, load_model
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.refusals import ANOTHER_FORM
from tvm_hetero.frontends.onnx.opsets import convert_opset
from tvm_hetero.frontends.onnx.randomize import randomize_graph
from tvm_hetero.frontends.onnx.simplify import simplify_graph
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES, RANGES
from tvm_hetero.util.tvm_state import one_thread
from tvm_hetero.util.untrusted_names import identifier

if TYPE_CHECKING:
    import tvm


def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
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
    values : mapping of str to number, list or array, optional
        Inputs that are fixed to a value; what depends on them alone is computed, and they are
        no inputs of the result.
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
        loaded = check_model(model, shapes=shapes, values=values, limits=limits)
    else:
        name = Path(model).stem
        loaded = load_model(model, shapes=shapes, values=values, limits=limits)
    return import_checked(loaded, name, random_weights=random_weights, limits=limits)


@one_thread
def import_checked(
    model: onnx.ModelProto,
    name: str,
    *,
    random_weights: int | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> tvm.ir.IRModule:
    """Import a model that has been checked: the second half of :func:`from_onnx`.

    Parameters
    ----------
    model : onnx.ModelProto
        As `load_model` returns it; it is changed.
    name : str
        Of the model.
    random_weights, limits
        As of :func:`from_onnx`.

    Returns
    -------
    tvm.ir.IRModule
        As of :func:`from_onnx`.

    Raises
    ------
    ModelError
        As of :func:`from_onnx`.
    """
    # Converters are kernels' neighbours: TVM is loaded with them, and only now.
    from tvm_hetero.frontends.onnx.conversion.convert import convert_graph
    from tvm_hetero.frontends.onnx.conversion.registry import converted_operators
    from tvm_hetero.frontends.onnx.quantized.dequantized_convolutions import convolve_codes
    from tvm_hetero.frontends.onnx.quantized.dequantized_products import multiply_codes

    convert_opset(model)
    graph = OnnxGraph(model)
    if random_weights is not None:
        randomize_graph(graph, random_weights, limits)
    no_training(graph, rewritten=True)
    graph.sweep()
    multiply_codes(graph)
    convolve_codes(graph)
    graph.sweep()
    expand_graph(graph, converted_operators(), limits)
    simplify_graph(graph)
    module = convert_graph(graph)
    _refuse_dynamic(module)
    return _with_names(module, graph, identifier(name or "model"))


def _refuse_dynamic(module: tvm.ir.IRModule) -> None:
    """Refuse shapes that depend on data within what a node became (`convert` finds the others)."""
    from tvm_hetero.frontends.onnx.model.static_types import dynamic_operators

    found = dynamic_operators(module)
    if found:
        raise ModelError(
            f"The shape of what {', '.join(found[:3])} makes depends on the data, so it cannot be "
            f"measured ahead. {ANOTHER_FORM}"
        )


def _with_names(module: tvm.ir.IRModule, graph: OnnxGraph, name: str) -> tvm.ir.IRModule:
    """Return `module` with the ONNX names as attributes of ``main``."""
    from tvm_hetero.passes.lengths import counted_results

    numbers = {row.number for row in counted_results(module["main"]).values()}
    attributes: dict[str, Any] = {
        INPUT_NAMES: [i.name for i in graph.inputs],
        OUTPUT_NAMES: [
            *(o.name for o in graph.outputs),
            *(graph.fresh(f"length{n}") for n in range(len(numbers))),
        ],
        MODEL_NAME: name,
    }
    ranges = index_ranges(graph)
    if ranges:
        attributes[RANGES] = json.dumps(ranges)
    module["main"] = module["main"].with_attrs(attributes)
    return module
