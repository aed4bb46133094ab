"""What treats each sequence of a batch by a length or a place of its own.

ReverseSequence     y[t, b] = x[length[b] - 1 - t, b] for t below the length, else x[t, b]
TensorScatter       cache[b, first[b] + i] = update[b, i]
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.axes import axis_of
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("ReverseSequence")
def rewrite_reverse_sequence(r: Rewriting) -> bool:
    """Gather, from each sequence of the batch, its steps in the other order."""
    x, lengths = r.inputs
    dims = r.dims(x)
    time, batch = int(r.attribute("time_axis", 0)), int(r.attribute("batch_axis", 1))
    if {time, batch} != {0, 1}:
        r.refuse(f"has the time on axis {time} and the batch on axis {batch}; expected 0 and 1")
    steps = r.constant(np.arange(dims[time], dtype=np.int64))
    whole = r.add("Cast", [lengths], to=TensorProto.INT64)
    column = r.add("Unsqueeze", [whole, r.constant([1], np.int64)])
    last = r.add("Sub", [column, r.constant(1, np.int64)])
    inside = r.add("Less", [steps, column])
    places = r.add("Where", [inside, r.add("Sub", [last, steps]), steps])
    coordinates = r.add("Unsqueeze", [places, r.constant([2], np.int64)])
    if time == 1:
        r.add("GatherND", [x, coordinates], r.outputs, batch_dims=1)
        return True
    swapped = [1, 0, *range(2, len(dims))]
    by_batch = r.add("Transpose", [x], perm=swapped)
    turned = r.add("GatherND", [by_batch, coordinates], batch_dims=1)
    r.add("Transpose", [turned], r.outputs, perm=swapped)
    return True


@rewrites("TensorScatter")
def rewrite_tensor_scatter(r: Rewriting) -> bool:
    """Write each update where its sequence's first place says; circular ones go round."""
    cache, update = r.inputs[:2]
    dims, written = r.dims(cache), r.dims(update)
    axis = axis_of(r, -2, len(dims))
    if axis == 0:
        r.refuse("writes along axis 0, which is the batch's")
    along = [1] * len(dims)
    along[axis] = written[axis]
    places = r.constant(np.arange(written[axis], dtype=np.int64).reshape(along))
    if r.operand(2):
        column = r.constant([dims[0]] + [1] * (len(dims) - 1), np.int64)
        places = r.add("Add", [r.add("Reshape", [r.operand(2), column]), places])
    if r.attribute("mode", "linear") == "circular":
        places = r.add("Mod", [places, r.constant(dims[axis], np.int64)])
    everywhere = r.add("Expand", [places, r.constant(written, np.int64)])
    r.add("ScatterElements", [cache, everywhere, update], r.outputs, axis=axis)
    return True
