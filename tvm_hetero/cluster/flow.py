"""What goes where: the parts of a lane called one after the other, each with what it reads.

A call gives back what stands for the tensors that a part makes: the arrays themselves where it is
done at once, promises of them where it is done elsewhere. Nothing here looks into them, so that all
parts of a lane may be called before the first of them is through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_hetero.cluster.parts import Lane, Part, Source

Array = np.ndarray[Any, Any]
# From a part and its inputs to what it makes, one for each of `part.outputs`.
Call = Callable[[Part, list[Any]], Sequence[Any]]


def flow(lane: Lane, call: Call, inputs: Sequence[Any]) -> list[Any]:
    """Call all parts of a lane; what stands for each output of the model."""
    made: list[Sequence[Any]] = []

    def value(source: Source) -> Any:
        return inputs[source.index] if source.part is None else made[source.part][source.index]

    for part in lane.parts:
        arguments = [value(source) for _, source in part.inputs]
        made.append(call(part, arguments))
    return [value(source) for source in lane.results]


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
