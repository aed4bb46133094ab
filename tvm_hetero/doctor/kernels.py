"""Of TVM and the compiler: whether kernels can be built here, and which instructions they use."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tvm_hetero.doctor.finding import Finding
from tvm_hetero.errors import HeteroError
from tvm_hetero.platform.host import Machine

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

_AGAIN = "install it again: pip install 'apache-tvm==0.27.*'"


def examine_kernels(machine: Machine) -> Iterator[Finding]:
    """What is found of TVM, the executor, the compiler, vector units and GPUs.

    Where TVM cannot be imported nothing else is looked for, since all of it needs TVM; schedules
    (``tvm-hetero schedule``, ``check``, ``plan``, ``simulate``) do not.
    """
    try:
        import tvm
    except Exception as error:  # whatever a broken installation raises
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        yield Finding("TVM", f"cannot be imported: {reason}", _AGAIN, is_fault=True)
        return
    yield Finding("TVM", str(tvm.__version__))
    yield _executor()
    yield _compiler()
    yield Finding("kernels", describe_unit(_own_unit()))
    yield _gpus(machine)


def _executor() -> Finding:
    from tvm_hetero.executor.native import load_library

    try:
        load_library()
    except HeteroError as error:
        return Finding("executor", "its library does not load", str(error), is_fault=True)
    return Finding("executor", "its library loads")


def _compiler() -> Finding:
    from tvm_hetero.compiler.linking import own_compiler

    try:
        return Finding("compiler", own_compiler())
    except HeteroError as error:
        return Finding("compiler", "none", str(error), is_fault=True)


def _own_unit() -> VectorUnit:
    from tvm.target import Target

    from tvm_hetero.devices.target import own_mcpu
    from tvm_hetero.kernels.cpu.vector_unit import vector_unit

    return vector_unit(Target({"kind": "llvm", "mcpu": own_mcpu()}))


def describe_unit(unit: VectorUnit) -> str:
    """Which kernels use which instructions of a core, in a phrase."""
    parts = [f"vectors of {unit.bits} bits in all"]
    if unit.dots:
        parts.append("dot products of bfloat16 in products of bfloat16")
    if unit.bytes:
        parts.append("dot products of bytes (VNNI) in quantized ones")
    elif unit.pairs:
        parts.append("products of pairs of 16 bits in quantized ones")
    if unit.amx:
        parts.append("tile registers (AMX) in products of bfloat16 and of bytes")
    return "; ".join(parts)


def _gpus(machine: Machine) -> Finding:
    import tvm

    if not machine.gpus:
        return Finding("GPUs", "none that nvidia-smi shows")
    found = ", ".join(f"{gpu.name} ({gpu.arch})" for gpu in machine.gpus)
    if tvm.runtime.enabled("cuda"):
        return _compiled_for(found)
    return Finding(
        "GPUs",
        f"{found}, unused",
        "this TVM is built without CUDA: install one that has it, or leave GPUs out with a "
        "platform file (tvm-hetero devices -o P.yaml)",
    )


def _compiled_for(gpus: str) -> Finding:
    if shutil.which("nvcc") is not None:
        return Finding("GPUs", gpus)
    return Finding(
        "GPUs",
        f"{gpus}, unused: no nvcc",
        "install CUDA's toolkit, or add its folder bin to the PATH: kernels are compiled by nvcc",
    )
