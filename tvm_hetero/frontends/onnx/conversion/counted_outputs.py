"""Outputs of which a part counts, as whoever hands them over wants them.

That part must stand at the beginning of the output, without gaps (`tvm_hetero.passes.lengths`): so
it does where the counted axis is the first one, and is made to where not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_hetero.frontends.onnx.conversion.counted import Counts, ValueType
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.passes.lengths import CountedResult

if TYPE_CHECKING:
    from tvm import relax


def value_type(value: relax.Expr) -> ValueType | None:
    """Return the type of a tensor whose shape is known, None of what is none."""
    from tvm import relax

    from tvm_hetero.frontends.onnx.model.static_types import static_shape

    type_ = getattr(value, "ty", None)
    if not isinstance(type_, relax.TensorType):
        return None
    dims = static_shape(type_)
    return None if dims is None else ValueType(dims, str(type_.dtype))


def counted_outputs(
    builder: relax.BlockBuilder, graph: OnnxGraph, made: Sequence[relax.Expr], counts: Counts
) -> tuple[list[relax.Expr], list[CountedResult]]:
    """Return the results of ``main``, and which of them are counted by which.

    Parameters
    ----------
    builder : relax.BlockBuilder
        Within the dataflow block.
    graph : OnnxGraph
        Whose outputs are made.
    made : sequence of relax.Expr
        Its outputs; numbers are added behind them.
    counts : Counts
        What is counted.
    """
    results, counted = list(made), []
    position: dict[str, int] = {}
    for i, output in enumerate(graph.outputs):
        found = counts.axes.get(output.name)
        if found is None:
            continue
        if found.number not in position:
            position[found.number] = len(results)
            results.append(counts.numbers[found.number])
        results[i] = _packed(builder, results[i], found.axis, counts.numbers[found.number])
        counted.append(CountedResult(i, found.axis, position[found.number]))
    return results, counted


def _packed(
    builder: relax.BlockBuilder, value: relax.Expr, axis: int, number: relax.Expr
) -> relax.Expr:
    """Bring what counts to the beginning."""
    from tvm import relax

    from tvm_hetero.kernels.ordered.found import pack

    type_ = value_type(value)
    assert type_ is not None
    dims, dtype = type_
    outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    if outer == 1:
        return value
    extents = (outer, dims[axis], inner)
    rows = builder.emit(relax.op.reshape(value, extents))
    kernel = builder.add_func(pack(extents, dtype), "pack")
    flat = relax.TensorType([math.prod(dims)], dtype)
    packed = builder.emit(relax.call_tir(kernel, [rows, number], flat))
    return builder.emit(relax.op.reshape(packed, dims))
