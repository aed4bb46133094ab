"""An `Instance` as the plain arrays of include/tvm_hetero/search.h."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tvm_hetero.errors import SolverError
from tvm_hetero.views.array_types import AnyArray
from tvm_hetero.views.instance import Instance

_KINDS = {"latency": 0, "throughput": 1, "energy": 2, "cost": 3}
_POINTERS = {
    "seconds": np.float64,
    "task": np.int32,
    "weights": np.int64,
    "unread": np.int64,
    "group": np.int32,
    "allowed_begin": np.int32,
    "allowed": np.int32,
    "maker": np.int32,
    "size": np.int32,
    "reader_begin": np.int32,
    "readers": np.int32,
    "size_bytes": np.int64,
    "link": np.int32,
    "latency": np.float64,
    "bandwidth": np.float64,
    "exclusive_link": np.int32,
    "copy_engine": np.uint8,
    "capacity": np.int64,
    "staged": np.uint8,
}
_CORES = {"core_begin": np.int32, "cores": np.int32, "memory_of": np.int32}
_RATES = {"watts": np.float64, "idle_watts": np.float64, "price": np.float64}
_COUNTS = ("parts", "devices", "tensors", "tasks", "groups", "sizes", "links", "exclusive")


class ProblemArrays(ctypes.Structure):
    """TvmHeteroSearchProblem."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in _COUNTS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("kind", ctypes.c_int32),
        ("acyclic", ctypes.c_int32),
        ("latency_limit", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in _RATES),
        ("shared", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in _CORES),
    )


def flatten(instance: Instance) -> tuple[ProblemArrays, list[AnyArray]]:
    """The problem for the library, and the arrays that it points to (to be kept alive).

    Raises
    ------
    SolverError
        If a number of bytes is beyond what the library can add up.
    """
    columns = {
        **_parts(instance),
        **_tensors(instance),
        **_links(instance),
        **_devices(instance),
    }
    objective = instance.problem.objective
    problem = ProblemArrays()
    try:
        arrays = {
            name: np.ascontiguousarray(columns[name], dtype)
            for name, dtype in {**_POINTERS, **_RATES, **_CORES}.items()
        }
    except OverflowError as error:
        raise SolverError(
            "a number of bytes is above 2^63, beyond the search library; use another solver"
        ) from error
    for name, array in arrays.items():
        setattr(problem, name, array.ctypes.data)
    problem.parts, problem.devices = len(instance), len(instance.names)
    problem.tensors, problem.groups = len(instance.tensors), len(instance.groups)
    problem.tasks = 1 + int(arrays["task"].max())
    problem.sizes, problem.links = len(arrays["size_bytes"]), len(arrays["latency"])
    problem.exclusive = 1 + int(arrays["exclusive_link"].max())
    problem.shared = len(instance.problem.platform.cliques)
    problem.kind = _KINDS[objective.kind]
    problem.acyclic = int(objective.contiguous)
    limit = objective.latency_limit
    problem.latency_limit = math.inf if limit is None else limit
    return problem, list(arrays.values())


def _rows(rows: Iterable[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Begins and items of many short lists."""
    lists = list(rows)
    begin = [0, *accumulate(len(row) for row in lists)]
    return begin, [item for row in lists for item in row]


def _parts(instance: Instance) -> dict[str, Any]:
    begin, allowed = _rows(instance.devices[group[0]] for group in instance.groups)
    return {
        "seconds": instance.seconds,
        "task": instance.task_of,
        "weights": instance.weights,
        "unread": instance.unread,
        "group": [instance.group_of[v] for v in range(len(instance))],
        "staged": [v not in instance.terminals for v in range(len(instance))],
        "allowed_begin": begin,
        "allowed": allowed,
    }


def _tensors(instance: Instance) -> dict[str, Any]:
    sizes = sorted({flow.nbytes for flow in instance.tensors})
    number = {nbytes: i for i, nbytes in enumerate(sizes)}
    begin, readers = _rows(flow.readers for flow in instance.tensors)
    return {
        "maker": [flow.maker for flow in instance.tensors],
        "size": [number[flow.nbytes] for flow in instance.tensors],
        "reader_begin": begin,
        "readers": readers,
        "size_bytes": sizes,
    }


def _links(instance: Instance) -> dict[str, Any]:
    """Links by kind: platforms of many devices have few different ones."""
    platform, k = instance.problem.platform, len(instance.names)
    link = np.full((k, k), -1, np.int32)
    exclusive = np.full((k, k), -1, np.int32)
    kinds: dict[tuple[float, float], int] = {}
    for a in range(k):
        for b, figures in platform.links_from(a).items():
            link[a, b] = kinds.setdefault(figures, len(kinds))
    for (a, b), number in instance.exclusive.items():
        exclusive[a, b] = number - k
    return {
        "link": link,
        "exclusive_link": exclusive,
        "latency": [latency for latency, _ in kinds],
        "bandwidth": [bandwidth for _, bandwidth in kinds],
    }


def _devices(instance: Instance) -> dict[str, Any]:
    devices = instance.problem.platform.devices
    # A device that shares no core has itself alone, which the library knows.
    first = len(devices) + len(instance.exclusive)
    begin, cores = _rows([r - first for r in row if r >= first] for row in instance.cores)
    bound = zip(instance.memory_binds, instance.capacity, strict=True)
    return {
        "copy_engine": [device.overlap for device in devices],
        "capacity": [limit if binds and limit is not None else -1 for binds, limit in bound],
        "watts": [device.watts or 0.0 for device in devices],
        "idle_watts": [device.idle_watts for device in devices],
        "core_begin": begin,
        "cores": cores,
        "memory_of": instance.memory_of,
        "price": [(device.price or 0.0) / 3600 for device in devices],
    }
