"""Products of ones in places that indices name, by a table: the rows that they name.

A row with a one in one place, else zeros, times a matrix is a row of the matrix (an embedding as
JAX and TensorFlow export it), to the bit, since only zeros are added. What is out of range is like
no place, so its row is zero.

    Equal(indices[..., 1], 0 ... n - 1) -> Cast -> MatMul(table)      what `rewrite_product` finds
    Equal(...) -> Where(1, 0) -> MatMul(table)                        (what OneHot becomes)
    Gather(table and a row of zeros, indices or n)                    what it makes of them
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("MatMul")
def rewrite_product(r: Rewriting) -> bool:
    """Take the rows that indices name, instead of multiplying by ones and zeros."""
    left, right = r.inputs
    indices = _indices_of(r, left)
    if indices is None:
        return False
    table = r.array(right)
    depth = r.dims(left)[-1]
    if table is None or table.ndim != 2 or len(table) != depth or not _is_finite(table):
        return False
    column, places = indices
    if not np.array_equal(places.ravel(), np.arange(depth)):
        return False
    shape = r.dims(left)[:-1]
    found = r.add("Reshape", [column, r.constant(shape, np.int64)])
    none = r.constant(depth, places.dtype)
    low = r.add("Less", [found, r.constant(0, places.dtype)])
    found = r.add("Where", [low, none, found])
    found = r.add("Where", [r.add("Less", [found, none]), found, none])
    zero = np.zeros((1, table.shape[1]), table.dtype)
    r.add("Gather", [r.constant(np.concatenate([table, zero])), found], r.outputs, axis=0)
    return True


def _is_finite(table: np.ndarray) -> bool:
    """Whether zero times it is zero."""
    return bool(table.dtype.kind == "f" and np.isfinite(table).all())


def _indices_of(r: Rewriting, ones: str) -> tuple[str, np.ndarray] | None:
    """Return what is compared, one a row, and with what, if that is where a one stands."""
    hit = _hit(r, r.maker(ones))
    node = None if hit is None else r.maker(hit)
    if node is None or node.op_type != "Equal" or not r.is_shaped(ones):
        return None
    for name, other in (node.input, reversed(node.input)):
        places = r.array(other)
        if places is None or places.dtype not in (np.int32, np.int64):
            continue
        column = _column(r, name)
        along_last = places.ndim > 0 and places.size == places.shape[-1]
        if along_last and r.is_shaped(column) and r.dims(column)[-1:] == (1,):
            every = r.dims(ones)
            fits = r.dims(column)[:-1] == every[:-1] and places.size == every[-1]
            return (column, places) if fits and len(every) >= 2 else None
    return None


def _hit(r: Rewriting, node: NodeProto | None) -> str | None:
    """Return the condition of which a node makes one or zero."""
    if node is None:
        return None
    if node.op_type == "Cast":
        return str(node.input[0])
    if node.op_type == "Where":
        one, zero = (r.array(name) for name in node.input[1:])
        known = one is not None and zero is not None
        return str(node.input[0]) if known and np.all(one == 1) and np.all(zero == 0) else None
    return None


def _column(r: Rewriting, name: str) -> str:
    """Return what is repeated along the last dimension, the value itself where nothing is."""
    node = r.maker(name)
    return str(node.input[0]) if node is not None and node.op_type == "Expand" else name
