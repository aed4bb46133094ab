"""Names of kernels in a device's library.

A library holds kernels of one network, each in the way in which its device computes it. A kernel
may be computed in several ways (its tasks' costs may be those of different implementations), so
its symbol is its name in the lowered module and, where that is not its rule, the implementation.
Placements come and go, symbols stay: all plans of a network find their kernels in one library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.implementations import RULE, implementation_of
from tvm_hetero.passes.annotate_devices import DEVICE, KERNEL, is_annotated, strip_devices
from tvm_hetero.passes.dataflow import read_main
from tvm_hetero.passes.kernel_choices import implemented
from tvm_hetero.platform import Device

if TYPE_CHECKING:
    import tvm


def kernel_symbol(func: tvm.tirx.PrimFunc) -> str:
    """The symbol of a kernel of an annotated module."""
    return _symbol(str(func.attrs[KERNEL]), implementation_of(func))


def kernel_name(symbol: str, implementation: str) -> str:
    """The name in the lowered module of the kernel that has this symbol."""
    return symbol if implementation == RULE else symbol.removesuffix(f"__{implementation}")


def plain_kernel(func: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """A kernel of an annotated module without the device that it was placed on."""
    for name in (KERNEL, DEVICE, "target"):
        func = func.without_attr(name)
    return func


def network_kernels(
    mod: tvm.IRModule, device: Device, implementations: Mapping[str, str]
) -> dict[str, tvm.tirx.PrimFunc]:
    """All kernels of a network that a device can run, by symbol; unscheduled.

    Parameters
    ----------
    mod : a lowered module, placed or not.
    device : where they are to run.
    implementations : for each task that the device can run, how (``cost.implementation``).

    Raises
    ------
    ModelError
        If the names of two kernels make one symbol.
    """
    mod = strip_devices(mod) if is_annotated(mod) else mod
    main = read_main(mod)
    found: dict[str, tuple[str, str]] = {}
    kernels: dict[str, tvm.tirx.PrimFunc] = {}
    for call, task in zip(main.calls, main.task_ids, strict=True):
        if task not in implementations:
            continue
        name, wanted = call.kernel.name_hint, implementations[task]
        if (name, wanted) in found.values():
            continue
        func = implemented(mod, mod[call.kernel], name, device, wanted)
        symbol = _symbol(name, implementation_of(func))
        if found.setdefault(symbol, (name, wanted))[0] != name:
            raise ModelError(
                f"kernels {found[symbol][0]!r} and {name!r} both are {symbol!r} in a library; "
                "rename one of them"
            )
        kernels[symbol] = func
    return kernels


def _symbol(kernel: str, implementation: str) -> str:
    return kernel if implementation == RULE else f"{kernel}__{implementation}"
