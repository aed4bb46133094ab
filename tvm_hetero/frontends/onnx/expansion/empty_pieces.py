"""``Split`` into pieces of which some are empty: those are constants, and the others are cut."""

from __future__ import annotations

import numpy as np

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("Split")
def rewrite_split(r: Rewriting) -> bool:
    """Take empty pieces out."""
    sizes = r.array(r.operand(1)) if r.operand(1) else None
    if sizes is None or sizes.all():
        return False
    axis = r.attribute("axis", 0)
    empty = list(r.dims(r.inputs[0]))
    empty[axis] = 0
    left = []
    for size, name in zip(sizes, r.outputs, strict=True):
        if size:
            left.append((int(size), name))
        elif name:
            r.alias(r.constant(np.zeros(empty, r.dtype(r.inputs[0]))), name)
    if len(left) == 1:
        r.alias(r.inputs[0], left[0][1])
    else:
        lengths = r.constant([size for size, _ in left], np.int64)
        r.add("Split", [r.inputs[0], lengths], [name for _, name in left], axis=axis)
    return True
