"""Where a model's inputs arrive and its outputs are wanted: tasks of no cost on the host.

On a platform whose devices all are CPU places of one node, inputs and outputs cost nothing
anywhere, and the task graph is the model's alone. As soon as a device has a memory of its own,
inputs must be moved to it and outputs back: then every input and every output is a task with
cost 0 on the host devices, and its tensor is copied like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import HOST_KINDS, Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Edge, Task, TaskGraph

INPUT_OP = "input"
OUTPUT_OP = "output"


def input_task(number: int) -> str:
    """The id of the task of input `number`; also the name of its tensor."""
    return f"input.{number}"


def output_task(number: int) -> str:
    """The id of the task of output `number`."""
    return f"output.{number}"


def is_io_task(task: Task) -> bool:
    """Whether a task stands for an input or an output."""
    return task.op in (INPUT_OP, OUTPUT_OP)


def is_host(device: Device) -> bool:
    """Whether a device computes in the machine's main memory."""
    return device.kind in HOST_KINDS and not device.private and device.rpc is None


def host_device(platform: Platform) -> str:
    """The first CPU device: where inputs arrive.

    Raises
    ------
    PlatformError
        If the platform has none.
    """
    for device in platform.devices:
        if is_host(device):
            return device.name
    raise PlatformError(
        f"platform {platform.name!r} has no CPU device to take inputs and outputs; add one "
        "with a target such as {kind: llvm} that is not private"
    )


def needs_io_tasks(platform: Platform) -> bool:
    """Whether some device has a memory of its own."""
    return not all(is_host(device) for device in platform.devices)


def add_io_tasks(
    graph: TaskGraph,
    inputs: Sequence[tuple[int, Sequence[str]] | None],
    outputs: Sequence[tuple[str, str, int] | None],
) -> TaskGraph:
    """Add a task for every input and output.

    Parameters
    ----------
    inputs : for each input its bytes and the tasks that read it; None for a state, which is where
        its reader is.
    outputs : for each output the task that makes it, its tensor and the tensor's bytes; None
        if no task makes it.
    """
    given = [(i, *row) for i, row in enumerate(inputs) if row is not None]
    tasks = [Task(input_task(i), INPUT_OP, output_bytes=size) for i, size, _ in given]
    edges = [Edge(input_task(i), reader, size) for i, size, readers in given for reader in readers]
    ends = []
    for i, output in enumerate(outputs):
        if output is not None:
            maker, tensor, size = output
            ends.append(Task(output_task(i), OUTPUT_OP))
            edges.append(Edge(maker, output_task(i), size, tensor))
    return TaskGraph([*tasks, *graph.tasks, *ends], [*graph.edges, *edges])


def io_costs(graph: TaskGraph, platform: Platform) -> dict[str, dict[str, Cost]]:
    """The costs of the input and output tasks: nothing, on host devices alone."""
    free = {device.name: Cost(((1, 0.0),)) for device in platform.devices if is_host(device)}
    return {task.id: dict(free) for task in graph.tasks if is_io_task(task)}
