"""Room: a placement that spreads weights as memory allows, and what a plan that overflows lacks."""

from __future__ import annotations

import math

from tvm_hetero.problem.memory import timed_peaks
from tvm_hetero.solvers.native.library import NativeAnswer, NativeSearch
from tvm_hetero.solvers.native.start import exact_schedule
from tvm_hetero.util.units import format_bytes, format_seconds
from tvm_hetero.views.instance import Instance


def roomiest(instance: Instance) -> list[int]:
    """The heaviest groups first, each where the largest part of the memory stays free."""
    held = [0.0] * len(instance.names)
    placement = [0] * len(instance)

    def weight(group: tuple[int, ...]) -> int:
        return sum(instance.weights[v] + instance.unread[v] for v in group)

    def filled(device: int, nbytes: int) -> float:
        limit = instance.capacity[device]
        return 0.0 if limit is None else (held[device] + nbytes) / max(limit, 1)

    for group in sorted(instance.groups, key=lambda g: (-weight(g), g)):
        own = weight(group)

        def rank(device: int, own: int = own, group: tuple[int, ...] = group) -> tuple[float, ...]:
            seconds = math.fsum(instance.seconds[v][device] for v in group)
            return (filled(device, own), seconds, device)

        device = min(instance.devices[group[0]], key=rank)
        held[device] += own
        for v in group:
            placement[v] = device
    return placement


def shortage(search: NativeSearch, found: NativeAnswer) -> str:
    """Which device lacks how much, and when, at a plan that breaks limits; what to do."""
    problem = search.instance.problem
    if not found.value < math.inf:
        return "some tensor cannot reach its readers; add links or memory"
    executions, copies = exact_schedule(search, found)
    peaks = timed_peaks(problem, executions, copies)
    lacks = []
    for device in problem.platform.devices:
        peak = peaks[device.name]
        if device.memory is None or peak.bytes <= device.memory:
            continue
        weights = {e.task for e in executions if e.device == device.name}
        held = sum(problem.graph.task(task).weight_bytes for task in weights)
        lacks.append(
            f"device {device.name!r} needs {format_bytes(peak.bytes)} "
            f"({format_bytes(held)} of it weights) at {format_seconds(peak.seconds)} and has "
            f"{format_bytes(device.memory)}, {format_bytes(peak.bytes - device.memory)} too little"
        )
    best = "at the best plan that was looked at, "
    if not lacks:
        return f"{best}the latency limit is exceeded; raise it, or allow more time"
    return best + "; ".join(lacks) + "; add memory or a device, or allow more time"
