"""Axes that nodes name, which onnx does not look at for every operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


def checked_axis(refuse: Callable[[str], NoReturn], axis: int, rank: int) -> int:
    """An axis counted from 0.

    Parameters
    ----------
    refuse : takes the rest of a sentence of which the node is the subject.
    axis : as the node names it, from the end where it is negative.
    rank : dimensions that there are.

    Raises
    ------
    ModelError
        If there is no such axis.
    """
    if not -rank <= axis < rank:
        refuse(f"names axis {axis}, and there are {rank} dimensions. Export the model again")
    return axis % rank
