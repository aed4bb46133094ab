"""Zeros put around an image before its codes are made, as the convolution's own padding.

    Pad(x, p, 0) -> QuantizeLinear -> DequantizeLinear -> Conv(pads=q)
    QuantizeLinear(x) -> DequantizeLinear -> Conv(pads=p + q)

give the same: the code of 0 is the zero point, whose value is 0 again. A Pad between would join the
kernel before it, which then has no rule (`expansion.padded_convolutions` is of those without
codes). Only where nothing else reads what is padded.
"""

from __future__ import annotations

from onnx import NodeProto, helper

from tvm_hetero.frontends.onnx.expansion.padded_convolutions import Array, zeros_around
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.frontends.onnx.quantized.plain_codes import plain_codes


def pad_behind_codes(graph: OnnxGraph) -> None:
    """Let convolutions of codes pad themselves, in place; see the file's text."""
    makers, readers, constants = graph.makers(), graph.consumers(), graph.constants

    def array(name: str) -> Array | None:
        return graph.array(name) if name in constants else None

    dropped: set[int] = set()
    for conv in graph.nodes:
        if (conv.domain, conv.op_type) != ("", "Conv"):
            continue
        chain = _chain_to_pad(graph, makers, readers, conv)
        around = None if chain is None else zeros_around(chain[0], array)
        if chain is None or around is None:
            continue
        pad, quantizer = chain
        own = attribute(conv, "pads", None) or [0] * len(around)
        kept = [each for each in conv.attribute if each.name != "pads"]
        del conv.attribute[:]
        conv.attribute.extend(kept)
        pads = [int(a + b) for a, b in zip(own, around, strict=True)]
        conv.attribute.append(helper.make_attribute("pads", pads))
        quantizer.input[0] = pad.input[0]
        dropped.add(id(pad))
    graph.nodes = [node for node in graph.nodes if id(node) not in dropped]


def _chain_to_pad(
    graph: OnnxGraph,
    makers: dict[str, NodeProto],
    readers: dict[str, list[NodeProto]],
    conv: NodeProto,
) -> tuple[NodeProto, NodeProto] | None:
    """The Pad and the QuantizeLinear whose codes a convolution alone reads, where it is so."""
    if attribute(conv, "auto_pad", b"NOTSET") != b"NOTSET":
        return None
    found: list[NodeProto] = []
    name = conv.input[0]
    for kind in ("DequantizeLinear", "QuantizeLinear", "Pad"):
        node = makers.get(name)
        if node is None or node.domain or node.op_type != kind:
            return None
        if len(readers.get(name, [])) != 1 or name in graph.output_names:
            return None
        found.append(node)
        name = node.input[0]
    reader, quantizer, pad = found
    codes = plain_codes(graph, quantizer)
    if codes is None or codes != plain_codes(graph, reader, "DequantizeLinear"):
        return None
    return pad, quantizer
