"""What a platform is made of: devices, links, and fabrics of links."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.arithmetic_units import Units
from tvm_hetero.platform.rpc_endpoint import Remote
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

# What files call devices and their frequency levels.
NAME = re.compile(r"[A-Za-z0-9_.-]+")
# Kinds of TVM targets that compute on the machine's own processor.
HOST_KINDS = ("llvm", "c")
# Frequency levels of one device: between all of them there are links.
MOST_LEVELS = 64
# What these may differ in.
_OF_LEVELS = ("name", "peak_flops", "launch", "watts")


@dataclass(frozen=True)
class Device:
    """A place where tasks run, or at least where tensors may stop on their way.

    Attributes
    ----------
    name : unique, ``[A-Za-z0-9_.-]+``.
    node : the machine that it belongs to.
    target : TVM target (``{"kind": "llvm", "mcpu": "x86-64-v3"}``), or None.
    cores : CPU cores that its threads are pinned to.
    memory : capacity in bytes, None for unlimited.
    overlap : True if a copy engine moves tensors while the device computes.
    peak_flops : flop/s; bandwidth : bytes/s; launch : s per kernel (analytical cost model).
    watts, idle_watts : power while busy and while idle; price : money per hour.
    interference : by how much its kernels are slower while all devices compute than alone: a
        factor of at least 1, which costs that were measured alone are multiplied by.
    private : a CPU device with a memory of its own: tensors are copied to and from it as to and
        from a GPU, so that this path runs where there is none.
    units : what its arithmetic units can do, where that is not everything (computing memories).
    level_of : the device of which it is a frequency level (`platform.frequency_levels`), or None.
    rpc : where the device is, if it is a board that only speaks TVM's RPC (it has a memory of its
        own, and does one thing at a time); None: a device of its node.
    """

    name: str
    node: str = "node0"
    target: Mapping[str, Any] | None = None
    cores: tuple[int, ...] = ()
    memory: int | None = None
    overlap: bool = False
    peak_flops: float | None = None
    bandwidth: float | None = None
    launch: float | None = None
    watts: float | None = None
    idle_watts: float = 0.0
    price: float | None = None
    private: bool = False
    interference: float = 1.0
    rpc: Remote | None = None
    units: Units | None = None
    level_of: str | None = None

    @property
    def kind(self) -> str:
        """The kind of the TVM target: ``llvm``, ``cuda``, ..., or ``unknown``."""
        return str(self.target["kind"]) if self.target else "unknown"


def is_local_cpu(device: Device) -> bool:
    """Whether a device's kernels are for the CPU of its node, and run there without RPC."""
    return device.kind in HOST_KINDS and device.rpc is None


@dataclass(frozen=True)
class Link:
    """A one-way connection. Moving b bytes takes ``latency + b / bandwidth`` seconds.

    `cold_bandwidth` (bytes/s) is that between devices that compute in one memory of bytes that have
    left the caches before they are read; None: as `bandwidth`. No rule of a schedule reads it.
    """

    src: str
    dst: str
    bandwidth: float = math.inf
    latency: float = 0.0
    exclusive: bool = False
    cold_bandwidth: float | None = None

    def seconds(self, nbytes: float) -> float:
        """Time to move `nbytes` over this link, s."""
        return self.latency + nbytes / self.bandwidth

    def cold_seconds(self, nbytes: float) -> float:
        """The same of bytes that have left the caches, s."""
        return self.latency + nbytes / (self.cold_bandwidth or self.bandwidth)


@dataclass(frozen=True)
class Fabric:
    """Links between every two devices of one node, or (`node` None) of different nodes."""

    node: str | None
    bandwidth: float = math.inf
    latency: float = 0.0
    exclusive: bool = False


