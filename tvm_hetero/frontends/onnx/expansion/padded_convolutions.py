"""Zeros put around an image before a convolution, as the convolution's own padding.

TensorFlow's padding is uneven, so exporters write it as a node of its own. There it would join the
kernel before it, which then has no rule.

    Pad(x, p, 0) -> Conv(pads=q)      what `rewrite_convolution` finds
    Conv(x, pads=p + q)               what it makes of them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto

from tvm_hetero.frontends.onnx.expansion.channel_bias import check_bias
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.expansion.windows import rewrite_same_pads
from tvm_hetero.frontends.onnx.model.mutable_graph import attribute

Array = np.ndarray[Any, Any]

_KEPT = {"group": 1, "kernel_shape": None, "strides": None, "dilations": None}


@rewrites("Conv")
def rewrite_convolution(r: Rewriting) -> bool:
    """Let the convolution pad, where what pads its image does so with zeros, around it.

    Pads that follow from shapes are written out first.
    """
    check_bias(r, r.operand(2), r.inputs[1])
    pad = r.maker(r.inputs[0])
    if r.attribute("auto_pad", "NOTSET") != "NOTSET":
        return rewrite_same_pads(r)
    if pad is None or pad.op_type != "Pad":
        return False
    around = zeros_around(pad, r.array)
    if around is None:
        return False
    own = r.attribute("pads") or [0] * len(around)
    kept = {name: r.attribute(name, default) for name, default in _KEPT.items()}
    pads = [int(a + b) for a, b in zip(own, around, strict=True)]
    r.add("Conv", [pad.input[0], *r.inputs[1:]], r.outputs, pads=pads, **kept)
    return True


def zeros_around(pad: NodeProto, array: Callable[[str], Array | None]) -> list[int] | None:
    """Return the zeros before and after each axis of the image; None if it is not just these.

    Parameters
    ----------
    array
        The data of a constant by its name, None for what is none.
    """
    operands = [*pad.input, "", "", ""]
    if not operands[1] or operands[3] or attribute(pad, "mode", b"constant") != b"constant":
        return None
    pads = array(operands[1])
    value = array(operands[2]) if operands[2] else np.zeros(1)
    if pads is None or value is None or np.any(value != 0) or np.any(pads < 0):
        return None
    before, after = np.split(pads, 2)
    if before[:2].any() or after[:2].any():
        return None
    return [*map(int, before[2:]), *map(int, after[2:])]
