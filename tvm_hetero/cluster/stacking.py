"""What a lane takes of a model's stacked inputs, and puts into its stacked outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_hetero.cluster.parts.parts import Lane
from tvm_hetero.cluster.transport.message import Array


def take_elements(array: Array, lane: Lane, batch: int) -> Array:
    """What a lane gets of a stacked array: that of one element alone has no axis for it."""
    if batch == 1:
        return array
    if len(lane.elements) == 1:
        return array[lane.elements[0], ...]
    if len(lane.elements) == batch:
        return array
    return array[list(lane.elements)]


def put_elements(
    arrays: Sequence[Array], lanes: Sequence[Lane], shape: tuple[int, ...], batch: int
) -> Array:
    """One stacked array of what the lanes made of an output of this shape."""
    if batch == 1:
        return arrays[0].reshape(shape)
    joined = np.empty((batch, *shape), arrays[0].dtype)
    for array, lane in zip(arrays, lanes, strict=True):
        joined[list(lane.elements)] = array.reshape((len(lane.elements), *shape))
    return joined
