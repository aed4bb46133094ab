"""What a measured time belongs to: which kernel, where, how."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tvm_hetero.cost_models.store.database import KernelKey, MeasuringPlace
from tvm_hetero.devices.target import CPU, device_target, dl_device
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.host import available_cores, read_processor
from tvm_hetero.platform.model import Platform

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

# Part of every key: raise it when the way of measuring changes, so that old times are not used.
METHOD = "profiled/3"
# Of what is no CPU: its kernels have been compared with a CPU's.
_COMPARED = "compared"


def kernel_key(func: PrimFunc, cold: Iterable[int] = ()) -> KernelKey:
    """What a function is found by: its structural hash and its text in full.

    The name under which it was compiled is no part of it, nor what only says how it came about
    (its rule, its implementation); which parameters are thrown out of the caches is, since the
    time depends on it.
    """
    import tvm_ffi

    from tvm_hetero.kernels.tir.implementation_attr import without_implementation
    from tvm_hetero.kernels.tir.memo import kernel_text

    bare = without_implementation(func.without_attr("global_symbol"))
    text = f"# cold: {sorted(cold)}\n{kernel_text(bare)}"
    return KernelKey(f"{tvm_ffi.structural_hash(bare) & (2**64 - 1):016x}", text)


def place_of(platform: Platform, device: Device) -> MeasuringPlace:
    """Everything beside the kernel that its time on `device` depends on."""
    import tvm

    kind, number = dl_device(platform, device)
    processor = read_processor().identity
    if device.rpc is not None:
        # Never an entry of this machine's, even where the server is on this machine.
        processor = f"{device.kind} of {device.rpc.text}, weights warm"
    elif kind != CPU:
        processor = f"{tvm.device(device.kind, number).device_name} in {processor}"
    return MeasuringPlace(
        target=str(device_target(device)),
        versions=f"{METHOD if kind == CPU else f'{METHOD}, {_COMPARED}'}, tvm {tvm.__version__}",
        processor=processor,
        cores=worker_cores(device),
    )


def worker_cores(device: Device) -> tuple[int, ...]:
    """The cores that a device's kernels are measured on.

    A CPU device that names none is measured on the first ones that this process may use; the
    host side of a GPU may use them all, and that of a board, which is measured by its own clock.
    """
    if device.rpc is not None:
        return ()
    if device.cores:
        return device.cores
    here = tuple(sorted(available_cores()))
    if device.kind != "llvm":
        return here
    return here[: int(device_target(device).attrs.get("num-cores", 1))]
