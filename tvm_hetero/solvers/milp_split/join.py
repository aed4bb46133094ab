"""Solutions of modules one after the other, as one of the whole, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_hetero.solvers.lists.partial_schedule import HopTimes, Solution, Span
from tvm_hetero.views.instance import Hop, Instance
from tvm_hetero.views.modularity import Module
from tvm_hetero.views.symmetric_paths import Permutation

Joined = tuple[list[int], list[Span], dict[tuple[int, Hop], Span]]


def join_modules(
    instance: Instance, steps: Iterable[tuple[Module, Sequence[int], Solution]]
) -> Joined:
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


def part_of(
    instance: Instance, whole: Solution, module: Module, parts: Sequence[int]
) -> tuple[list[int], list[Span], HopTimes]:
    """What a solution of the whole does in one module: devices, times of parts and of hops.

    Times count from the end of the module's first part, which has ended when they begin.
    """
    began = 0.0 if module.first is None else whole.times[module.first][1]
    spans = [(begin - began, end - began) for begin, end in (whole.times[v] for v in parts)]
    if module.first is not None:
        spans[parts.index(module.first)] = (0.0, 0.0)
    number = {t: p for p, t in enumerate(_tensors_within(instance, parts))}
    hops = {
        (number[t], hop): (begin - began, end - began)
        for (t, hop), (begin, end) in whole.hops.items()
        if t in number
    }
    return [whole.placement[v] for v in parts], spans, hops


def moved(
    placement: Sequence[int], hops: HopTimes, move: Permutation
) -> tuple[list[int], HopTimes]:
    """Devices and hops after a symmetry."""
    there = {(t, (move[a], move[b])): span for (t, (a, b)), span in hops.items()}
    return [move[d] for d in placement], there


def _tensors_within(instance: Instance, parts: Sequence[int]) -> list[int]:
    """The tensors that are read within a module, in the order of its piece's."""
    inside = set(parts)
    return [
        t
        for v in parts
        for t in instance.outputs[v]
        if not inside.isdisjoint(instance.tensors[t].readers)
    ]
