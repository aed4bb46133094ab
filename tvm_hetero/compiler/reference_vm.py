"""Run an annotated module on TVM's own virtual machine: the reference for our executor.

TVM's VM runs one operator at a time whatever the devices say. Three limits of the stock compiler
(TVM 0.27) stand in the way even of that, and are gone around here:

1. All CPU functions are built for one target. Here each target's kernels are built by themselves
   and linked into one executable.
2. ``StaticPlanBlockMemory`` shares storage between devices. The pipeline here does without it.
3. Constants all go to the first device. Those of other devices are made parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import vm_build

from tvm_hetero.compiler.kernel_objects import OPT_LEVEL
from tvm_hetero.devices.target import device_target, dl_device
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.passes.annotate_devices import lift_constants
from tvm_hetero.passes.attributes import DEVICE
from tvm_hetero.passes.emit_views import device_position
from tvm_hetero.passes.placed_model import problem_and_schedule
from tvm_hetero.platform.model import Platform


class ReferenceVM:
    """An annotated module, compiled for TVM's VM.

    Raises
    ------
    UsageError
        If the module is not annotated.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        problem, _ = problem_and_schedule(mod)
        lifted, weights = lift_constants(mod)
        vdevices = list(lifted.global_infos["vdevice"])
        devices = [
            tvm.runtime.Device(dl_device(problem.platform, device)[0], vdevice.vdevice_id)
            for device, vdevice in zip(problem.platform.devices, vdevices, strict=True)
        ]
        params = lifted["main"].params[: len(mod["main"].params)]
        self._homes = [devices[device_position(p.ty, vdevices)] for p in params]
        self._weights = [tvm.runtime.tensor(t.numpy(), devices[d]) for (t, d) in weights]
        executable = _compile(lifted, problem.platform)
        self._vm = relax.VirtualMachine(executable, devices)

    def run(self, *inputs: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """Run once, with arrays in the order of ``main``'s parameters; returns its results.

        Those of a batch are one element's after the other's.
        """
        placed = [
            tvm.runtime.tensor(value, device)
            for value, device in zip(inputs, self._homes, strict=True)
        ]
        result = self._vm["main"](*placed, *self._weights)
        outputs = [result] if hasattr(result, "numpy") else list(result)
        return [output.numpy() for output in outputs]


def _pipeline() -> tvm.transform.Pass:
    """TVM's default pipeline without ``StaticPlanBlockMemory`` (limit 2)."""
    steps = relax.transform
    return tvm.transform.Sequential(
        [
            steps.LegalizeOps(),
            steps.RewriteDataflowReshape(),
            steps.ToNonDataflow(),
            steps.RemovePurityChecking(),
            steps.CallTIRRewrite(),
            steps.LowerAllocTensor(),
            steps.KillAfterLastUse(),
            steps.LowerRuntimeBuiltin(),
            steps.ComputePrimValue(),
            steps.VMShapeLower(),
            steps.AttachGlobalSymbol(),
        ]
    )


def _compile(mod: tvm.IRModule, platform: Platform) -> Any:
    """Compile with one library a device (limit 1), through the compiler's inner steps."""
    targets = {d.name: device_target(d) for d in platform.devices}
    host = next((t for t in targets.values() if t.kind.name == "llvm"), None)
    for gvar, func in list(mod.functions.items()):
        if isinstance(func, tvm.tirx.PrimFunc):
            target = targets[str(func.attrs[DEVICE])]
            mod[gvar] = schedule_kernel(func, target).with_attr("target", target)
    builder = relax.ExecBuilder()
    with host or tvm.target.Target("llvm"), tvm.transform.PassContext(opt_level=OPT_LEVEL):
        mod = _pipeline()(mod)
        constants = dict(dict(mod.attrs or {}).get("const_name_to_constant", {}))
        tir = vm_build._filter_tir(vm_build._vmcodegen(builder, mod, "bytecode"))
        libraries = [
            build(tvm.IRModule(functions, attrs=tir.attrs), target)
            for target, functions in _by_device(tir, targets, host)
        ]
    linked = vm_build._ffi_api.VMLink(builder, host, libraries[0], libraries[1:], constants)
    return vm_build.VMExecutable(linked)


def _by_device(
    tir: tvm.IRModule, targets: dict[str, Any], host: Any
) -> list[tuple[Any, dict[Any, Any]]]:
    """The functions of each device, those of none (VM helpers) with the first group."""
    groups: dict[str, dict[Any, Any]] = {}
    common: dict[Any, Any] = {}
    for gvar, func in tir.functions.items():
        device = str(func.attrs.get(DEVICE, "")) if func.attrs else ""
        (groups.setdefault(device, {}) if device else common)[gvar] = func
    result = [(targets[device], functions) for device, functions in groups.items()]
    if common:
        result.insert(0, (host, common))
    return result
