"""Names of kernels in a device's library.

A library holds kernels of one network, each in the way in which its device computes it. A kernel
may be computed in several ways (its tasks' costs may be those of different implementations), so
its symbol is its name in the lowered module and, where that is not its rule, the implementation;
for one that computes n elements at once ``__xn`` and the positions of its weights.

Placements come and go, symbols stay: all plans of a network find their kernels in one library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.tir.batched import batch_of_kernel, shared_of
from tvm_hetero.kernels.tir.implementation_attr import RULE, implementation_of
from tvm_hetero.passes.annotate_devices import strip_devices
from tvm_hetero.passes.attributes import DEVICE, KERNEL
from tvm_hetero.passes.kernel_choices import implemented
from tvm_hetero.passes.lowered_main import LoweredMain, read_main
from tvm_hetero.passes.placed_model import is_annotated
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.cost import Cost

if TYPE_CHECKING:
    import tvm


def kernel_symbol(func: tvm.tirx.PrimFunc) -> str:
    """The symbol of a kernel of an annotated module."""
    return _symbol(str(func.attrs[KERNEL]), func)


def kernel_name(symbol: str, func: tvm.tirx.PrimFunc) -> str:
    """The name in the lowered module of the kernel that has this symbol."""
    return symbol.removesuffix(_suffix(func))


def plain_kernel(func: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """A kernel of an annotated module without the device that it was placed on."""
    for name in (KERNEL, DEVICE, "target"):
        func = func.without_attr(name)
    return func


def network_kernels(
    mod: tvm.IRModule, device: Device, costs: Mapping[str, Cost]
) -> dict[str, tvm.tirx.PrimFunc]:
    """All kernels of a network that a device can run, by symbol; unscheduled.

    Parameters
    ----------
    mod : a lowered module, placed or not.
    device : where they are to run.
    costs : of each task that the device can run: they say how, and for how many elements at once.

    Raises
    ------
    ModelError
        If the names of two kernels make one symbol.
    """
    mod = strip_devices(mod) if is_annotated(mod) else mod
    names: dict[str, str] = {}
    kernels: dict[str, tvm.tirx.PrimFunc] = {}
    for kernel in _wanted(read_main(mod), costs):
        name, how = kernel.gvar.name_hint, (kernel.implementation, kernel.size, kernel.shared)
        func = implemented(mod, mod[kernel.gvar], name, device, *how)
        symbol = _symbol(name, func)
        if names.setdefault(symbol, name) != name:
            raise ModelError(
                f"kernels {names[symbol]!r} and {name!r} both are {symbol!r} in a library; "
                "rename one of them"
            )
        kernels[symbol] = func
    return kernels


@dataclass(frozen=True)
class _Wanted:
    """A kernel of the lowered module, and how it is to be computed for how many elements."""

    gvar: tvm.ir.GlobalVar
    implementation: str
    size: int = 1
    shared: tuple[int, ...] = ()


def _wanted(main: LoweredMain, costs: Mapping[str, Cost]) -> list[_Wanted]:
    """The kernels that the costs are those of, each once."""
    found: dict[tuple[str, str, int, tuple[int, ...]], _Wanted] = {}
    for call, task in zip(main.calls, main.task_ids, strict=True):
        if task not in costs:
            continue
        kernels = [_Wanted(call.kernel, costs[task].implementation)]
        kernels += [_Wanted(call.kernel, RULE, n, main.shared(call)) for n in costs[task].sizes[1:]]
        for each in kernels:
            key = (call.kernel.name_hint, each.implementation, each.size, each.shared)
            found.setdefault(key, each)
    return list(found.values())


def _symbol(kernel: str, func: tvm.tirx.PrimFunc) -> str:
    return kernel + _suffix(func)


def _suffix(func: tvm.tirx.PrimFunc) -> str:
    """What a kernel's symbol has behind its name: how it is computed, for how many elements."""
    count = batch_of_kernel(func)
    if count > 1:
        return f"__x{count}" + "".join(f"_{position}" for position in shared_of(func))
    implementation = implementation_of(func)
    return "" if implementation == RULE else f"__{implementation}"
