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
    stated = [value.type for value in body.output[-len(axes) :]]
    for name, axis, piece, other in zip(names, axes, types, stated, strict=False):
        both = _joined(piece, other) if name else None
        empty = None if both is None else empty_tensor(_stacked(both, axis))
        if name and empty is None:
            r.refuse(
                f"has no step, and of what shape '{printable(name)}' is then does not follow from "
                "its body. State the shape of that output there, or export the model for a step or "
                "more"
            )
        if name:
            r.alias(r.constant(empty), name)


def _joined(found: TypeProto, stated: TypeProto) -> TypeProto | None:
    """Return what two types say together; None where they differ, or neither says all."""
    one, two = found.tensor_type, stated.tensor_type
    if one.elem_type and two.elem_type and one.elem_type != two.elem_type:
        return None
    kind = one.elem_type or two.elem_type
    shapes = [_dims(each) for each in (one, two) if each.HasField("shape")]
    if not kind or not shapes or len({len(dims) for dims in shapes}) > 1:
        return None
    known = [
        {length for length in lengths if length is not None}
        for lengths in zip(*shapes, strict=True)
    ]
    if any(len(lengths) != 1 for lengths in known):
        return None
    return helper.make_tensor_type_proto(kind, [lengths.pop() for lengths in known])


def _dims(tensor: TypeProto.Tensor) -> list[int | None]:
    return [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]


def _stacked(piece: TypeProto, axis: int) -> TypeProto:
    """Return the type of no pieces of a type."""
    dims = _dims(piece.tensor_type)
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 0)
    return helper.make_tensor_type_proto(piece.tensor_type.elem_type, dims)
