"""Write down defaults that onnx's own shape inference mistakes.

Of a ``MeanVarianceNormalization`` without axes it says that the model is invalid, since the body
of its function wants them; of an ``STFT`` that does not say so, that it is not one-sided.
"""

from __future__ import annotations

import onnx
from onnx import helper

_STATED = {
    "MeanVarianceNormalization": ("axes", [0, 2, 3]),
    "STFT": ("onesided", 1),
}


def state_defaults(model: onnx.ModelProto) -> None:
    """Give nodes these attributes where they have none, in place."""
    for node in model.graph.node:
        name, value = _STATED.get(node.op_type, ("", None))
        if name and not node.domain and all(a.name != name for a in node.attribute):
            node.attribute.append(helper.make_attribute(name, value))
