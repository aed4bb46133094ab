"""The ``tvm-hetero/problem/1`` format: JSON to graph, costs, platform and objective, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from tvm_hetero.errors import FormatError
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import IMPLEMENTATIONS, Cost, check_sizes
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.util.documents import check_format, check_keys, nearest
from tvm_hetero.util.units import parse_bytes, parse_number

FORMAT = "tvm-hetero/problem/1"
# Nine digits at most: Python refuses to convert very long ones, and no batch is that large.
_SIZE = re.compile(r"0*[1-9][0-9]{0,8}")


class Parts(NamedTuple):
    """What a problem's document says; whether it fits together is `Problem`'s to see."""

    graph: TaskGraph
    costs: Mapping[str, Mapping[str, Cost]]
    platform: Platform
    objective: Objective
    name: str


@contextmanager
def located(where: str) -> Iterator[None]:
    """Let every error of the format begin with the document that it is about."""
    try:
        yield
    except FormatError as error:
        text = str(error)
        raise FormatError(text if text.startswith(where) else f"{where}: {text}") from None


def parse_problem(data: object, where: str) -> Parts:
    """Read a parsed document.

    Raises
    ------
    FormatError
        If it says something unknown, or its graph is empty or cyclic.
    PlatformError
        If devices and links do not fit together.
    """
    check_format(data, FORMAT, where)
    row = check_keys(data, where, ["format", "platform", "tasks", "edges"], ["name", "objective"])
    tasks = [_parse_task(t, f"{where}: task {i}") for i, t in enumerate(_rows(row, "tasks", where))]
    edges = [_parse_edge(e, f"{where}: edge {i}") for i, e in enumerate(_rows(row, "edges", where))]
    with located(where):
        return Parts(
            graph=TaskGraph([task for task, _ in tasks], edges),
            costs={task.id: costs for task, costs in tasks},
            platform=Platform.from_dict(row["platform"], f"{where}: platform"),
            objective=_parse_objective(row.get("objective", {}), f"{where}: objective"),
            name=_text(row.get("name", "problem"), f"{where}: name"),
        )


def problem_document(parts: Parts) -> dict[str, Any]:
    """The document that `parse_problem` reads; values that are the default are left out."""
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
        "tasks": [_task_row(task, parts.costs[task.id]) for task in parts.graph.tasks],
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


def _parse_task(data: object, where: str) -> tuple[Task, dict[str, Cost]]:
    sizes = ["weight_bytes", "output_bytes"]
    others = ["op", "color", "flops", "bytes", "implementation", "sizes", *sizes]
    row = check_keys(data, where, ["id", "cost"], others)
    name = _text(row["id"], f"{where}: id")
    where = f"{where} ({name})"
    color = row.get("color")
    task = Task(
        id=name,
        op=_text(row.get("op", ""), f"{where}: op", empty=True),
        weight_bytes=parse_bytes(row.get("weight_bytes", 0), f"{where}: weight_bytes"),
        output_bytes=parse_bytes(row.get("output_bytes", 0), f"{where}: output_bytes"),
        flops=parse_number(row.get("flops", 0), f"{where}: flops"),
        bytes=parse_number(row.get("bytes", 0), f"{where}: bytes"),
        color=None if color is None else _text(color, f"{where}: color"),
    )
    if not isinstance(row["cost"], Mapping):
        raise FormatError(f"{where}: cost: expected {{device: seconds}}, got {row['cost']!r:.80}")
    costs = {d: parse_cost(c, f"{where}: cost on {d!r}") for d, c in row["cost"].items()}
    costs = _with_implementations(costs, row.get("implementation", {}), where)
    return task, _with_sizes(costs, row.get("sizes", {}), where)


def _with_implementations(costs: dict[str, Cost], data: object, where: str) -> dict[str, Cost]:
    """Costs with what `implementation` says of each device; the others are of the rule."""
    where = f"{where}: implementation"
    for device, name in _by_device(data, costs, "name", where).items():
        if name not in IMPLEMENTATIONS:
            raise FormatError(f"{where}: expected one of {IMPLEMENTATIONS}, got {name!r:.80}")
        costs[device] = replace(costs[device], implementation=name)
    return costs


def _with_sizes(costs: dict[str, Cost], data: object, where: str) -> dict[str, Cost]:
    """Costs with what `sizes` says of each device; the others' kernels compute one element."""
    where = f"{where}: sizes"
    for device, row in _by_device(data, costs, "[1, ...]", where).items():
        if not isinstance(row, list) or any(type(n) is not int for n in row):
            raise FormatError(f"{where}: expected a list of whole numbers, got {row!r:.80}")
        check_sizes(row, f"{where} on {device!r}")
        costs[device] = replace(costs[device], sizes=tuple(row))
    return costs


