"""A topological order for little memory: who lets go of most bytes is next."""

from __future__ import annotations

import heapq

from tvm_hetero.problem.model import Problem


def depth_order(problem: Problem) -> list[str]:
    """A topological order that takes, of what is ready, the task that lets go of most bytes."""
    graph = problem.graph
    waiting = {task: len(graph.predecessors[task]) for task in graph.index}
    unread = {name: len(tensor.readers) for name, tensor in graph.tensors.items()}
    # Who is ready: growth, turn (of equals the last: its inputs are the youngest), task.
    # Growth only falls; who has been put in with a smaller one is met there first.
    heap: list[tuple[int, int, str]] = []
    turns: dict[str, int] = {}
    order: list[str] = []
    done: set[str] = set()

    def growth(task: str) -> int:
        made = graph.unread_bytes(task) + sum(t.bytes for t in graph.outputs[task])
        return made - sum(t.bytes for t in graph.inputs[task] if unread[t.name] == 1)

    def offer(task: str) -> None:
        turn = turns.setdefault(task, len(turns))
        heapq.heappush(heap, (growth(task), -turn, task))

    for task in graph.topological_order:
        if waiting[task] == 0:
            offer(task)
    while heap:
        task = heapq.heappop(heap)[-1]
        if task in done:
            continue
        done.add(task)
        order.append(task)
        for tensor in graph.inputs[task]:
            unread[tensor.name] -= 1
            if unread[tensor.name] == 1:
                last = next((reader for reader in tensor.readers if reader not in done), None)
                if last in turns:
                    offer(last)
        for reader in graph.successors[task]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                offer(reader)
    return order
