"""How a batch is divided, searched in C++: every task a row of ranges of the batch.

A *stream* of a task is a contiguous range of the batch that one execution takes on one device;
streams follow one another, so how many elements each of them has says everything. With as many
streams as devices a task may be shared by all of them, each with its own part of the batch; with
more, batches pass through the graph in rounds. An empty stream costs nothing, so dividing and
merging are the same move: elements pass from one stream to the next
(src/search/stream_search.cc). After one change in ten all that follows is ordered anew, to see
what the division is worth and not the old order (src/search/stream_dispatch.cc).

What the search knows: tables of costs, order of data, copies as delays, weights in memory, cores
that teams share, the objective. What it does not: copies that block devices or links, live tensors.
It proposes divisions; `batches` times them by all rules and improves them by a search that knows
those.

Tasks that take no time (inputs, outputs) pass their elements on one by one.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tvm_hetero.errors import SolverError
from tvm_hetero.problem.cost import Cost
from tvm_hetero.solvers.native.search_library import search_library
from tvm_hetero.views.array_types import AnyArray, FloatArray, Int32Array
from tvm_hetero.views.division_patterns import ElementShare, divide_by_patterns, even_counts
from tvm_hetero.views.instance import Instance

# Entries of the table of costs: beyond it the search takes too much memory.
_MOST_COSTS = 20_000_000
# Parts of a task that takes no time.
_MOST_LOOSE = 256


class _RangeProblem(ctypes.Structure):
    """TvmHeteroStreamsProblem."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("tasks", "devices", "streams", "batch", "edges")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "seconds", "in_begin", "in_task", "in_bytes", "latency", "inverse", "loose",
                "group", "weights", "capacity", "busy_price", "span_price",
            )
        ),
        ("span", ctypes.c_double),
        ("limit", ctypes.c_double),
        ("cores", ctypes.c_int32),
        ("core_begin", ctypes.c_void_p),
        ("core", ctypes.c_void_p),
    )  # fmt: skip


