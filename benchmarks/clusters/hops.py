"""What passing a tensor on takes: by Ray's calls, by Ray's compiled graphs, by a mere copy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

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
    return [
        Hop(
            nbytes,
            hop_seconds(cluster, nbytes, repeats),
            compiled_hop(nbytes, repeats) if compiled else None,
            copy_seconds(nbytes, repeats),
        )
        for nbytes in sizes
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


def compiled_hop(nbytes: int, repeats: int) -> float:
    """Seconds of a hop between two actors in a compiled graph: a long chain less a short one."""
    ray = import_ray()
    array = np.zeros(nbytes, np.uint8)
    seconds = []
    for hops in (_SHORT, _LONG):
        actors = [ray.remote(Echo).options(num_cpus=0).remote() for _ in range(2)]
        with ray.dag.InputNode() as value:
            chained = value
            for hop in range(hops):
                chained = actors[hop % 2].echo.bind(chained)
        graph = chained.experimental_compile()
        for _ in range(10):
            ray.get(graph.execute(array))
        seconds.append(_median(lambda graph=graph: ray.get(graph.execute(array)), 10 * repeats))
        graph.teardown(kill_actors=True)  # or it waits for actors that wait for each other
    return (seconds[1] - seconds[0]) / (_LONG - _SHORT)


def _median(once: Callable[[], object], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        once()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)
