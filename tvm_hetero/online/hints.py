"""How much work a task is, known before anything is measured: the hints of the papers.

Pipe-search and Shisha (P. N. Soomro's thesis, equations 1.1 and 1.2) weigh a layer by its shape:

    convolution       H W C R S K    its multiply-adds
    fully connected   H W C F        its multiply-adds
    pooling           H W C          the numbers that it reads

A problem's tasks are kernels after fusion, whose shapes are gone, but whose arithmetic (`flops`)
and tensors are there. So a task counts its multiply-adds; one that pools, or does less than one for
each number that it reads (additions, activations, concatenations), these numbers. Inputs and
outputs are no work. For a list of layer shapes both ways give the same
(`tvm_hetero.zoo.layer_lists`).
"""

from __future__ import annotations

from tvm_hetero.problem.graph import Task, TaskGraph

# Bytes of a number, and the operations (`Task.op`) of a problem's own ends.
_WIDTH = 4
_ENDS = ("input", "output")


def task_weights(graph: TaskGraph, width: int = _WIDTH) -> dict[str, float]:
    """The weight of each task: multiply-adds, or numbers read.

    Parameters
    ----------
    graph : of a problem; without `flops` all tasks count what they read.
    width : bytes of a number.
    """
    read = {
        task: sum(tensor.bytes for tensor in tensors) / width
        for task, tensors in graph.inputs.items()
    }
    return {task.id: _weight(task, read[task.id], width) for task in graph.tasks}


def _weight(task: Task, read: float, width: int) -> float:
    if task.op in _ENDS:
        return 0.0
    # A graph need not have tasks for the model's inputs: then what a task moves has to do.
    moved = max(0.0, task.bytes - task.weight_bytes - task.output_bytes) / width
    numbers = read or moved
    return numbers if "pool" in task.op else max(task.flops / 2, numbers)
