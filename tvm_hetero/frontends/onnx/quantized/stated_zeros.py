"""Zero points that QuantizeLinear and DequantizeLinear leave out, written as what they are: 0.

What type a zero point has is what type the codes have, which else has to be looked for: all who
compute with codes themselves ask for it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from onnx import helper

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, element_type
from tvm_hetero.frontends.onnx.quantized.plain_codes import CODES

_TYPES = {helper.np_dtype_to_tensor_dtype(np.dtype(each)): each for each in CODES}


def state_zeros(graph: OnnxGraph) -> None:
    """Give nodes of constant scales and codes of eight bits their zero points, in place."""
    infer = cache(graph.known_values)  # which takes a while in a large model: only if it is asked

    def type_of(name: str) -> int | None:
        if name in graph.constants:
            return element_type(graph.constants[name])
        found = infer().get(name)
        return None if found is None else found.element_type

    for node in graph.nodes:
        if node.domain or node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        if node.input[1] not in graph.constants or any(node.input[2:]):
            continue
        codes = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
        dtype = _TYPES.get(type_of(codes))
        if dtype is not None:
            name = graph.fresh(f"{node.output[0]}_zero")
            graph.constants[name] = np.zeros(graph.shape(node.input[1]), dtype)
            node.input[2:] = [name]