class _RangeSearch(ctypes.Structure):
    """TvmHeteroStreamsSearch."""

    _fields_ = (
        ("work", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("heat", ctypes.c_double),
        ("deadline", ctypes.c_double),
        ("value", ctypes.c_double),
        ("stopped", ctypes.c_int32),
    )


@dataclass(frozen=True)
class Streams:
    """A divided batch: task i is the i-th of the instance's topological order.

    Attributes
    ----------
    counts, device : (tasks, streams), elements and devices.
    sequence : of items (task x streams + stream), in which order executions are decided.
    value : by the search's own reckoning; inf if it was not reckoned.
    """

    counts: Int32Array
    device: Int32Array
    sequence: Int32Array
    value: float = math.inf


@cache
def _anneal() -> Any:
    """The library's function.

    Raises
    ------
    SolverError
        If the library is not there, or is of other sources.
    """
    function = search_library().tvm_hetero_streams_anneal
    p = ctypes.c_void_p
    function.argtypes = [ctypes.POINTER(_RangeProblem), ctypes.POINTER(_RangeSearch), p, p, p]
    function.restype = ctypes.c_int
    return function


class StreamSearch:
    """An undivided instance in arrays (see include/tvm_hetero/streams.h).

    Raises
    ------
    SolverError
        If the table of costs would be too big.
    """

    def __init__(self, instance: Instance) -> None:
        batch, k = instance.problem.batch, len(instance.names)
        if len(instance) * k * (batch + 1) > _MOST_COSTS:
            raise SolverError(
                f"{len(instance)} tasks on {k} devices for each of {batch} sizes of a batch are "
                f"more than {_MOST_COSTS} costs; divide the batch beforehand"
            )
        self.instance = instance
        self.batch = batch
        self.seconds = _seconds(instance)
        self.loose = _loose(instance, self.seconds)
        self._arrays = self._flatten()
        self._cores = _cores(instance)

    def __len__(self) -> int:
        return len(self.instance)

    def anneal(
        self, start: Streams, *, work: int, seed: int, heat: float, deadline: float
    ) -> Streams:
        """Anneal counts, devices and order.

        Parameters
        ----------
        work : items that may be decoded (40 to 80 ns each).
        heat : first temperature, in parts of the value.
        deadline : wall seconds after which it stops at once: a net, not a plan.
        """
        counts, device, sequence = (
            np.array(row, np.int32) for row in (start.counts, start.device, start.sequence)
        )
        problem = self._problem(counts.shape[1])
        search = _RangeSearch(work, seed, heat, max(0.0, deadline), math.inf, 0)
        code = _anneal()(
            ctypes.byref(problem), ctypes.byref(search),
            counts.ctypes.data, device.ctypes.data, sequence.ctypes.data,
        )  # fmt: skip
        if code:
            raise SolverError(f"the search of divisions failed with code {code}")
        return Streams(counts, device, sequence, search.value)

    def divided(self, plan: Streams) -> tuple[Instance, list[int], list[int]]:
        """The divided instance with its placement and an order of its parts."""
        streams, order = plan.counts.shape[1], self.instance.order
        rows: list[list[tuple[ElementShare, int]]] = [[] for _ in order]
        for i, v in enumerate(order):
            rows[v] = self._shares(i, plan)
        patterns = [[share for share, _ in row] for row in rows]
        instance, placement = divide_by_patterns(self.instance.problem, patterns)
        part: dict[tuple[int, int], list[int]] = {}
        for i, v in enumerate(order):
            for number, (_, stream) in zip(instance.parts_of[v], rows[v], strict=True):
                part.setdefault((i, stream), []).append(number)
        items = (divmod(int(item), streams) for item in plan.sequence)
        return instance, placement, [v for item in items for v in part.get(item, ())]

    def _shares(self, i: int, plan: Streams) -> list[tuple[ElementShare, int]]:
        """The pattern of a task, with the stream of every execution."""
        if self.loose[i]:
            stream = int(np.argmax(plan.counts[i]))
            device = int(plan.device[i, stream])
            counts = even_counts(self.batch, min(self.batch, _MOST_LOOSE))
            return [(ElementShare(device, count), stream) for count in counts]
        return [
            (ElementShare(int(plan.device[i, s]), count), s)
            for s, count in enumerate(plan.counts[i].tolist())
            if count
        ]

    def _problem(self, streams: int) -> _RangeProblem:
        rows = self._arrays
        span = 1.0 if self.instance.problem.objective.kind == "latency" else 0.0
        limit = self.instance.problem.objective.latency_limit
        return _RangeProblem(
            len(self), len(self.instance.names), streams, self.batch, len(rows["in_task"]),
            *(row.ctypes.data for row in rows.values()),
            span, math.inf if limit is None else limit,
            1 + int(self._cores[1].max()), *(row.ctypes.data for row in self._cores),
        )  # fmt: skip

    def _flatten(self) -> dict[str, AnyArray]:
        instance = self.instance
        place = {v: i for i, v in enumerate(instance.order)}
        into: list[list[tuple[int, float]]] = [[] for _ in instance.order]
        for flow in instance.tensors:
            for reader in flow.readers:
                into[place[reader]].append((place[flow.maker], flow.nbytes / self.batch))
        begin = np.cumsum([0, *map(len, into)])
        rows = [pair for row in into for pair in row]
        latency, inverse = _copies(instance)
        busy, span = _prices(instance)
        colored = {
            v: g for g, own in enumerate(instance.groups) if is_colored(instance, g) for v in own
        }
        capacity = [math.inf if limit is None else float(limit) for limit in instance.capacity]
        return {
            "seconds": np.ascontiguousarray(self.seconds),
            "in_begin": begin.astype(np.int32),
            "in_task": np.array([u for u, _ in rows], np.int32),
            "in_bytes": np.array([nbytes for _, nbytes in rows], np.float64),
            "latency": latency,
            "inverse": inverse,
            "loose": np.array(self.loose, np.uint8),
            "group": np.array([colored.get(v, -1) for v in instance.order], np.int32),
            "weights": np.array(
                [instance.weights[v] + instance.unread[v] for v in instance.order], np.float64
            ),
            "capacity": np.array(capacity, np.float64),
            "busy_price": busy,
            "span_price": span,
        }


def is_colored(instance: Instance, group: int) -> bool:
    """Whether the parts of a group share a device, be it a single task, however it is divided."""
    task = instance.task_of[instance.groups[group][0]]
    return instance.problem.graph.tasks[task].color is not None


def _cores(instance: Instance) -> tuple[Int32Array, Int32Array]:
    """What an execution on each device keeps busy: where its row begins, and all rows."""
    rows = instance.cores
    number = {r: i for i, r in enumerate(sorted({r for row in rows for r in row}))}
    begin = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return begin, np.array([number[r] for row in rows for r in row], np.int32)


def _seconds(instance: Instance) -> FloatArray:
    """(tasks, devices, batch + 1): of so many elements, s; inf where a device cannot run it."""
    batch = instance.problem.batch
    table = np.full((len(instance), len(instance.names), batch + 1), math.inf)
    known: dict[Cost, FloatArray] = {}
    for i, v in enumerate(instance.order):
        for d in instance.devices[v]:
            cost = instance.problem.costs[instance.tasks[v]][instance.names[d]]
            if cost not in known:
                known[cost] = np.array([0.0, *(cost.seconds(n) for n in range(1, batch + 1))])
            table[i, d] = known[cost]
    return table


def _loose(instance: Instance, seconds: FloatArray) -> list[bool]:
    """Which tasks take no time at an end of the graph."""
    found = []
    for i, v in enumerate(instance.order):
        outer = not instance.inputs[v] or not any(
            instance.tensors[t].readers for t in instance.outputs[v]
        )
        free = not np.where(np.isfinite(seconds[i]), seconds[i], 0.0).any()
        found.append(outer and free and not is_colored(instance, instance.group_of[v]))
    return found


def _copies(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Latency (s) and seconds a byte between every two devices, as large tensors see them."""
    # Pair by pair these took 0.7 s for 192 devices, half of the time of small limits.
    large = max([1, *(flow.nbytes for flow in instance.tensors)])
    latency = instance.copies(0).copy()
    inverse = np.zeros_like(latency)
    np.subtract(instance.copies(large), latency, out=inverse, where=np.isfinite(latency))
    return latency, np.maximum(inverse, 0.0) / large


def _prices(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """What a busy second and a second of makespan of each device in use add to the value."""
    devices = instance.problem.platform.devices
    kind = instance.problem.objective.kind
    if kind == "energy":
        busy = [(device.watts or 0.0) - device.idle_watts for device in devices]
        return np.array(busy), np.array([device.idle_watts for device in devices])
    price = [(device.price or 0.0) / 3600 if kind == "cost" else 0.0 for device in devices]
    return np.zeros(len(devices)), np.array(price)
