"""The platform of a cluster, of what its nodes say of themselves."""

from __future__ import annotations

from typing import Any

from tests.models import NATIVE
from tvm_hetero.cluster.survey import node_devices
from tvm_hetero.platform import Device, Platform


def about(name: str, host: str, memory: int | None) -> dict[str, Any]:
    device = Device("cpu0", name, memory=memory, target=NATIVE, cores=(0,))
    return {"name": name, "host": host, "platform": Platform((device,)).to_dict()}


def test_nodes_of_one_machine_share_its_memory() -> None:
    found = node_devices([about("a", "x", 1000), about("b", "y", 700), about("c", "x", 1000)])
    assert [(d.name, d.node, d.memory) for d in found] == [
        ("a.cpu0", "a", 500), ("b.cpu0", "b", 700), ("c.cpu0", "c", 500)
    ]  # fmt: skip
    (one,) = node_devices([about("a", "x", None)])
    assert one.memory is None
