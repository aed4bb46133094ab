"""A problem's tasks as a chain of blocks, and a configuration as a schedule of the problem.

What must share a stage (tasks of one color, and all between two of them) is one block; blocks are
in the depth-first topological order of `tvm_hetero.views.ideals.contract`, which keeps branches
together. Inputs and outputs are in no block (rule 8 of docs/formats.md).

Since a configuration becomes a schedule, judge, bounds, reports and plans apply to it as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError, PlatformError
from tvm_hetero.online.configuration import Configuration, Place, check_configuration
from tvm_hetero.online.own_plan import Arrangement, arrangement_of
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.views.ideals import contract, place_terminals
from tvm_hetero.views.instance import instance_of

# Sums of the same seconds in another order differ by less than this share.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Chain:
    """A problem's blocks, each with the ids of its tasks, in the order of the chain."""

    problem: Problem
    members: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.members)

    def seconds_on(self, places: Sequence[Place]) -> tuple[tuple[float, ...], ...]:
        """seconds[block][place] of one batch; infinite where a device cannot run a task."""
        instance = instance_of(self.problem)
        device = [_device(self.problem.platform, place) for place in places]
        index = self.problem.graph.index
        return tuple(
            tuple(sum(instance.seconds[index[task]][d] for task in block) for d in device)
            for block in self.members
        )


def chain_of(problem: Problem) -> Chain:
    """The chain of a problem.

    Raises
    ------
    InfeasibleError
        If nothing but inputs and outputs is left.
    """
    instance = instance_of(problem)
    blocks = contract(instance, instance.terminals)
    if not blocks.members:
        raise InfeasibleError(f"problem {quote(problem.name)} has no task that takes time")
    members = (tuple(instance.tasks[v] for v in block) for block in blocks.members)
    return Chain(problem, tuple(members))


def places_of(platform: Platform) -> tuple[Place, ...]:
    """A place for every device, with its name.

    Devices of one target are of one kind. On one node cores keep their numbers; a device without
    cores, or on another node, gets numbers that nobody else has.
    """
    home = platform.devices[0].node
    taken = 1 + max((c for d in platform.devices for c in d.cores), default=-1)
    numbers: dict[tuple[str, int], int] = {}
    kinds: dict[str, str] = {}
    found = []
    for device in platform.devices:
        kind = kinds.setdefault(_target_text(device), device.name)
        keys = [(device.node, core) for core in device.cores] or [(device.name, -1)]
        cores = []
        for key in keys:
            if key[0] == home and key[1] >= 0:
                cores.append(key[1])
            else:
                cores.append(numbers.setdefault(key, taken + len(numbers)))
        found.append(Place(device.name, kind, tuple(cores)))
    return tuple(found)


def _target_text(device: Device) -> str:
    """What makes devices of one kind: the target, but for how many cores it is given."""
    target = {key: value for key, value in (device.target or {}).items() if key != "num-cores"}
    return json.dumps(target, sort_keys=True) if target else device.name


def schedule_of(chain: Chain, configuration: Configuration, places: Sequence[Place]) -> Schedule:
    """The schedule that a configuration is, judged.

    Raises
    ------
    UsageError
        If the configuration is none of this chain and these places, or a device cannot run a task.
    PlatformError
        If a place is no device of the platform, or a tensor cannot be brought where it is read.
    InfeasibleError
        If it breaks a rule of docs/formats.md, say a memory limit.
    """
    check_configuration(configuration, len(chain), places)
    problem = chain.problem
    instance = instance_of(problem)
    index = problem.graph.index
    placement = [-1] * len(instance)
    for (first, last), place in zip(configuration.ranges, configuration.places, strict=True):
        device = _device(problem.platform, places[place])
        for block in chain.members[first:last]:
            for task in block:
                placement[index[task]] = device
    place_terminals(instance, placement)
    elements = tuple(range(problem.batch))
    names = problem.platform.names
    order = problem.graph.topological_order
    steps = [(task, names[placement[index[task]]], elements) for task in order]
    timed = simulate(problem, steps)
    schedule = make_schedule(problem, "online", timed.executions, timed.copies)
    broken = check_schedule(problem, schedule)
    if broken:
        raise InfeasibleError(f"{configuration.text(places)}: {broken[0]}")
    return schedule


def arrangement_of_schedule(
    chain: Chain, schedule: Schedule, places: Sequence[Place]
) -> Arrangement:
    """What a schedule of the chain's problem is to a policy: see `tvm_hetero.online.own_plan`.

    Raises
    ------
    PlatformError
        If a place is no device of the platform.
    UsageError
        If none of the places has anything to do.
    """
    instance, index = instance_of(chain.problem), chain.problem.graph.index
    block_of = {task: b for b, block in enumerate(chain.members) for task in block}
    devices = {
        places[p].name: (p, _device(chain.problem.platform, places[p])) for p in range(len(places))
    }
    whole = chain.seconds_on(places)
    work = [[0.0] * len(chain) for _ in places]
    for run in schedule.executions:
        if run.task in block_of and run.device in devices:
            place, device = devices[run.device]
            part = len(run.elements) / chain.problem.batch
            block = block_of[run.task]
            work[place][block] += part * instance.seconds[index[run.task]][device]
    used = [p for p, row in enumerate(work) if any(row)]
    shares = [[_share(part, whole[b][p]) for b, part in enumerate(work[p])] for p in used]
    return arrangement_of(used, shares)


def _share(part: float, whole: float) -> float:
    """Of a sum, which rounding must not make more than all of it, nor less than all."""
    share = part / whole if part else 0.0
    return 1.0 if share > 1 - _ROUNDING else share


def _device(platform: Platform, place: Place) -> int:
    if place.name not in platform.index:
        raise PlatformError(
            f"place {quote(place.name)} is no device of platform {quote(platform.name)}"
            f"{nearest(place.name, platform.index)}"
        )
    return platform.index[place.name]
