"""What is said to and of a board: a device that is reached by TVM's RPC
(`tvm_hetero.platform.rpc_endpoint`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tvm_hetero.devices.target import device_target, remote_device
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.rpc_endpoint import Remote

# To load TVM takes a child two seconds; on a busy machine many.
PREPARE_SECONDS = 120.0
# Weights and libraries may be large and networks slow: beside a timeout, they may take so long.
SECONDS_PER_BYTE = 1e-6


def remote_of(device: Device) -> Remote:
    """Where a board is; for devices that are known to be one."""
    assert device.rpc is not None
    return device.rpc


def rpc_device_question(device: Device) -> dict[str, Any]:
    """What a child process has to know to work with a board (see `session`)."""
    threads = int(device_target(device).attrs.get("num-cores", 1) or 1)
    return {
        "remote": asdict(remote_of(device)),
        "device": list(remote_device(device)),
        "threads": threads if device.kind == "llvm" else 1,
    }


def unreachable_text(device: Device, reason: str) -> str:
    """That a board cannot be reached, why, and what to do."""
    remote = remote_of(device)
    return (
        f"device {device.name!r} ({remote.text}) cannot be reached: {reason}; see that its server "
        "runs, that key and address are right, and that no one else uses it"
    )


def lost_text(device: Device, reason: str) -> str:
    """That the connection to a board was lost, why, and what to do."""
    return (
        f"device {device.name!r} ({remote_of(device).text}) was lost: {reason}; see that its "
        "server runs, and try again"
    )
