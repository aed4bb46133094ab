"""What a loop gives for its steps where it has none: tensors of no pieces.

A piece is what one step would give. Of its shape is known what holds in each step, as in ONNX
Runtime: the types that the body states, those of values around it, and what onnx infers from both.
What a ``Loop`` carries may change its shape from step to step, so that of its first value says
nothing. Where a dimension stays unknown ONNX Runtime takes 0 for it, or leaves all of them out;
which it is depends on how far it optimizes, so here such a loop is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto, TypeProto, helper

from tvm_hetero.frontends.onnx.expansion.folding import empty_tensor
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.native_calls import reason_of
from tvm_hetero.util.untrusted_names import printable


def stack_nothing(
    r: Rewriting,
    names: Sequence[str],
    axes: Sequence[int],
    body: GraphProto,
    given: Sequence[TypeProto],
) -> None:
    """Give outputs of a loop of no steps as tensors of no pieces.

    Parameters
    ----------
    r : Rewriting
        The loop.
    names : sequence of str
        Its outputs that are made of pieces, '' for what no one wants.
    axes : sequence of int
        Along which the pieces of each are stacked.
    body : GraphProto
        Its body, whose last outputs are the pieces.
    given : sequence of TypeProto
        What holds in each step of the body's inputs.
    """
    if not any(names):
        return
    try:
        types = r.infer_graph(body, given)[-len(axes) :]
    except Exception as error:
        r.refuse(f"has no step, and onnx finds no types in its body: {reason_of(error, 200)}")
    for name, axis, piece in zip(names, axes, types, strict=False):
        empty = empty_tensor(_stacked(piece, axis)) if _has_shape(piece) else None
        if name and empty is None:
            r.refuse(
                f"has no step, and of what shape '{printable(name)}' is then does not follow from "
                "its body. State the shape of that output there, or export the model for a step or "
                "more"
            )
        if name:
            r.alias(r.constant(empty), name)


def _has_shape(piece: TypeProto) -> bool:
    return piece.tensor_type.elem_type != 0 and piece.tensor_type.HasField("shape")


def _stacked(piece: TypeProto, axis: int) -> TypeProto:
    """Return the type of no pieces of a type."""
    dims: list[int | None] = [
        d.dim_value if d.HasField("dim_value") else None for d in piece.tensor_type.shape.dim
    ]
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 0)
    return helper.make_tensor_type_proto(piece.tensor_type.elem_type, dims)
