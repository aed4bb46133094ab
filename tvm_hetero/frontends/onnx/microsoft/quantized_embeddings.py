"""``QEmbedLayerNormalization``: embeddings and their normalization from tables of codes."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.registry import MICROSOFT
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import contributed
from tvm_hetero.frontends.onnx.quantized.arithmetic import add_dequantized, scalar_quantizer

# Of word, position and segment embeddings, gamma and beta: codes, scale and zero point.
_TABLES = ((2, 8, 13), (3, 9, 14), (4, 10, 15), (5, 11, 16), (6, 12, 17))


@contributed("QEmbedLayerNormalization", operands=18, results=2, attributes=("epsilon",))
def rewrite_q_embed_layer_normalization(r: Rewriting) -> None:
    """Make numbers of the tables; the rest is EmbedLayerNormalization."""
    tables = [_table(r, *positions) for positions in _TABLES]
    operands = [*r.inputs[:2], *tables, r.operand(7)]
    epsilon = r.attribute("epsilon")
    r.add("EmbedLayerNormalization", operands, r.outputs, MICROSOFT, epsilon=epsilon)


def _table(r: Rewriting, codes: int, scale: int, zero: int) -> str:
    name = r.operand(codes)
    if not name:
        return ""
    return add_dequantized(r, name, scalar_quantizer(r, scale, zero, r.element_type(name)))
