"""The attribute ``axis`` of a node, which onnx does not look at for every operator."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


def axis_of(r: Rewriting, default: int, rank: int) -> int:
    """The axis of a node, counted from 0.

    Parameters
    ----------
    default : the axis of a node that names none.
    rank : dimensions that there are.

    Raises
    ------
    ModelError
        If there is no such axis.
    """
    axis = int(r.attribute("axis", default))
    if not -rank <= axis < rank:
        r.refuse(f"names axis {axis}, and there are {rank} dimensions. Export the model again")
    return axis % rank
