"""Costs in place: what each kernel takes inside the whole network, as the executor runs it.

Why not the kernels' times alone? A kernel that is measured alone finds its inputs, its code and
most of the core's predictors as the last repeat left them. In a network it finds what the kernel
before it has left, and a tensor that was made forty kernels ago may be in no cache any more. That
shows most in small kernels and in concatenations, least in large convolutions, so no factor repairs
it. So once the contests have said how each kernel is computed,

    alone     the network is built for each device by itself and run there, kernel by kernel timed
    loaded    all devices of a node run it at once, each its own build of it; teams of cores that
              exclude each other, those of a width at once
    batched   for a batch: the same with several elements, loaded only, with kernels that compute
              several of them at once (`tvm_hetero.cost_models.in_network.batched_kernels`)

The cost of a task is what it takes loaded: in a plan worth having the other devices are busy too.
One device alone is faster than its costs say by its *interference*, which is measured on the way
(loaded / alone) and noted in the problem's platform. Devices that are alike get the same costs
(`tvm_hetero.problem.equivalent_devices`). How near plans come to what is predicted like that is
what
`python -m benchmarks.latency` measures (docs/performance.md).

How it is measured: `tvm_hetero.cost_models.in_network.bench`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tvm_hetero.cost_models.in_network.batched_kernels import Together, with_sizes
from tvm_hetero.cost_models.in_network.bench import NetworkBench
from tvm_hetero.cost_models.in_network.run import Rounds
from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.equivalent_devices import Seconds, average_groups, equal_devices
from tvm_hetero.problem.model import Problem

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class InPlace:
    """What the tasks of a network take in it; a device that could not run it is left out.

    `batched` has for each number of elements what candidates take that compute them at once.
    """

    alone: Seconds
    loaded: Seconds
    batched: Mapping[int, Together] = field(default_factory=dict)

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
        found = self.averaged(problem)
        costs = {
            task: {name: found._cost(task, name, cost, problem.batch) for name, cost in row.items()}
            for task, row in problem.costs.items()
        }
        devices = []
        for device in problem.platform.devices:
            factor = found.interference(device.name)
            devices.append(device if factor is None else replace(device, interference=factor))
        return replace(
            problem, costs=costs, platform=replace(problem.platform, devices=tuple(devices))
        )

    def averaged(self, problem: Problem) -> InPlace:
        """The same, but devices that are alike take the same."""
        # Something else that runs on one core for a while rarely meets it every time.
        kernels = {
            task: {name: problem.seconds(task, name) for name in row}
            for task, row in self.alone.items()
        }
        measured = (self.loaded, self.alone, kernels)
        found = [equal_devices(problem.platform, seconds) for seconds in measured]
        groups = max(found, key=lambda groups: sum(map(len, groups)))

        def even(seconds: Seconds) -> Seconds:
            return average_groups(seconds, groups, problem.costs)

        return InPlace(
            even(self.alone),
            even(self.loaded),
            {n: Together(even(each.at_once), even(each.apart)) for n, each in self.batched.items()},
        )

    def _cost(self, task: str, device: str, cost: Cost, batch: int) -> Cost:
        """What a task costs on a device; what it was if that was not measured."""
        rows = [seconds.get(task, {}) for seconds in (self.loaded, self.alone)]
        single = next((row[device] for row in rows if device in row), None)
        if single is None:
            return cost
        pairs = {n: each.of(task, device) for n, each in self.batched.items()}
        known = {n: pair for n, pair in pairs.items() if pair is not None}
        return with_sizes(cost, single, known, batch)


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
    bench = NetworkBench(mod, problem, store, progress, rounds, again)
    alone, loaded = bench.one_element()
    single = {task: row | loaded.get(task, {}) for task, row in alone.items()}
    return InPlace(alone, loaded, bench.batches(single))