def check_devices(devices: tuple[Device, ...], shared_cores: bool = False) -> None:
    """Refuse devices that make no platform; `shared_cores`: those on one core may work at once.

    Raises
    ------
    PlatformError
        If there are none, a name is repeated, or what is said of one does not fit together.
    """
    if not devices:
        raise PlatformError("the platform has no devices; expected at least one")
    seen: dict[str, Device] = {}
    for device in devices:
        if device.name in seen:
            level = next((d.level_of for d in (device, seen[device.name]) if d.level_of), None)
            as_level = "" if level is None else f", as a frequency level of {quote(level)} too"
            raise PlatformError(f"device {quote(device.name)} is given twice{as_level}")
        seen[device.name] = device
        if len(set(device.cores)) < len(device.cores) or min(device.cores, default=0) < 0:
            raise PlatformError(
                f"device {quote(device.name)} has cores {quote(device.cores)}; expected numbers "
                "from 0 on, each once"
            )
        if not 1 <= device.interference < math.inf:
            raise PlatformError(
                f"device {quote(device.name)} has interference {device.interference!r}; "
                "expected a factor of at least 1: while others compute it is slower, not faster"
            )
        if device.private and device.kind not in HOST_KINDS:
            raise PlatformError(
                f"device {quote(device.name)} is private, and of kind {printable(device.kind)}; "
                "only a CPU device (kind llvm) may be: every other has a memory of its own anyway"
            )
    _check_levels(devices, shared_cores)
    _check_boards(devices)


def _check_levels(devices: tuple[Device, ...], shared_cores: bool) -> None:
    """Refuse frequency levels that could compute at once, or are of no one device."""
    refuse_many_levels(devices)
    first: dict[str, Device] = {}
    names = {device.name for device in devices}
    for device in devices:
        if device.level_of is None:
            continue
        level = f"device {quote(device.name)} is a frequency level of {quote(device.level_of)}"
        if shared_cores:
            raise PlatformError(
                f"{level}: with shared_cores all levels would work at once; leave that out"
            )
        if device.level_of in names:
            raise PlatformError(
                f"{level}, which is a device besides; expected its levels in its place"
            )
        if device.rpc is not None:
            raise PlatformError(f"{level} and reached by RPC; leave one of the two out")
        if not device.cores:
            raise PlatformError(f"{level}; expected its cores, the same for all levels")
        _compare_levels(first.setdefault(device.level_of, device), device, level)


def _compare_levels(one: Device, two: Device, what: str) -> None:
    for key in (field.name for field in fields(Device) if field.name not in _OF_LEVELS):
        if getattr(one, key) != getattr(two, key):
            raise PlatformError(
                f"{what}, and its {key!r} is another than that of {quote(one.name)}; levels of one "
                "device differ in peak_flops, launch and watts alone"
            )


def refuse_many_levels(devices: Iterable[Device]) -> None:
    """Refuse a device of more than `MOST_LEVELS` frequency levels.

    Raises
    ------
    PlatformError
        Naming the first.
    """
    counts = Counter(device.level_of for device in devices if device.level_of is not None)
    for name, count in counts.items():
        if count > MOST_LEVELS:
            raise PlatformError(
                f"device {quote(name)} has {count} frequency levels; expected at most {MOST_LEVELS}"
            )


def _check_boards(devices: tuple[Device, ...]) -> None:
    """Refuse what a device that is reached by RPC cannot be."""
    owners: dict[str, str] = {}
    for device in devices:
        if device.rpc is None:
            continue
        board = f"device {quote(device.name)} is reached by RPC"
        if device.target is None:
            raise PlatformError(
                f"{board}, but nothing says what to compile for it; give it a target such as "
                "{kind: llvm, mtriple: aarch64-linux-gnu, mcpu: cortex-a72}"
            )
        if device.cores:
            raise PlatformError(
                f"{board}: its cores are not this machine's; leave 'cores' out, and say "
                "num-cores in its target"
            )
        if device.overlap or device.private:
            raise PlatformError(
                f"{board}: it has a memory of its own anyway, and is busy while tensors are moved; "
                "leave 'private' and 'overlap' out"
            )
        if device.rpc.server is not None:
            other = owners.setdefault(device.rpc.server, device.name)
            if other != device.name:
                server = printable(device.rpc.text)
                raise PlatformError(
                    f"devices {quote(other)} and {quote(device.name)} are one {server}, "
                    "which has one client at a time; start a server for each, or use a tracker"
                )
