"""Memory that is too small for any placement: seen at once, and said by how much.

Two conditions are necessary whatever is placed where, and when:

- a task needs, on the device that runs it, its weights (and those of its color) and, unless it
  takes no time there, what it reads and what it writes, for at least one element;
- all weights must lie somewhere, and if every device has a limit, all limits together hold them.

They are not sufficient. Where they hold and a solver still finds nothing, it says so itself.
"""

from __future__ import annotations

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.instance import Instance
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
        best = min(lack, key=lambda d: (lack[d], d))
        if lack[best] <= 0:
            continue
        raise InfeasibleError(
            f"task {task!r} needs {format_bytes(least_bytes(instance, v, best))} on the device "
            f"that runs it (weights, inputs and outputs of one element); the best of those that "
            f"can, {instance.names[best]!r}, has {format_bytes(instance.capacity[best] or 0)}, "
            f"{format_bytes(lack[best])} too little; add memory, or a device"
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
