"""What passing a tensor on takes: by our messages, by Ray's calls and graphs, by a mere copy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.survey import hop_seconds
from tvm_hetero.cluster.transport.ray_import import import_ray

_SHORT, _LONG, _WARMUP = 1, 5, 10


@dataclass(frozen=True)
class Hop:
    """Seconds of a hop of `nbytes` bytes: as our tensors go (`message_s`), by calls of actors, in
    a compiled graph of Ray's (None: not measured), and of a copy within a process.
    """

    nbytes: int
    message_s: float
    call_s: float | None
    compiled_s: float | None
    copy_s: float


def measure_hops(cluster: Cluster, sizes: list[int], repeats: int, peers: bool) -> list[Hop]:
    """A row for each size; without `peers` only ours and a copy."""
    # Ours first: Ray begins and ends processes around the others.
    ours, nothing = hop_seconds(cluster, sizes, repeats), [None] * len(sizes)
    calls = call_hops(sizes, repeats) if peers else nothing
    graphs = compiled_hops(sizes, repeats) if peers else nothing
    copies = [copy_seconds(nbytes, repeats) for nbytes in sizes]
    return [Hop(*row) for row in zip(sizes, ours, calls, graphs, copies, strict=True)]


def copy_seconds(nbytes: int, repeats: int) -> float:
    """Seconds of copying as many bytes within one process."""
    array = np.zeros(nbytes, np.uint8)
    return _median(lambda: array.copy(), 10 * repeats)


class Echo:
    """An actor that gives back what came, in memory of its own."""

    def echo(self, array: np.ndarray) -> np.ndarray:
        """A copy."""
        return np.array(array)


def call_hops(sizes: list[int], repeats: int) -> list[float]:
    """Seconds of a hop between two actors by calls, each of which is given the reference of what
    the one before makes: the median over long chains less short ones, in turns.
    """
    ray = import_ray()
    actors = [ray.remote(Echo).options(num_cpus=0).remote() for _ in range(2)]

    def through(array: np.ndarray, hops: int) -> None:
        value = array
        for hop in range(hops):
            value = actors[hop % 2].echo.remote(value)
        ray.get(value)

    found = [_per_hop(partial(through, hops=_SHORT), partial(through, hops=_LONG), nbytes, repeats)
             for nbytes in sizes]  # fmt: skip
    for actor in actors:
        ray.kill(actor)
    return found


def compiled_hops(sizes: list[int], repeats: int) -> list[float]:
    """Seconds of a hop between two actors in a compiled graph: the median over a long chain less a
    short one, in turns.
    """
    with _graph(_SHORT) as short, _graph(_LONG) as long:
        return [_per_hop(short, long, nbytes, 10 * repeats) for nbytes in sizes]


def _per_hop(
    short: Callable[[np.ndarray], object], long: Callable[[np.ndarray], object], nbytes: int,
    repeats: int,
) -> float:  # fmt: skip
    """Seconds of a hop: the median of what a long chain takes beyond a short one, in turns."""
    array = np.zeros(nbytes, np.uint8)
    for _ in range(_WARMUP):
        long(array), short(array)
    differences = [_seconds(long, array) - _seconds(short, array) for _ in range(repeats)]
    return statistics.median(differences) / (_LONG - _SHORT)


@contextmanager
def _graph(hops: int) -> Iterator[Callable[[np.ndarray], object]]:
    """A compiled graph in which an array goes forth and back between two actors."""
    ray = import_ray()
    from ray.dag import InputNode
    from ray.dag.context import DAGContext

    actors = [ray.remote(Echo).options(num_cpus=0).remote() for _ in range(2)]
    with InputNode() as value:
        chained = value
        for hop in range(hops):
            chained = actors[hop % 2].echo.bind(chained)
    graph = chained.experimental_compile()
    yield lambda array: ray.get(graph.execute(array))
    # One that waits for the other is waited for half a minute, unless one says otherwise.
    DAGContext.get_current().teardown_timeout = 1
    graph.teardown(kill_actors=True)


def _seconds(through: Callable[[np.ndarray], object], array: np.ndarray) -> float:
    begin = time.perf_counter()
    through(array)
    return time.perf_counter() - begin


def _median(once: Callable[[], object], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        once()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)
