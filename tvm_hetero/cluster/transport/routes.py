"""Who reads what of a model in parts: what each message carries, from whom to whom, how large.

A tensor goes once to each process that reads it, however many of its parts do; those that a part
makes for one process go together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tvm_hetero.cluster.parts.parts import Lane, Part, Parts
from tvm_hetero.cluster.transport.message import DRIVER, GIVEN, MessagePlace
from tvm_hetero.passes.lowered_main import read_main, static_shape

# Bytes of a message beside its tensors: names and numbers, or the text of an error.
_AROUND = 16 * 2**10
# Bytes of a tensor beside its elements: type and shape, and what aligns it.
_EACH = 512


@dataclass(frozen=True)
class LaneRoutes:
    """The way of a lane's tensors.

    Attributes
    ----------
    places : where each part stands, in the order of the lane's parts.
    given : for each node that a request begins at, which inputs of the model it gets; none where
        parts wait for nothing but the request.
    """

    places: tuple[MessagePlace, ...]
    given: Mapping[str, tuple[int, ...]]


def route_lane(model: str, number: int, lane: Lane) -> LaneRoutes:
    """The routes of a lane; `number` is its place among the lanes of the model."""
    readers: dict[tuple[int, int], dict[str, None]] = {}
    given: dict[str, dict[int, None]] = {}
    for part in lane.parts:
        if not part.inputs:
            given.setdefault(part.node, {})
        for _, source in part.inputs:
            if source.part is None:
                given.setdefault(part.node, {})[source.index] = None
            else:
                readers.setdefault((source.part, source.index), {})[part.node] = None
    for source in lane.results:
        if source.part is not None:
            readers.setdefault((source.part, source.index), {})[DRIVER] = None
    places = tuple(
        MessagePlace(
            model, number, n, tuple(source for _, source in part.inputs),
            tuple(tuple(readers.get((n, k), ())) for k in range(part.outputs)),
        )
        for n, part in enumerate(lane.parts)
    )  # fmt: skip
    return LaneRoutes(places, {node: tuple(indices) for node, indices in given.items()})


def message_bytes(parts: Parts, routes: Iterable[LaneRoutes]) -> dict[tuple[str, str], int]:
    """The largest message from each process to each other one, in bytes, with what is around it.

    Everybody who computes may have to tell the driver of an error.
    """
    largest = {(node, DRIVER): _AROUND for node in parts.nodes}
    for lane, ways in zip(parts.lanes, routes, strict=True):
        sizes = _tensor_bytes(parts, lane)
        for sender, reader, tensors in _messages(lane, ways):
            nbytes = _AROUND + sum(_EACH + sizes[tensor] for tensor in tensors)
            largest[sender, reader] = max(largest.get((sender, reader), 0), nbytes)
    return largest


def _messages(lane: Lane, ways: LaneRoutes) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """Sender, reader and tensors of each message between two processes."""
    for node, given in ways.given.items():
        yield DRIVER, node, [(GIVEN, index) for index in given]
    for part, place in zip(lane.parts, ways.places, strict=True):
        for reader, made in group_by_reader(place).items():
            if reader != part.node:
                yield part.node, reader, [(place.number, index) for index in made]


def group_by_reader(place: MessagePlace) -> dict[str, list[int]]:
    """The outputs of a part that each process reads; the driver, who computes nothing, is last."""
    found: dict[str, list[int]] = {}
    for index, readers in enumerate(place.readers):
        for reader in readers:
            found.setdefault(reader, []).append(index)
    return dict(sorted(found.items(), key=lambda item: item[0] == DRIVER))


def _tensor_bytes(parts: Parts, lane: Lane) -> dict[tuple[int, int], int]:
    """Bytes of each tensor that passes between processes, for all elements of the lane."""
    each = len(lane.elements)
    found = {(GIVEN, k): each * _nbytes(x.shape, x.dtype) for k, x in enumerate(parts.inputs)}
    for source, output in zip(lane.results, parts.outputs, strict=True):
        if source.part is not None:
            found[source.part, source.index] = each * _nbytes(output.shape, output.dtype)
    for part in lane.parts:
        shapes = _input_shapes(part)
        for name, source in part.inputs:
            if source.part is not None:
                found[source.part, source.index] = each * _nbytes(*shapes[name])
    return found


def _input_shapes(part: Part) -> dict[str, tuple[tuple[int, ...], str]]:
    main = read_main(part.module)
    return {
        name: (static_shape(param.ty, name), str(param.ty.dtype))
        for name, param in zip(main.inputs, main.params, strict=True)
    }


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    # What NumPy has no type for (bfloat16) travels in one of the same size.
    name = {"bfloat16": "uint16"}.get(dtype, dtype)
    return math.prod(shape) * np.dtype(name).itemsize
