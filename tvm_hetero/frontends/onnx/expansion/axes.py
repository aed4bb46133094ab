"""The attribute ``axis`` of a node."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.axes import checked_axis


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
    return checked_axis(r.refuse, int(r.attribute("axis", default)), rank)
