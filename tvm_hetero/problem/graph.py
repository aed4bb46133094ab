"""Task graphs: what has to be computed, and which tensors flow between the parts.

A *task* is an indivisible piece of work (after TVM's fusion: one kernel). A *tensor* is made by
one task and read by any number of others; an *edge* says that one task reads one tensor. Several
edges from one task may carry the same tensor, which is then moved to another device only once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_hetero.errors import FormatError


@dataclass(frozen=True)
class Task:
    """One indivisible piece of work. Sizes are bytes and counts for ONE batch element.

    Attributes
    ----------
    id : unique within its graph.
    op : what it computes, for people (``conv2d``).
    weight_bytes : resident parameters, once on each device that runs the task.
    output_bytes : everything that the task writes.
    flops, bytes : arithmetic and memory traffic, for analytical cost models.
    color : tasks of one color must run on one device.
    """

    id: str
    op: str = ""
    weight_bytes: int = 0
    output_bytes: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    color: str | None = None


@dataclass(frozen=True)
class Edge:
    """`dst` reads tensor `tensor` (of `bytes` for one element), which `src` makes."""

    src: str
    dst: str
    bytes: int
    tensor: str = ""

    def __post_init__(self) -> None:
        if not self.tensor:
            object.__setattr__(self, "tensor", self.src)


@dataclass(frozen=True)
class Tensor:
    """A tensor that some task reads: its maker, its size for one element, its readers."""

    name: str
    src: str
    bytes: int
    readers: tuple[str, ...]


@dataclass(frozen=True)
class TaskGraph:
    """A directed acyclic graph of tasks.

    Raises
    ------
    FormatError
        When it is made: no tasks, a repeated id, an edge to an unknown task, an edge given
        twice, one tensor name with two makers or two sizes, or a cycle (which is spelled out).
    """

    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...]

    def __init__(self, tasks: Iterable[Task], edges: Iterable[Edge]) -> None:
        object.__setattr__(self, "tasks", tuple(tasks))
        object.__setattr__(self, "edges", tuple(edges))
        _check_names(self.tasks, self.edges)
        _check_edges(self.edges)
        self.topological_order  # noqa: B018  # raises on a cycle

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of every task id in `tasks`."""
        return {task.id: i for i, task in enumerate(self.tasks)}

    def task(self, task_id: str) -> Task:
        """The task of that id (KeyError if there is none)."""
        return self.tasks[self.index[task_id]]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that is read by some task, in the order of the edges."""
        readers: dict[str, list[str]] = {}
        first: dict[str, Edge] = {}
        for edge in self.edges:
            readers.setdefault(edge.tensor, []).append(edge.dst)
            first.setdefault(edge.tensor, edge)
        return {
            name: Tensor(name, edge.src, edge.bytes, tuple(readers[name]))
            for name, edge in first.items()
        }

    @cached_property
    def inputs(self) -> dict[str, tuple[Tensor, ...]]:
        """The tensors that each task reads."""
        result: dict[str, list[Tensor]] = {task.id: [] for task in self.tasks}
        for edge in self.edges:
            result[edge.dst].append(self.tensors[edge.tensor])
        return {task: tuple(tensors) for task, tensors in result.items()}

    @cached_property
    def outputs(self) -> dict[str, tuple[Tensor, ...]]:
        """The tensors of each task that another task reads."""
        result: dict[str, list[Tensor]] = {task.id: [] for task in self.tasks}
        for tensor in self.tensors.values():
            result[tensor.src].append(tensor)
        return {task: tuple(tensors) for task, tensors in result.items()}

    @cached_property
    def predecessors(self) -> dict[str, tuple[str, ...]]:
        """For each task, the distinct tasks whose tensors it reads."""
        return {
            task: tuple(dict.fromkeys(tensor.src for tensor in tensors))
            for task, tensors in self.inputs.items()
        }

    @cached_property
    def successors(self) -> dict[str, tuple[str, ...]]:
        """For each task, the distinct tasks that read its tensors."""
        result: dict[str, dict[str, None]] = {task.id: {} for task in self.tasks}
        for edge in self.edges:
            result[edge.src][edge.dst] = None
        return {task: tuple(readers) for task, readers in result.items()}

    @cached_property
    def topological_order(self) -> tuple[str, ...]:
        """Every task after all of its predecessors; ties by position in `tasks`."""
        waiting = [0] * len(self.tasks)
        successors: list[list[int]] = [[] for _ in self.tasks]
        for edge in self.edges:
            waiting[self.index[edge.dst]] += 1
            successors[self.index[edge.src]].append(self.index[edge.dst])
        ready = [i for i, count in enumerate(waiting) if count == 0]
        order: list[int] = []
        while ready:
            i = heapq.heappop(ready)
            order.append(i)
            for j in successors[i]:
                waiting[j] -= 1
                if waiting[j] == 0:
                    heapq.heappush(ready, j)
        if len(order) < len(self.tasks):
            left = [i for i, count in enumerate(waiting) if count > 0]
            raise FormatError(f"the tasks depend on each other in a cycle: {self._cycle(left)}")
        return tuple(self.tasks[i].id for i in order)

    def unread_bytes(self, task_id: str) -> int:
        """Bytes of a task's output that no other task reads: the model's own results."""
        read = sum(tensor.bytes for tensor in self.outputs[task_id])
        return max(0, self.task(task_id).output_bytes - read)

    def _cycle(self, left: Sequence[int]) -> str:
        """Spell out one cycle among the tasks `left`, each of which has a predecessor there."""
        inside = set(left)
        before: dict[int, int] = {}
        for edge in self.edges:
            src, dst = self.index[edge.src], self.index[edge.dst]
            if src in inside and dst in inside:
                before.setdefault(dst, src)
        seen: dict[int, None] = {}
        node = left[0]
        while node not in seen:
            seen[node] = None
            node = before[node]
        way = list(seen)
        cycle = [*way[way.index(node) :], node][::-1]
        names = [self.tasks[i].id for i in cycle]
        return " -> ".join(names if len(names) <= 10 else [*names[:9], "...", names[-1]])


def _check_names(tasks: Sequence[Task], edges: Sequence[Edge]) -> None:
    if not tasks:
        raise FormatError("the graph has no tasks; expected at least one")
    names: set[str] = set()
    for task in tasks:
        if task.id in names:
            raise FormatError(f"task {task.id!r} is given twice; every id must be unique")
        names.add(task.id)
    for edge in edges:
        for end in (edge.src, edge.dst):
            if end not in names:
                raise FormatError(f"edge {edge.src!r} -> {edge.dst!r}: there is no task {end!r}")


def _check_edges(edges: Sequence[Edge]) -> None:
    first: dict[str, Edge] = {}
    given: set[tuple[str, str, str]] = set()
    for edge in edges:
        here = f"edge {edge.src!r} -> {edge.dst!r}"
        if (edge.src, edge.dst, edge.tensor) in given:
            raise FormatError(f"{here}, tensor {edge.tensor!r}, is given twice")
        given.add((edge.src, edge.dst, edge.tensor))
        known = first.setdefault(edge.tensor, edge)
        if known.src != edge.src:
            raise FormatError(
                f"tensor {edge.tensor!r} is made by {known.src!r} and by {edge.src!r}; "
                "give one of them another name"
            )
        if known.bytes != edge.bytes:
            raise FormatError(
                f"{here}: tensor {edge.tensor!r} has {edge.bytes} bytes here and "
                f"{known.bytes} on another edge"
            )
