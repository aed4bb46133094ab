"""Tensors of two values whose pattern indices or the shape decide: OneHot, EyeLike."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tvm_hetero.frontends.onnx.expansion.axes import axis_of
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("OneHot")
def rewrite_one_hot(r: Rewriting) -> bool:
    """Compare each index with all that it can be; one out of range is like none of them."""
    indices, _, values = r.inputs
    depth = r.whole_number(1, "depth")
    rank = len(r.dims(indices)) + 1
    axis = axis_of(r, -1, rank)
    r.afford(depth)
    along = [1] * rank
    along[axis] = depth
    whole = r.add("Cast", [indices], to=TensorProto.INT64)
    counted = r.add("Add", [whole, r.constant(depth, np.int64)])
    below = r.add("Less", [whole, r.constant(0, np.int64)])
    place = r.add("Where", [below, counted, whole])
    column = r.add("Unsqueeze", [place, r.constant([axis], np.int64)])
    all_places = r.constant(np.arange(depth, dtype=np.int64).reshape(along))
    hit = r.add("Equal", [column, all_places])
    off, on = (r.add("Gather", [values, r.constant(i, np.int64)]) for i in (0, 1))
    r.add("Where", [hit, on, off], r.outputs)
    return True


@rewrites("EyeLike")
def rewrite_eye_like(r: Rewriting) -> bool:
    """The shape decides all of it."""
    rows, columns = r.dims(r.inputs[0])
    kind = r.attribute("dtype", 0) or r.element_type(r.inputs[0])
    dtype = helper.tensor_dtype_to_np_dtype(int(kind))
    r.afford(rows, columns, dtype=dtype)
    r.alias(r.constant(np.eye(rows, columns, int(r.attribute("k", 0)), dtype)), r.outputs[0])
    return True
