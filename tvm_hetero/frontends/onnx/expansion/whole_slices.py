"""Slices of all that there is, as TensorFlow exports ``x[:, :n]`` of n columns: the value itself.

A slice between a convolution and what follows it would keep both from being one kernel.
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("Slice")
def rewrite_whole_slice(r: Rewriting) -> bool:
    """Hand on what is sliced, where every axis is taken from its beginning to its end."""
    bounds = [r.array(r.operand(i)) for i in (1, 2)]
    axes, steps = (r.array(r.operand(i)) if r.operand(i) else None for i in (3, 4))
    named = [r.operand(i) for i in (3, 4) if r.operand(i)]
    if (
        len(r.inputs) < 3
        or any(b is None for b in bounds)
        or any(r.array(n) is None for n in named)
    ):
        return False
    if not r.is_shaped(r.inputs[0]):
        return False
    dims = r.dims(r.inputs[0])
    begins, ends = ([int(v) for v in b.ravel()] for b in bounds if b is not None)
    along = range(len(begins)) if axes is None else [int(a) for a in axes.ravel()]
    if any(not -len(dims) <= a < len(dims) for a in along):
        return False  # no such axis: onnx and TVM say so
    strides = [1] * len(begins) if steps is None else [int(s) for s in steps.ravel()]
    lengths = [dims[a] for a in along]
    whole = all(
        stride == 1 and (begin == 0 or begin <= -length) and end >= length
        for begin, end, stride, length in zip(begins, ends, strides, lengths, strict=True)
    )
    if whole:
        r.alias(r.inputs[0], r.outputs[0])
    return whole
