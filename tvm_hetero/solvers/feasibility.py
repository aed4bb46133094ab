"""Memory that is too small for any placement: seen at once, and said by how much.

Two conditions are necessary whatever is placed where, and when:

- a task needs, on the device that runs it, its weights (and those of its color), what it reads
  and what it writes, for at least one element;
- all weights must lie somewhere, and if every device has a limit, all limits together hold them.

They are not sufficient. Where they hold and a solver still finds nothing, it says so itself.
"""

from __future__ import annotations

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.solvers.instance import Instance
from tvm_hetero.units import format_bytes


def check_memory(instance: Instance) -> None:
    """Refuse a problem whose memory cannot hold any placement.

    Raises
    ------
    InfeasibleError
        Which tasks need how much more than there is.
    """
    _check_tasks(instance)
    _check_weights(instance)


def least_bytes(instance: Instance, task: int) -> int:
    """What a device must hold while it runs `task` for one element, in bytes."""
    batch = instance.problem.batch
    group = instance.groups[instance.group_of[task]]
    tensors = (*instance.inputs[task], *instance.outputs[task])
    moved = sum(instance.tensors[t].nbytes for t in tensors) + instance.unread[task]
    return sum(instance.weights[v] for v in group) + moved // batch


def _check_tasks(instance: Instance) -> None:
    for v, task in enumerate(instance.tasks):
        need = least_bytes(instance, v)
        room = {d: instance.capacity[d] for d in instance.devices[v]}
        if any(limit is None or need <= limit for limit in room.values()):
            continue
        best = max(room, key=lambda d: room[d] or 0)
        limit = room[best] or 0
        raise InfeasibleError(
            f"task {task!r} needs {format_bytes(need)} on the device that runs it (weights, "
            f"inputs and outputs of one element); the most that a device which can run it has is "
            f"{format_bytes(limit)} on {instance.names[best]!r}, {format_bytes(need - limit)} "
            "too little; add memory, or a device"
        )


def _check_weights(instance: Instance) -> None:
    devices = sorted({d for allowed in instance.devices for d in allowed})
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
            f"{format_bytes(need - room)} too little; add memory, or a device"
        )
