"""The graph of a module's tasks as it is scheduled: with inputs, outputs and states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.io_tasks import add_io_tasks, needs_io_tasks
from tvm_hetero.passes.lowered_main import tensor_bytes
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph


def task_graph(tasks: ExtractedTasks, platform: Platform, batch: int) -> TaskGraph:
    """The graph of a module's tasks, with those for inputs and outputs where some device has its
    own memory, and with the states of a batch.
    """
    return _with_states(_with_io(tasks, platform), tasks, batch)


def _with_io(tasks: ExtractedTasks, platform: Platform) -> TaskGraph:
    """The task graph, with tasks for inputs and outputs if some device has its own memory."""
    if not needs_io_tasks(platform):
        return tasks.graph
    main = tasks.main
    inputs = [
        None if i in tasks.states else (tensor_bytes(param.ty), readers)
        for i, (param, readers) in enumerate(zip(main.params, tasks.input_readers, strict=True))
    ]
    outputs = [
        None
        if root is None or root.call is None
        else (main.task_ids[root.call], main.tensor_name(root), tensor_bytes(main.type_of(root)))
        for root in tasks.output_roots
    ]
    return add_io_tasks(tasks.graph, inputs, outputs)


def _with_states(graph: TaskGraph, tasks: ExtractedTasks, batch: int) -> TaskGraph:
    """The task graph, with the states of a whole batch as memory of the tasks that keep them."""
    if not tasks.state_bytes:
        return graph

    def keeping(task: Task) -> Task:
        own = batch * tasks.state_sets * tasks.state_bytes.get(task.id, 0)
        return replace(task, weight_bytes=task.weight_bytes + own)

    return TaskGraph([keeping(task) for task in graph.tasks], graph.edges)


def where_states_can_be(
    table: Mapping[str, Mapping[str, Cost]], tasks: ExtractedTasks, platform: Platform
) -> dict[str, dict[str, Cost]]:
    """The costs of tasks that keep states, without boards: nothing is kept there."""
    boards = {device.name for device in platform.devices if device.rpc is not None}
    return {
        task: {name: cost for name, cost in table[task].items() if name not in boards}
        for task, size in tasks.state_bytes.items()
        if size
    }
