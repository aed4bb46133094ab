"""Solutions of modules one after the other, as one of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_hetero.solvers.lists.partial_schedule import Solution, Span
from tvm_hetero.views.instance import Hop, Instance
from tvm_hetero.views.modularity import Module

Joined = tuple[list[int], list[Span], dict[tuple[int, Hop], Span]]


def joined(instance: Instance, steps: Iterable[tuple[Module, Sequence[int], Solution]]) -> Joined:
    """Devices, times of parts and times of hops.

    Parameters
    ----------
    steps : each module, its parts in canonical order, and a solution of these; in a row the
        modules end and begin on the same devices.
    """
    n = len(instance)
    placement, spans = [-1] * n, [(0.0, 0.0)] * n
    hops: dict[tuple[int, Hop], Span] = {}
    now = 0.0
    for module, parts, found in steps:
        for p, v in enumerate(parts):
            if v != module.first:
                begin, end = found.times[p]
                placement[v], spans[v] = found.placement[p], (now + begin, now + end)
        numbers = _tensors_within(instance, parts)
        for (t, hop), (begin, end) in found.hops.items():
            hops[numbers[t], hop] = (now + begin, now + end)
        now += found.value
    return placement, spans, hops


def _tensors_within(instance: Instance, parts: Sequence[int]) -> list[int]:
    """The tensors that are read within a module, in the order of its piece's."""
    inside = set(parts)
    return [
        t
        for v in parts
        for t in instance.outputs[v]
        if not inside.isdisjoint(instance.tensors[t].readers)
    ]
