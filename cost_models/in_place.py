"""Costs in place: what each kernel takes inside the whole network, as the executor runs it.

Why not the kernels' times alone? A kernel that is measured alone finds its inputs, its code and
most of the core's predictors as the last repeat left them. In a network it finds what the kernel
before it has left, and a tensor that was made forty kernels ago may be in no cache any more. That
shows most in small kernels and in concatenations, least in large convolutions, so no factor repairs
it. So once the contests have said how each kernel is computed,

    alone     the network is built for each device by itself and run there, kernel by kernel timed
    loaded    all devices of a node run it at once, each its own build of it

in several turns, so that what disturbs the machine for a second meets both.

A task that a device cannot run is run on another one meanwhile (and its tensors are copied, where
that is needed), so everything that is read has its true values. Weights are the model's own;
inputs are random, whole numbers 0, since they may be indices.

The cost of a task is what it takes loaded: in a plan worth having the other devices are busy too.
One device alone is faster than its costs say by its *interference*, which is measured on the way
(loaded / alone) and noted in the problem's platform. How near plans come to what is predicted like
that is what `python -m benchmarks.latency` measures (docs/performance.md).

Of the rounds of a network, each call counts with the lower quartile of its times, since what else
runs on the machine only adds. Quartiles of many calls do not fall into one round: their sum is
below the median round, always. So all are stretched to the median round, but by
`MOST_STRETCH` at the most, for on a machine that others use that round is not a quiet one.

Turns go on while the lower quarter of the rounds reaches further than `Rounds.noise` above the
fastest one, for a while. What has settled is kept in the store beside the kernels' times: a network
that comes again has the very same costs, hence the same plan. What has not is used, but not kept,
nor is what takes `IMPLAUSIBLE` times as long as the kernels alone: the machine was busy all along.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import tvm_ffi

from tvm_hetero.cost_models.identity import place_of
from tvm_hetero.cost_models.in_place_run import Network, Rounds, networks, run_in_turns
from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.documents import canonical_json
from tvm_hetero.passes.dataflow import read_main
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Problem

if TYPE_CHECKING:
    import tvm

# Part of every key: raise it when the way of measuring changes, so that old times are not used.
METHOD = "in-place/3"
MOST_STRETCH = 1.03
IMPLAUSIBLE = 1.3
# task -> device -> s
Seconds = dict[str, dict[str, float]]


@dataclass(frozen=True)
class InPlace:
    """What the tasks of a network take in it; a device that could not run it is left out."""

    alone: Seconds
    loaded: Seconds

    def interference(self, device: str) -> float | None:
        """How many times as long the network takes on `device` while all devices run it."""
        pairs = [
            (own[device], self.loaded[task][device])
            for task, own in self.alone.items()
            if device in own and device in self.loaded.get(task, {})
        ]
        if not pairs:
            return None
        factor = math.fsum(loaded for _, loaded in pairs) / math.fsum(own for own, _ in pairs)
        return max(1.0, round(factor, 4))

    def applied_to(self, problem: Problem) -> Problem:
        """The problem with these costs, and the devices' interference in its platform."""
        costs = {task: dict(row) for task, row in problem.costs.items()}
        for seconds in (self.alone, self.loaded):
            for task, row in seconds.items():
                for name, value in row.items():
                    costs[task][name] = replace(costs[task][name], points=((1, value),))
        devices = []
        for device in problem.platform.devices:
            factor = self.interference(device.name)
            devices.append(device if factor is None else replace(device, interference=factor))
        return replace(
            problem, costs=costs, platform=replace(problem.platform, devices=tuple(devices))
        )


def measure_in_place(
    mod: tvm.IRModule,
    problem: Problem,
    store: CostStore | None = None,
    progress: Progress | None = None,
    rounds: Rounds = Rounds(),
    *,
    again: bool = False,
) -> InPlace:
    """Run a whole network on each device of this machine, alone and with all others at it.

    Parameters
    ----------
    mod : the lowered module, with what was chosen for its kernels.
    problem : its problem, with the costs of the kernels alone.
    store : where results are looked for and kept; None: everything is measured.
    again : measure also what is in the store: a machine that is not one's own may have changed.

    Notes
    -----
    What cannot be run on some device (it lacks the memory, or a link) is left out of the result
    with a `ProfileWarning`. An interruption ends the executors.
    """
    key = _key(mod, problem)
    known = None if store is None or again else store.find_network(key)
    if known is not None:
        return InPlace(**known)
    found, quiet = InPlace({}, {}), True
    for devices in _by_node(problem.platform):
        with networks(mod, problem, devices, progress) as built:
            quiet &= run_in_turns(built, rounds, progress)
            for network in built:
                _add(found.alone, network, network.alone)
                if len(built) > 1:
                    _add(found.loaded, network, network.loaded)
    if store is not None and quiet and _plausible(found.alone, problem):
        store.add_network(key, {"alone": found.alone, "loaded": found.loaded})
    return found


def typical(rounds: Sequence[Sequence[float]]) -> list[float]:
    """What each call takes (s), from its times in several rounds; see the file's text."""
    median = statistics.median(math.fsum(times) for times in rounds)
    calls = [_lower_quartile(times) for times in zip(*rounds, strict=True)]
    stretch = min(max(1.0, median / math.fsum(calls)), MOST_STRETCH)
    return [seconds * stretch for seconds in calls]


def _plausible(alone: Seconds, problem: Problem) -> bool:
    """Whether the network takes on every device about what its kernels take alone."""
    for device in problem.platform.names:
        rows = [(task, row[device]) for task, row in alone.items() if device in row]
        kernels = math.fsum(problem.seconds(task, device) for task, _ in rows)
        if math.fsum(seconds for _, seconds in rows) > IMPLAUSIBLE * kernels:
            return False
    return True


def _lower_quartile(times: Sequence[float]) -> float:
    return sorted(times)[(len(times) - 1) // 4]


def _add(seconds: Seconds, network: Network, rounds: Sequence[Sequence[float]]) -> None:
    """Write down what the rounds of a network say."""
    for task, value in zip(network.tasks, typical(rounds), strict=True):
        seconds.setdefault(task, {})[network.device] = value


def _by_node(platform: Platform) -> list[list[Device]]:
    """Devices that can be busy at once *here*: another node's are measured as if on this one."""
    nodes: dict[str, list[Device]] = {}
    for device in platform.devices:
        if device.target is not None:
            nodes.setdefault(device.node, []).append(device)
    return list(nodes.values())


def _key(mod: tvm.IRModule, problem: Problem) -> str:
    """Everything that the times depend on: the network, how it is computed, and where."""
    main = read_main(mod)
    kernels = {call.kernel.name_hint: call.kernel for call in main.calls}
    hashes = {name: tvm_ffi.structural_hash(mod[gvar]) for name, gvar in kernels.items()}
    network = [
        [main.task_ids[call.position], hashes[call.kernel.name_hint] & (2**64 - 1)]
        for call in main.calls
    ]
    edges = [[edge.src, edge.dst, edge.bytes, edge.tensor] for edge in problem.graph.edges]
    ways = {task: _ways(row) for task, row in problem.costs.items()}
    digest = hashlib.sha256(canonical_json([network, edges, ways]).encode()).hexdigest()
    places = [
        [device.name, device.node, device.private, place_of(problem.platform, device).text]
        for device in problem.platform.devices
        if device.target is not None
    ]
    return canonical_json([METHOD, digest, places])


def _ways(row: Mapping[str, Cost]) -> dict[str, Any]:
    return {device: cost.implementation for device, cost in row.items()}
