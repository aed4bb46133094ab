"""From a platform's device to what TVM calls it: a target, and the device's type and number."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tvm_hetero.errors import PlatformError, ProfileError
from tvm_hetero.platform.devices import HOST_KINDS as HOST_KINDS
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.discovery import native_mcpu
from tvm_hetero.platform.frequency_levels import refuse_levels
from tvm_hetero.platform.host import available_cores, read_processor
from tvm_hetero.platform.model import Platform
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm.target import Target

CPU = 1  # DLPack's kDLCPU
_TILES = "amx-bf16"


def device_target(device: Device) -> Target:
    """The TVM target that a device's kernels are scheduled and compiled for.

    A CPU device whose target does not say ``num-cores`` gets the number of its cores, because
    that is what decides whether a kernel is divided over threads. A board's kernels do without
    tile registers: no one there has asked its system for them (`platform.amx_permission`).

    Raises
    ------
    PlatformError
        If the device has no target, or one that TVM does not know.
    """
    from tvm.target import Target

    if device.target is None:
        raise PlatformError(
            f"device {device.name!r} has no target; add one such as {{kind: llvm, mcpu: x86-64-v3}}"
        )
    fields = dict(device.target)
    if fields["kind"] == "llvm":
        fields.setdefault("num-cores", max(1, len(device.cores)))
        if "mcpu" in fields:
            _check_mcpu(device.name, str(fields["mcpu"]), str(fields.get("mtriple", "")))
    try:
        target = Target(fields)
        if device.rpc is not None and _has_tiles(target):
            target = Target({**fields, "mattr": [*fields.get("mattr", ()), f"-{_TILES}"]})
        if target.get_target_device_type() != CPU and "host" not in fields:
            target = target.with_host(Target({"kind": "llvm"}))
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise PlatformError(
            f"device {device.name!r}: TVM refuses the target {quote(fields, 300)}: "
            f"{printable(reason, 300)}; expected such as "
            "{kind: llvm, mcpu: znver4} or {kind: cuda, arch: sm_90} (docs/formats.md)"
        ) from None
    return target


def _has_tiles(target: Target) -> bool:
    from tvm.target import codegen

    return target.kind.name == "llvm" and bool(codegen.target_has_features(_TILES, target))


@cache
def _check_mcpu(device: str, mcpu: str, triple: str) -> None:
    """Refuse a CPU that LLVM does not know; TVM would compile for a generic one instead."""
    from tvm.target import Target, codegen

    if codegen.llvm_is_valid_cpu(mcpu, triple or codegen.llvm_get_system_triple()):
        return
    host = {"kind": "llvm", **({"mtriple": triple} if triple else {})}
    known = [str(name) for name in codegen.llvm_get_cpu_archlist(Target(host))]
    raise PlatformError(
        f"device {device!r}: LLVM knows no CPU {mcpu!r} (mcpu of its target){nearest(mcpu, known)}"
    )


def dl_device(platform: Platform, device: Device) -> tuple[int, int]:
    """Type and number of a device as DLPack counts them.

    Every CPU device in main memory is number 0: TVM refuses a tensor of cpu(1) where it expects
    cpu(0), and pinning is the worker thread's matter. That very refusal keeps the memories of
    private CPU devices apart: the n-th is 1 + n. The n-th device of another kind on its node is n.

    Of a board that is reached by RPC this is the memory, on this side, that tensors are left in for
    it and by it: private, whatever the board computes in.
    """
    kind = CPU if device.rpc is not None else _device_type(device)
    if kind == CPU:
        own = [d.name for d in platform.devices if d.private or d.rpc is not None]
        return kind, 1 + own.index(device.name) if device.name in own else 0
    alike = [
        d.name
        for d in platform.devices
        if (d.node, d.kind, d.rpc) == (device.node, device.kind, None)
    ]
    return kind, alike.index(device.name)


def remote_device(device: Device) -> tuple[int, int]:
    """Type and number of the device that a board computes on, as the board counts them."""
    return _device_type(device), 0


def _device_type(device: Device) -> int:
    return int(device_target(device).get_target_device_type())


def require_present(platform: Platform, device: Device) -> None:
    """Refuse to measure on a device that this machine lacks. (A board that is reached by RPC is
    elsewhere: whether it is there turns out when it is called.)

    Raises
    ------
    ProfileError
        If its cores may not be used by this process, or TVM finds no such device.
    PlatformError
        If it is a frequency level, which nothing here sets.
    """
    refuse_levels([device])
    if device.rpc is not None:
        return
    advice = 'use cost_model="analytical" for a device that is not here'
    missing = sorted(set(device.cores) - available_cores())
    if missing:
        raise ProfileError(
            f"device {device.name!r} has cores {list(device.cores)}, but this process may only "
            f"use {sorted(available_cores())}; correct the platform, or {advice}"
        )
    kind, number = dl_device(platform, device)
    if kind != CPU:
        import tvm

        if not tvm.device(device.kind, number).exist:
            raise ProfileError(
                f"device {device.name!r}: this machine has no {device.kind} device number "
                f"{number} that TVM can reach; {advice}"
            )


def own_mcpu() -> str:
    """The ``mcpu`` of this machine: what we detect, or what LLVM finds."""
    from tvm.target import codegen

    return native_mcpu(read_processor()) or str(codegen.llvm_get_system_cpu())
