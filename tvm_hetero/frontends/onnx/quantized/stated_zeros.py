"""Zero points that QuantizeLinear and DequantizeLinear leave out, written as what they are: 0.

What type a zero point has is what type the codes have, which else has to be looked for: all who
compute with codes themselves ask for it.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.quantized.plain_codes import CODES


def state_zeros(graph: OnnxGraph) -> None:
    """Give nodes of constant scales and codes of eight bits their zero points, in place."""
    bare = [
        node
        for node in graph.nodes
        if not node.domain and node.op_type in ("QuantizeLinear", "DequantizeLinear")
        if node.input[1] in graph.constants and not "".join(node.input[2:])
    ]
    known = graph.known_values() if bare else {}
    for node in bare:
        codes = known.get((node.output if node.op_type == "QuantizeLinear" else node.input)[0])
        if codes is None or codes.element_type not in _TYPES:
            continue
        name = graph.fresh(f"{node.output[0]}_zero")
        dtype = helper.tensor_dtype_to_np_dtype(codes.element_type)
        graph.constants[name] = np.zeros(graph.shape(node.input[1]), dtype)
        node.input[2:] = [name]


_TYPES = {helper.np_dtype_to_tensor_dtype(np.dtype(each)) for each in CODES}
