"""What passing a tensor on takes: by Ray's calls, by Ray's compiled graphs, by a mere copy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.session import import_ray
from tvm_hetero.cluster.survey import hop_seconds

_SHORT, _LONG = 1, 5


@dataclass(frozen=True)
class Hop:
    """Seconds of a hop of `nbytes` bytes; `compiled_s` None: not measured."""

    nbytes: int
    call_s: float
    compiled_s: float | None
    copy_s: float


def measure_hops(cluster: Cluster, sizes: list[int], repeats: int, compiled: bool) -> list[Hop]:
    """A row for each size."""
    graphs = compiled_hops(sizes, repeats) if compiled else [None] * len(sizes)
    return [
        Hop(nbytes, hop_seconds(cluster, nbytes, repeats), graph, copy_seconds(nbytes, repeats))
        for nbytes, graph in zip(sizes, graphs, strict=True)
    ]


def copy_seconds(nbytes: int, repeats: int) -> float:
    """Seconds of copying as many bytes within one process."""
    array = np.zeros(nbytes, np.uint8)
    return _median(lambda: array.copy(), 10 * repeats)


class Echo:
    """An actor that gives back what came, in memory of its own."""

    def echo(self, array: np.ndarray) -> np.ndarray:
        """A copy."""
        return np.array(array)


def compiled_hops(sizes: list[int], repeats: int) -> list[float]:
    """Seconds of a hop between two actors in a compiled graph: a long chain less a short one."""
    short, long = (_chained(hops, sizes, repeats) for hops in (_SHORT, _LONG))
    return [(b - a) / (_LONG - _SHORT) for a, b in zip(short, long, strict=True)]


def _chained(hops: int, sizes: list[int], repeats: int) -> list[float]:
    """Seconds in which arrays of these sizes go through a compiled graph of so many hops."""
    ray = import_ray()
    from ray.dag import InputNode

    actors = [ray.remote(Echo).options(num_cpus=0).remote() for _ in range(2)]
    with InputNode() as value:
        chained = value
        for hop in range(hops):
            chained = actors[hop % 2].echo.bind(chained)
    graph = chained.experimental_compile()
    found = []
    for nbytes in sizes:
        array = np.zeros(nbytes, np.uint8)
        for _ in range(10):
            ray.get(graph.execute(array))
        once = partial(_through, ray, graph, array)
        found.append(_median(once, 10 * repeats))
    graph.teardown(kill_actors=True)  # or it waits for actors that wait for each other
    return found


def _through(ray: Any, graph: Any, array: np.ndarray) -> None:
    ray.get(graph.execute(array))


def _median(once: Callable[[], object], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        once()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)
