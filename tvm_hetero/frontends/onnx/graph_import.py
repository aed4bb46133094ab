"""From a checked ONNX model to its Relax module: what is done in the child.

All that this needs is imported with it, TVM too, so that a child that is forked later need not.
"""

from __future__ import annotations

import json
from typing import Any

import onnx
import onnx.reference.ops  # (all operators, which are loaded with the first that is computed)
import tvm
from tvm.relax.frontend.onnx import onnx_frontend  # noqa: F401  (loaded here, and in no child)

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import microsoft, quantized  # noqa: F401  (register rewriters)
from tvm_hetero.frontends.onnx.conversion.convert import convert_graph
from tvm_hetero.frontends.onnx.conversion.memory_files import MemoryFiles
from tvm_hetero.frontends.onnx.conversion.registry import converted_operators
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.identity_removal import no_training
from tvm_hetero.frontends.onnx.index_ranges import index_ranges
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.refusals import ANOTHER_FORM
from tvm_hetero.frontends.onnx.model.static_types import dynamic_operators
from tvm_hetero.frontends.onnx.opsets import convert_opset
from tvm_hetero.frontends.onnx.quantized.coded_pads import pad_behind_codes
from tvm_hetero.frontends.onnx.quantized.dequantized_convolutions import convolve_codes
from tvm_hetero.frontends.onnx.quantized.dequantized_products import multiply_codes
from tvm_hetero.frontends.onnx.quantized.early_codes import quantize_early
from tvm_hetero.frontends.onnx.quantized.stated_zeros import state_zeros
from tvm_hetero.frontends.onnx.randomize import randomize_graph
from tvm_hetero.frontends.onnx.simplify import simplify_graph
from tvm_hetero.kernels import legalize  # noqa: F401  (loaded here, and in no child)
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES, RANGES
from tvm_hetero.passes.lengths import counted_results
from tvm_hetero.util.untrusted_names import identifier


def import_graph(
    model: onnx.ModelProto,
    name: str,
    random_weights: int | None,
    limits: OnnxLimits,
    weights: MemoryFiles | None = None,
) -> tvm.IRModule:
    """Import a model, which is changed; parameters and errors as of `importer.import_checked`.

    Large weights go to `weights`, if it is given.
    """
    convert_opset(model)
    graph = OnnxGraph(model, limits)
    if random_weights is not None:
        randomize_graph(graph, random_weights, limits)
    rewrite_graph(graph, limits)
    module = convert_graph(graph, weights)
    _refuse_dynamic(module)
    return _with_names(module, graph, identifier(name or "model"))


def rewrite_graph(graph: OnnxGraph, limits: OnnxLimits = DEFAULT_LIMITS) -> None:
    """Write a graph in operators that are converted, with codes where kernels take them, in place.

    Parameters
    ----------
    graph : OnnxGraph
        Of an opset that is converted.
    limits : OnnxLimits
        Caps on what folding may make.

    Raises
    ------
    ModelError
        The graph is refused.
    """
    no_training(graph, rewritten=True)
    graph.sweep()
    state_zeros(graph)
    pad_behind_codes(graph)
    quantize_early(graph)
    multiply_codes(graph)
    convolve_codes(graph)
    graph.sweep()
    expand_graph(graph, converted_operators(), limits)
    simplify_graph(graph)


def _refuse_dynamic(module: tvm.IRModule) -> None:
    """Refuse shapes that depend on data within what a node became (`convert` finds the others)."""
    found = dynamic_operators(module)
    if found:
        raise ModelError(
            f"The shape of what {', '.join(found[:3])} makes depends on the data, so it cannot be "
            f"measured ahead. {ANOTHER_FORM}"
        )


def _with_names(module: tvm.IRModule, graph: OnnxGraph, name: str) -> tvm.IRModule:
    """Return `module` with the ONNX names as attributes of ``main``."""
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
