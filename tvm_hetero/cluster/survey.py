"""What the nodes of a cluster are together: one platform, with a network that was measured.

The time of a tensor from node to node is a line: what a small one takes, and what a large one takes
beyond that, by the byte. Both are taken from chains of hops, forth and back between two nodes, so
that what the driver adds at the ends of a chain does not count. They go as tensors of a model do,
from the thread that computes at one node to that at the next.
"""

from __future__ import annotations

import queue
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np

from tvm_hetero.cluster.driver import STARTING, Cluster
from tvm_hetero.cluster.transport.message import DRIVER, ECHO, Message
from tvm_hetero.errors import NodeLost, UsageError
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.platform.devices import Device, Fabric
from tvm_hetero.platform.model import Platform

_SMALL, _LARGE = 64, 4 * 2**20
_HOPS = (2, 10)
_REPEATS = 15
# Bytes of a message beside its array.
_AROUND = 16 * 2**10


def survey(cluster: Cluster, *, measure: bool = True) -> Platform:
    """The platform of all nodes: devices are called NODE.DEVICE.

    Parameters
    ----------
    measure : whether the network is measured where the cluster file does not describe it.

    Raises
    ------
    UsageError
        If there are several nodes, and neither.
    """
    fabrics = []
    devices = node_devices(cluster.describe())
    if len(cluster.nodes) > 1:
        figures = cluster.description.network
        if figures is None and measure:
            figures = measure_network(cluster)
        if figures is None:
            raise UsageError("the cluster file says nothing of the network; let it be measured")
        fabrics.append(Fabric(None, *figures))
    return Platform(devices=tuple(devices), fabrics=tuple(fabrics), name="cluster")


def node_devices(about: Sequence[Mapping[str, Any]]) -> list[Device]:
    """The devices of all nodes, which are told of as `Cluster.describe` does.

    Nodes on one machine share its main memory: each is given an equal part.
    """
    nodes_on = Counter(row["host"] for row in about)
    devices = []
    for row in about:
        for device in Platform.from_dict(row["platform"], row["name"]).devices:
            memory = device.memory
            if memory is not None and is_host(device):
                memory //= nodes_on[row["host"]]
            name = f"{row['name']}.{device.name}"
            devices.append(replace(device, name=name, node=row["name"], memory=memory))
    return devices


def measure_network(cluster: Cluster) -> tuple[float, float]:
    """Bandwidth (bytes/s) and latency (s) between the first two nodes.

    Raises
    ------
    NodeLost
        If one of them is lost meanwhile.
    """
    small, large = hop_seconds(cluster, (_SMALL, _LARGE))
    bandwidth = (_LARGE - _SMALL) / max(large - small, 1e-6)
    return float(f"{bandwidth:.3g}"), float(f"{max(small, 1e-6):.3g}")


def hop_seconds(
    cluster: Cluster, sizes: Sequence[int], repeats: int = _REPEATS
) -> tuple[float, ...]:
    """Seconds of a hop of so many bytes from node to node, for each size: the median over chains.

    Raises
    ------
    NodeLost
        If one of the nodes is lost meanwhile.
    """
    pair, wiring = cluster.nodes[:2], cluster.wiring
    arrived: queue.SimpleQueue[Message] = queue.SimpleQueue()
    ways = [(a, b) for a in (*pair, DRIVER) for b in (*pair, DRIVER) if a != b]
    wiring.require(dict.fromkeys(ways, max(sizes) + _AROUND))

    def chain(array: np.ndarray, hops: int) -> float:
        """Seconds in which an array goes through so many nodes."""
        first, *others = islice(cycle(pair), hops)
        route = (*others, DRIVER)
        begin = time.perf_counter()
        wiring.send(first, Message(ECHO, 0, 0, 0, 0, None, (0,), [array], route=route))
        try:
            arrived.get(timeout=STARTING)
        except queue.Empty:
            raise NodeLost(f"an echo of {' and '.join(pair)} did not come back") from None
        return time.perf_counter() - begin

    def take(message: Message) -> None:
        if message.model == ECHO:
            arrived.put(message)

    wiring.listen(take)
    try:
        return tuple(_median_hop(np.zeros(n, np.uint8), chain, repeats) for n in sizes)
    finally:
        wiring.unlisten(take)


def _median_hop(
    array: np.ndarray, chain: Callable[[np.ndarray, int], float], repeats: int
) -> float:
    short, long = _HOPS
    chain(array, long)
    found = [chain(array, long) - chain(array, short) for _ in range(repeats)]
    return statistics.median(found) / (long - short)
