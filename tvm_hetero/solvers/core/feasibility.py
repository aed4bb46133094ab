"""Memory too small for any placement, and links that lack: seen at once, said where.

Conditions that are necessary whatever is placed where, and when:

- a task needs, on the device that runs it, its weights (and those of its color) and, unless it
  takes no time there, what it reads and what it writes, for at least one element -> `_check_tasks`
- let S be the devices that some task can run on. The weights of all tasks that can run nowhere
  else must lie on S: all limits of S together hold them (P. Hall's condition)   -> `_check_sets`
- a device of memory C holds at most C / w groups of tasks (of one color, else single ones) whose
  weights are w or more each, so that as many as there are must find a place      -> `_check_count`
- who makes a tensor and who reads it can run on devices that are the same or that links join
                                                                                -> `check_links`

They are not sufficient. Where they hold and a solver still finds nothing, it says so itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.util.units import format_bytes
from tvm_hetero.views.instance import Instance

# Names of tasks and devices that an error shows.
_NAMED = 3


def check_memory(instance: Instance) -> None:
    """Refuse a problem whose memory cannot hold any placement.

    Raises
    ------
    InfeasibleError
        Which tasks need how much more than there is.
    """
    _check_tasks(instance)
    _check_weights(instance)
    _check_sets(instance)


def check_links(instance: Instance) -> None:
    """Refuse a problem with an edge that no links can carry, wherever its tasks run.

    Raises
    ------
    InfeasibleError
        Which tensor cannot come from which devices to which.
    """
    for flow in instance.tensors:
        makers = instance.devices[flow.maker]
        for reader in flow.readers:
            readers = instance.devices[reader]
            if not set(makers).isdisjoint(readers):
                continue
            if all(instance.route(j, d, flow.nbytes) is None for j in makers for d in readers):
                raise InfeasibleError(
                    f"task {instance.tasks[reader]!r} reads what {instance.tasks[flow.maker]!r} "
                    f"makes, and no links lead from {_places(instance, makers)}, which can make "
                    f"it, to {_places(instance, readers)}, which can read it; add a link, or "
                    "costs on a common device",
                    proven=True,
                )


def least_bytes(instance: Instance, task: int, device: int) -> int:
    """What `device` must hold while it runs `task` for one element, in bytes."""
    problem = instance.problem
    group = instance.groups[instance.group_of[task]]
    weights = sum(instance.weights[v] for v in group)
    cost = problem.costs[instance.tasks[task]][instance.names[device]]
    takes_time = cost.seconds(problem.batch) > 0 and all(s > 0 for _, s in cost.points)
    if not takes_time and problem.objective.kind != "throughput":
        return weights
    tensors = (*instance.inputs[task], *instance.outputs[task])
    moved = sum(instance.tensors[t].nbytes for t in tensors) + instance.unread[task]
    return weights + moved // problem.batch


def _check_tasks(instance: Instance) -> None:
    for v, task in enumerate(instance.tasks):
        # Bytes that lack on each device that can run the task; none or less where it fits.
        lack: dict[int, int] = {}
        for d in instance.devices[v]:
            limit = instance.capacity[d]
            lack[d] = 0 if limit is None else least_bytes(instance, v, d) - limit
            if lack[d] <= 0:
                break
        best = min(lack, key=lambda d: (lack[d], d))
        if lack[best] <= 0:
            continue
        raise InfeasibleError(
            f"task {task!r} needs {format_bytes(least_bytes(instance, v, best))} on the device "
            f"that runs it (weights, inputs and outputs of one element); the best of those that "
            f"can, {instance.names[best]!r}, has {format_bytes(instance.capacity[best] or 0)}, "
            f"{format_bytes(lack[best])} too little; add memory, or a device",
            proven=True,
        )


def _check_weights(instance: Instance) -> None:
    devices = sorted({instance.memory_of[d] for allowed in instance.devices for d in allowed})
    limits = [limit for limit in (instance.capacity[d] for d in devices) if limit is not None]
    if len(limits) < len(devices):
        return
    need = sum(instance.weights)
    what = "the weights of all tasks take"
    if instance.problem.objective.kind == "throughput":
        need += sum(flow.nbytes for flow in instance.tensors) + sum(instance.unread)
        what = "weights and, in steady state, one buffer a tensor and element take"
    room = sum(limits)
    if need > room:
        raise InfeasibleError(
            f"{what} {format_bytes(need)}; all devices together have {format_bytes(room)}, "
            f"{format_bytes(need - room)} too little; add memory, or a device",
            proven=True,
        )


def _check_sets(instance: Instance) -> None:
    """Tasks that only some devices can run, and whole groups, against these devices' limits."""
    sets = sorted({frozenset(allowed) for allowed in instance.devices}, key=sorted)
    for devices in [*sets, frozenset().union(*sets)]:
        # Teams of a node see one memory.
        limits = {instance.memory_of[d]: instance.capacity[d] for d in sorted(devices)}
        rooms = {d: limit for d, limit in limits.items() if limit is not None}
        if len(rooms) < len(limits):
            continue
        groups = instance.groups
        bound = [group for group in groups if devices.issuperset(instance.devices[group[0]])]
        # Parts of one task share its weights; a group is counted once, with those of its tasks.
        sizes = {group: _group_weight(instance, group) for group in bound}
        need, room = sum(sizes.values()), sum(rooms.values())
        if need > room:
            raise InfeasibleError(
                f"the weights of {_named(instance, bound)}, which can run on "
                f"{_devices(instance, rooms)} alone, take {format_bytes(need)}; together "
                f"these have {format_bytes(room)}, {format_bytes(need - room)} too little; add "
                "memory, or costs on other devices",
                proven=True,
            )
        _check_count(instance, sizes, rooms)


def _check_count(
    instance: Instance, sizes: dict[tuple[int, ...], int], rooms: dict[int, int]
) -> None:
    """How many heavy groups there are, and how many the devices can hold."""
    heaviest = sorted(sizes, key=lambda group: (-sizes[group], group))
    for count, group in enumerate(heaviest, start=1):
        least = sizes[group]
        if least == 0:
            return
        places = sum(room // least for room in rooms.values())
        if count > places:
            raise InfeasibleError(
                f"{_named(instance, heaviest[:count])} need {format_bytes(least)} or more for "
                f"their weights each, and no device can hold part of one: "
                f"{_devices(instance, rooms)} have room for {places} of these {count}; add "
                f"memory, or a device with {format_bytes(least)}",
                proven=True,
            )


def _group_weight(instance: Instance, group: tuple[int, ...]) -> int:
    """Bytes of the weights of all tasks of a group."""
    tasks = {instance.task_of[v] for v in group}
    return sum(instance.weights[instance.parts_of[i][0]] for i in tasks)


def _named(instance: Instance, groups: Sequence[tuple[int, ...]]) -> str:
    """A few names of tasks, and how many more there are."""
    tasks = [instance.tasks[group[0]] for group in groups]
    shown = ", ".join(repr(task) for task in tasks[:_NAMED])
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return f"task{'s' if len(tasks) > 1 else ''} {shown}{more}"


def _places(instance: Instance, devices: Sequence[int]) -> str:
    """A few devices, and how many more there are."""
    more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
    return ", ".join(repr(instance.names[d]) for d in devices[:_NAMED]) + more


def _devices(instance: Instance, rooms: dict[int, int]) -> str:
    """A few devices with their memory, and how many more there are."""
    found = [f"{instance.names[d]!r} ({format_bytes(room)})" for d, room in rooms.items()]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more
