"""The ``tvm-hetero/problem/1`` format: JSON to graph, costs, platform and objective, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from tvm_hetero.errors import FormatError
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import IMPLEMENTATIONS, Cost, check_sizes
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.util.documents import check_format
from tvm_hetero.util.fields import Fields, check_integers, refuse
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_bytes, parse_quantity
from tvm_hetero.util.untrusted_names import printable

FORMAT = "tvm-hetero/problem/1"
# Nine digits at most: Python refuses to convert very long ones, and no batch is that large.
_SIZE = re.compile(r"0*[1-9][0-9]{0,8}")

# What a task may say besides its id and its cost.
_OPTIONAL = (
    "op", "color", "flops", "bytes", "implementation", "sizes", "energy", "weight_bytes",
    "output_bytes",
)  # fmt: skip
# By what a cost is known that was read before: seconds of one element, or (size, seconds) of each.
_Key = float | tuple[tuple[str, float], ...]


class ProblemFields(NamedTuple):
    """What a problem's document says; whether it fits together is `Problem`'s to see."""

    graph: TaskGraph
    costs: Mapping[str, Mapping[str, Cost]]
    platform: Platform
    objective: Objective
    name: str


@contextmanager
def locate_errors(where: str) -> Iterator[None]:
    """Let every error of the format begin with the document that it is about."""
    try:
        yield
    except FormatError as error:
        text = str(error)
        raise FormatError(text if text.startswith(where) else f"{where}: {text}") from None


def parse_problem(data: object, where: str) -> ProblemFields:
    """Read a parsed document.

    Raises
    ------
    FormatError
        If it says something unknown, or its graph is empty or cyclic.
    PlatformError
        If devices and links do not fit together.
    """
    check_format(data, FORMAT, where)
    row = Fields(data, where, ["format", "platform", "tasks", "edges"], ["name", "objective"])
    known = _KnownCosts({}, {})
    tasks = row.rows("tasks", lambda task, at: _parse_task(task, at, known), "task")
    edges = row.rows("edges", _parse_edge, "edge")
    with locate_errors(where):
        return ProblemFields(
            graph=TaskGraph([task for task, _ in tasks], edges),
            costs={task.id: costs for task, costs in tasks},
            platform=Platform.from_dict(row.data["platform"], row.at("platform")),
            objective=_parse_objective(row),
            name=row.name("name", "problem"),
        )


def problem_document(parts: ProblemFields) -> dict[str, Any]:
    """The document that `parse_problem` reads; values that are the default are left out."""
    tasks = ((task, parts.costs[task.id]) for task in parts.graph.tasks)
    return document_around([task_row(task, row, _cost_row(row)) for task, row in tasks], parts)


def document_around(rows: list[dict[str, Any]], parts: ProblemFields) -> dict[str, Any]:
    """The document with these rows of tasks."""
    objective: dict[str, Any] = {
        "kind": parts.objective.kind,
        "batch": parts.objective.batch,
    }
    if parts.objective.latency_limit is not None:
        objective["latency_limit"] = float(parts.objective.latency_limit)
    if parts.objective.contiguous:
        objective["contiguous"] = True
    return {
        "format": FORMAT,
        "name": parts.name,
        "platform": parts.platform.to_dict(),
        "tasks": rows,
        "edges": [_edge_row(edge) for edge in parts.graph.edges],
        "objective": objective,
    }


def problem_text(document: Mapping[str, Any]) -> str:
    """A problem's document as JSON, one task or edge a line."""
    lines = []
    for key, value in document.items():
        if key in {"tasks", "edges"}:
            rows = ",\n  ".join(json.dumps(row) for row in value)
            lines.append(f'"{key}": [\n  {rows}]' if value else f'"{key}": []')
        else:
            lines.append(f'"{key}": {json.dumps(value)}')
    return "{" + ",\n ".join(lines) + "}\n"


def _parse_task(data: object, where: str, known: _KnownCosts) -> tuple[Task, dict[str, Cost]]:
    row = Fields(data, where, ["id", "cost"], _OPTIONAL)
    name = row.name("id")
    row.where = f"{where} ({printable(name)})"
    task = Task(
        id=name,
        op=row.text("op", ""),
        weight_bytes=row.quantity("weight_bytes", parse_bytes, 0),
        output_bytes=row.quantity("output_bytes", parse_bytes, 0),
        flops=row.quantity("flops", parse_quantity, 0.0),
        bytes=row.quantity("bytes", parse_quantity, 0.0),
        color=row.name("color") if row.has("color") else None,
    )
    costs = _parse_costs(row.mapping("cost", "{device: seconds}"), row.where, known)
    if "implementation" in row or "sizes" in row or "energy" in row:
        costs = dict(costs)  # those of other tasks stay
    for device, implementation in _by_device(row, "implementation", costs, "name").items():
        if implementation not in IMPLEMENTATIONS:
            where = f"{row.at('implementation')} on {quote(device)}"
            refuse(implementation, where, f"one of {IMPLEMENTATIONS}")
        costs[device] = replace(costs[device], implementation=implementation)
    for device, sizes in _by_device(row, "sizes", costs, "[1, ...]").items():
        where = f"sizes on {quote(device)}"
        found = check_integers(sizes, row.where, where)
        check_sizes(found, f"{row.where}: {where}")
        costs[device] = replace(costs[device], sizes=found)
    for device, given in _by_device(row, "energy", costs, "joules").items():
        energy = parse_cost(given, f"{row.where}: energy on {quote(device)}").points
        costs[device] = replace(costs[device], energy=energy)
    return task, costs


