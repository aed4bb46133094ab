"""What the nodes of a cluster are together: one platform, with a network that was measured.

The time of a tensor from node to node is a line: what a small one takes, and what a large one takes
beyond that, by the byte. Both are taken from chains of hops through Ray, forth and back between two
nodes, so that what the driver adds at the ends of a chain does not count.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_hetero.cluster.driver import STARTING, Cluster
from tvm_hetero.errors import UsageError
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.platform_format import platform_from_dict

_SMALL, _LARGE = 64, 4 * 2**20
_HOPS = (2, 10)
_REPEATS = 15


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
        for device in platform_from_dict(row["platform"], row["name"]).devices:
            memory = device.memory
            if memory is not None and is_host(device):
                memory //= nodes_on[row["host"]]
            name = f"{row['name']}.{device.name}"
            devices.append(replace(device, name=name, node=row["name"], memory=memory))
    return devices


def measure_network(cluster: Cluster) -> tuple[float, float]:
    """Bandwidth (bytes/s) and latency (s) between two nodes, as Ray carries tensors."""
    small, large = hop_seconds(cluster, _SMALL), hop_seconds(cluster, _LARGE)
    bandwidth = (_LARGE - _SMALL) / max(large - small, 1e-6)
    return float(f"{bandwidth:.3g}"), float(f"{max(small, 1e-6):.3g}")


def hop_seconds(cluster: Cluster, nbytes: int, repeats: int = _REPEATS) -> float:
    """Seconds of a hop of that many bytes from node to node: the median over chains of hops."""
    array = np.zeros(nbytes, np.uint8)
    short, long = _HOPS
    chain_seconds(cluster, array, long)
    found = [
        (chain_seconds(cluster, array, long) - chain_seconds(cluster, array, short))
        / (long - short)
        for _ in range(repeats)
    ]
    return statistics.median(found)


def chain_seconds(cluster: Cluster, array: np.ndarray, hops: int) -> float:
    """Seconds in which an array goes through so many nodes, forth and back between two."""
    pair = cluster.nodes[:2]
    begin = time.perf_counter()
    value = array
    for hop in range(hops):
        value = cluster.call(pair[hop % len(pair)], "echo", value)[0]
    cluster.get(value, pair[(hops - 1) % len(pair)], STARTING)
    return time.perf_counter() - begin