def _by_device(data: object, costs: Mapping[str, Cost], what: str, where: str) -> Mapping[str, Any]:
    """A row that says something of some of the devices that a task has a cost on."""
    if not isinstance(data, Mapping):
        raise FormatError(f"{where}: expected {{device: {what}}}, got {data!r:.80}")
    for device in data:
        if device not in costs:
            raise FormatError(f"{where}: there is no cost on {device!r}{nearest(device, costs)}")
    return data


def parse_cost(data: object, where: str) -> Cost:
    """A number (seconds for one element), or a table from batch size to seconds."""
    if not isinstance(data, Mapping):
        return Cost(((1, parse_number(data, where)),))
    points = []
    for size, seconds in data.items():
        if not _SIZE.fullmatch(str(size)):
            raise FormatError(f"{where}: expected batch sizes from 1 as keys, got {size!r:.80}")
        points.append((int(size), parse_number(seconds, f"{where}, batch {size}")))
    if not points:
        raise FormatError(f"{where}: the table is empty; give a time, or leave the device out")
    return Cost(tuple(sorted(points)))


def _parse_edge(data: object, where: str) -> Edge:
    row = check_keys(data, where, ["src", "dst", "bytes"], ["tensor"])
    return Edge(
        src=_text(row["src"], f"{where}: src"),
        dst=_text(row["dst"], f"{where}: dst"),
        bytes=parse_bytes(row["bytes"], f"{where}: bytes"),
        tensor=_text(row.get("tensor", row["src"]), f"{where}: tensor"),
    )


def _parse_objective(data: object, where: str) -> Objective:
    row = check_keys(data, where, [], ["kind", "batch", "latency_limit", "contiguous"])
    batch = row.get("batch", 1)
    if type(batch) is not int:
        raise FormatError(f"{where}: batch: expected a whole number, got {batch!r}")
    contiguous = row.get("contiguous", False)
    if type(contiguous) is not bool:
        raise FormatError(f"{where}: contiguous: expected true or false, got {contiguous!r:.80}")
    limit = row.get("latency_limit")
    return Objective(
        kind=_text(row.get("kind", "latency"), f"{where}: kind"),  # type: ignore[arg-type]
        batch=batch,
        latency_limit=None if limit is None else parse_number(limit, f"{where}: latency_limit"),
        contiguous=contiguous,
    )


def _task_row(task: Task, costs: Mapping[str, Cost]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": task.id}
    if task.op:
        row["op"] = task.op
    row["cost"] = {device: cost_value(cost) for device, cost in costs.items()}
    others = {d: c.implementation for d, c in costs.items() if c.implementation != "rule"}
    if others:
        row["implementation"] = others
    batched = {d: list(c.sizes) for d, c in costs.items() if len(c.sizes) > 1}
    if batched:
        row["sizes"] = batched
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


def cost_value(cost: Cost) -> float | dict[str, float]:
    """The document of a cost: what `parse_cost` reads."""
    if len(cost.points) == 1 and cost.points[0][0] == 1:
        return float(cost.points[0][1])
    return {str(n): float(seconds) for n, seconds in cost.points}


def _edge_row(edge: Edge) -> dict[str, Any]:
    row: dict[str, Any] = {"src": edge.src, "dst": edge.dst, "bytes": edge.bytes}
    if edge.tensor != edge.src:
        row["tensor"] = edge.tensor
    return row


def _rows(data: Mapping[str, Any], key: str, where: str) -> list[Any]:
    if not isinstance(data[key], list):
        raise FormatError(f"{where}: {key}: expected a list, got {data[key]!r:.80}")
    return list(data[key])


def _text(data: object, where: str, *, empty: bool = False) -> str:
    if not isinstance(data, str) or not (data or empty):
        raise FormatError(f"{where}: expected text, got {data!r:.80}")
    return data