class _KnownCosts(NamedTuple):
    """What was read of the tasks before.

    Attributes
    ----------
    costs : by times.
    rows : by the object that the document has for them, which may be that of many tasks
        (`util.repeated_objects`).
    """

    costs: dict[_Key, Cost]
    rows: dict[int, dict[str, Cost]]


def _parse_costs(data: Mapping[str, Any], where: str, known: _KnownCosts) -> dict[str, Cost]:
    """The costs of a task; equal times are one object, also of several tasks (`known`).

    Times are most of a document: on many devices tasks times devices of them, and few differ.
    """
    if id(data) in known.rows:
        return known.rows[id(data)]
    costs = {}
    for device, given in data.items():
        key = _key(given)
        cost = None if key is None else known.costs.get(key)
        if cost is None:
            cost = parse_cost(given, f"{where}: cost on {quote(device)}")
            if key is not None:
                known.costs[key] = cost
        costs[device] = cost
    known.rows[id(data)] = costs
    return costs


def _key(cost: object) -> _Key | None:
    """What equal times and tables have in common; None where one is written in another way.

    By types, too: true and 1 are equal, and one of them is no time.
    """
    if type(cost) is float:
        return cost
    if type(cost) is not dict:
        return None
    points = tuple(cost.items())
    for size, seconds in points:  # a generator takes twice as long
        if type(size) is not str or type(seconds) is not float:
            return None
    return points


def _by_device(task: Fields, key: str, costs: Mapping[str, Cost], what: str) -> Mapping[str, Any]:
    """A field that says something of some of the devices that a task has a cost on."""
    data = task.mapping(key, f"{{device: {what}}}", default={})
    for device in data:
        if device not in costs:
            hint = nearest(device, costs)
            raise FormatError(f"{task.at(key)}: there is no cost on {quote(device)}{hint}")
    return data


def parse_cost(data: object, where: str) -> Cost:
    """A number (seconds for one element), or a table from batch size to seconds; or joules."""
    if not isinstance(data, Mapping):
        return Cost(((1, parse_quantity(data, where)),))
    points = []
    for size, seconds in data.items():
        # YAML has numbers as keys, and very long ones that `str` refuses to write.
        if not _SIZE.fullmatch(size if isinstance(size, str) else quote(size)):
            refuse(size, where, "batch sizes from 1 as keys")
        points.append((int(size), parse_quantity(seconds, f"{where}, batch {size}")))
    if not points:
        raise FormatError(f"{where}: the table is empty; give a figure, or leave the device out")
    return Cost(tuple(sorted(points)))


def _parse_edge(data: object, where: str) -> Edge:
    row = Fields(data, where, ["src", "dst", "bytes"], ["tensor"])
    src = row.name("src")
    return Edge(
        src=src,
        dst=row.name("dst"),
        bytes=row.quantity("bytes", parse_bytes),
        tensor=row.name("tensor", src),
    )


def _parse_objective(problem: Fields) -> Objective:
    if "objective" not in problem:
        return Objective()
    row = problem.fields("objective", [], ["kind", "batch", "latency_limit", "contiguous"])
    limit = row.quantity("latency_limit", parse_quantity) if row.has("latency_limit") else None
    return Objective(
        kind=row.name("kind", "latency"),  # type: ignore[arg-type]
        batch=row.integer("batch", 1),
        latency_limit=limit,
        contiguous=row.flag("contiguous"),
    )


def task_row(task: Task, costs: Mapping[str, Cost], cost: object) -> dict[str, Any]:
    """The row of a task; `cost` is put into its place unread."""
    row: dict[str, Any] = {"id": task.id}
    if task.op:
        row["op"] = task.op
    row["cost"] = cost
    # Many devices may share a cost; what is said of it is found once.
    distinct = {id(cost): cost for cost in costs.values()}
    if any(cost.implementation != "rule" for cost in distinct.values()):
        others = {d: c.implementation for d, c in costs.items() if c.implementation != "rule"}
        row["implementation"] = others
    if any(len(cost.sizes) > 1 for cost in distinct.values()):
        row["sizes"] = {d: list(c.sizes) for d, c in costs.items() if len(c.sizes) > 1}
    if any(cost.energy for cost in distinct.values()):
        row["energy"] = {d: points_value(c.energy) for d, c in costs.items() if c.energy}
    for key in ("weight_bytes", "output_bytes"):
        if getattr(task, key):
            row[key] = getattr(task, key)
    # As floats, as they are read back: 5 and 5.0 have another text and so another digest.
    for key in ("flops", "bytes"):
        if getattr(task, key):
            row[key] = float(getattr(task, key))
    if task.color is not None:
        row["color"] = task.color
    return row


def _cost_row(costs: Mapping[str, Cost]) -> dict[str, float | dict[str, float]]:
    """The costs of a task by device; that of many is written once."""
    values = {id(cost): cost_value(cost) for cost in {id(c): c for c in costs.values()}.values()}
    return {device: values[id(cost)] for device, cost in costs.items()}


def cost_value(cost: Cost) -> float | dict[str, float]:
    """The document of a cost: what `parse_cost` reads."""
    return points_value(cost.points)


def points_value(points: Sequence[tuple[int, float]]) -> float | dict[str, float]:
    """The document of seconds, or joules, by the number of elements."""
    if len(points) == 1 and points[0][0] == 1:
        return float(points[0][1])
    return {str(n): float(figure) for n, figure in points}


def _edge_row(edge: Edge) -> dict[str, Any]:
    row: dict[str, Any] = {"src": edge.src, "dst": edge.dst, "bytes": edge.bytes}
    if edge.tensor != edge.src:
        row["tensor"] = edge.tensor
    return row
