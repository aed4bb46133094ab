"""Models of old operator sets, in terms of a newer one.

Operators changed their form over time: ``Slice`` took its bounds from attributes before opset 10,
``Softmax`` flattened before 13.  onnx's own version converter rewrites them.  It is handed the
structure and small constants only, so that it costs little and has no limit of 2 GiB.
"""

from __future__ import annotations

from functools import partial

import onnx
from onnx import version_converter

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.native_calls import CONVERTER, call_native
from tvm_hetero.util.untrusted_names import printable

DEFAULT_DOMAINS = frozenset({"", "ai.onnx"})

OLDEST_UNCONVERTED = 13
"""Models of older opsets are converted to this one."""

_LAYER_NORMALIZATION = 17
"""The opset that brought LayerNormalization, of which contributed operators are made."""


_RESIZE_HAS_MODES = 11
_BROADCASTS_SLOPES = 7


def opset_version(model: onnx.ModelProto) -> int:
    """Return the version of the default operator set, 0 where the model names none."""
    versions = [o.version for o in model.opset_import if o.domain in DEFAULT_DOMAINS]
    return max(versions, default=0)


def convert_opset(model: onnx.ModelProto) -> None:
    """Convert a model of an old operator set, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        With static inputs and the data of its constants.

    Raises
    ------
    ModelError
        onnx's converter cannot.
    """
    graph = OnnxGraph(model)
    oldest = _oldest_unconverted(graph)
    if graph.opset >= oldest:
        return
    convert = partial(version_converter.convert_version, target_version=oldest)
    try:
        converted = call_native(CONVERTER, graph.skeleton(), convert)
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(
            f"The model is of opset {graph.opset}, and onnx's version converter cannot make "
            f"opset {oldest} of it: {printable(' '.join(str(error).split()), 300)} "
            "Export the model again, for a newer opset."
        ) from None
    given = graph.opset
    _keep_old_resizes(converted, given)
    _take_over(model, converted, oldest)
    if given < _BROADCASTS_SLOPES:
        _keep_old_slopes(model)


def _keep_old_resizes(converted: onnx.ModelProto, opset: int) -> None:
    """State of what form Resize and Upsample before opset 11 are, which the converter leaves out.

    Their coordinates are ``asymmetric``, and nearest is rounded as no later form does: up where an
    axis shrinks, else down (``simple``, a word of ours).
    """
    if opset >= _RESIZE_HAS_MODES:
        return
    for node in converted.graph.node:
        if node.op_type == "Resize":
            node.attribute.extend(
                [
                    onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"),
                    onnx.helper.make_attribute("nearest_mode", "simple"),
                ]
            )


def _oldest_unconverted(graph: OnnxGraph) -> int:
    """Return the opset to which a model of an older one is converted."""
    normalizes = any("LayerNormalization" in node.op_type for node in graph.nodes if node.domain)
    return _LAYER_NORMALIZATION if normalizes else OLDEST_UNCONVERTED


def _keep_old_slopes(model: onnx.ModelProto) -> None:
    """Give slopes of PRelu before opset 7, one for each channel, the shape that broadcasts so.

    The converter leaves them as they are, which from opset 7 on is one for each last element.
    """
    graph = OnnxGraph(model)
    known = graph.known_values()
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "PRelu"]:
        slope, value = tensors.get(node.input[1]), known.get(node.input[0])
        if slope is None or value is None or value.dims is None or len(slope.dims) != 1:
            continue
        channels = onnx.TensorProto()
        channels.CopyFrom(slope)
        channels.name = graph.fresh(f"{slope.name}_channels")
        channels.dims.extend([1] * (len(value.dims) - 2))
        model.graph.initializer.append(channels)
        node.input[1] = channels.name


def _take_over(model: onnx.ModelProto, converted: onnx.ModelProto, version: int) -> None:
    """Put what was converted into `model`, which keeps its large constants."""
    inputs = {value.name for value in model.graph.input}
    known = {tensor.name for tensor in model.graph.initializer}
    del model.graph.node[:]
    model.graph.node.extend(converted.graph.node)
    added = [t for t in converted.graph.initializer if t.name not in known and t.name not in inputs]
    model.graph.initializer.extend(added)
    del model.graph.value_info[:]
    for entry in model.opset_import:
        if entry.domain in DEFAULT_DOMAINS:
            entry.version = version
    model.ir_version = max(model.ir_version, 8)
