"""All that the doctor looks at, in the order in which it is told.

    cores         processor, hardware threads, SMT, kinds, caches, quota, clock   `cores`
    memory        size and limits, huge pages                                     `memory`
    kernels       TVM, the executor, the compiler, instructions, GPUs             `kernels`
    folders       the cache, temporary files                                      `folders`
    packages      versions, extras                                                `packages`

Nothing is measured, and nothing is changed but that the cache's folder is made if it is not there.
What the other verbs decide by is read by the same functions, so that this says what they see.
"""

from __future__ import annotations

from tvm_hetero.doctor.cores import examine_cores
from tvm_hetero.doctor.finding import Finding
from tvm_hetero.doctor.folders import examine_folders
from tvm_hetero.doctor.kernels import examine_kernels
from tvm_hetero.doctor.memory import examine_memory
from tvm_hetero.doctor.packages import examine_packages
from tvm_hetero.platform.host import read_machine


def examine() -> tuple[Finding, ...]:
    """What is found on this machine."""
    machine = read_machine()
    return (
        *examine_packages(),
        *examine_cores(machine),
        *examine_memory(machine),
        *examine_kernels(machine),
        *examine_folders(),
    )
