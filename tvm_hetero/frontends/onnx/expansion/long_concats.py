"""``Concat`` of very many operands, as what an unrolled loop gives: joined part by part.

One kernel of a concatenation asks for each element in which of the operands it lies, one question
within the other.  A thousand of them are more than TVM's passes can descend into.
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

MOST_OPERANDS = 256
_PART = 128


@rewrites("Concat")
def rewrite_long_concat(r: Rewriting) -> bool:
    """Join runs of operands first, then what these give."""
    if len(r.inputs) <= MOST_OPERANDS:
        return False
    axis = int(r.attribute("axis"))
    parts = [r.inputs[i : i + _PART] for i in range(0, len(r.inputs), _PART)]
    joined = [r.add("Concat", part, axis=axis) for part in parts]
    r.add("Concat", joined, r.outputs, axis=axis)
    return True
