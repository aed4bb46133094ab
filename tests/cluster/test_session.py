"""Connections to Ray: what cannot be made is said soon, and why."""

from __future__ import annotations

import socket
import time

import pytest

from tvm_hetero.cluster.description import Description, NodeRow
from tvm_hetero.cluster.driver import first_line
from tvm_hetero.cluster.node import Node
from tvm_hetero.cluster.session import ClusterSession, not_started
from tvm_hetero.cluster.transport.ray_import import import_ray
from tvm_hetero.errors import UsageError


def test_an_address_where_nobody_is_is_refused_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    import_ray()  # which takes long on a busy machine
    began = time.monotonic()
    with pytest.raises(UsageError, match=f"there is no Ray at address '{address}' .*refused"):
        ClusterSession(Description(address, (NodeRow("a"),)))
    assert time.monotonic() - began < 60  # Ray itself would try for minutes


def test_why_ray_does_not_start_is_told() -> None:
    told = str(not_started(Exception("The node timed out\x1b[2J.\nmore"), "/tmp"))
    assert told.startswith(
        "no Ray could be started on this machine: The node timed out\\x1b[2J. It"
    )
    assert (
        "/dev/shm (where that is smaller, of /tmp), and room in /tmp" in told
        and "address: auto" in told
    )
    assert "None" not in str(not_started(Exception(), "/tmp"))


def test_a_driver_from_outside_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'ray://10\.0\.0\.1:10001' joins a Ray from outside"):
        ClusterSession(Description("ray://10.0.0.1:10001", (NodeRow("a"),)))


def test_of_a_node_that_was_not_made_the_reason_is_told() -> None:
    made = "The actor died because of an error raised in its creation task, ray::Node.__init__()"
    text = f"{made}\n  File 'node.py', line 6\ntvm_hetero.errors.UsageError: there is no core 7\n"
    assert first_line(RuntimeError(text)) == "there is no core 7"
    assert first_line(RuntimeError("it died\nbecause")) == "it died"
    assert first_line(RuntimeError()) == "RuntimeError"


def test_cores_that_are_not_there_are_named() -> None:
    with pytest.raises(UsageError, match=r"there is no core 4321 on .*; expected some of "):
        Node("a", [4321])
