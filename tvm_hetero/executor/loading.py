"""What an executor has to be given before its first run: kernels that fit the CPU, and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_hetero.errors import ArtifactError, PlatformError, RunError
from tvm_hetero.executor.inputs import device_of_slot
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.executor.native import NativeExecutor
from tvm_hetero.executor.native_calls import InterpreterEnds
from tvm_hetero.executor.tensors import copy_lasting
from tvm_hetero.plan.model import Plan, StepKind, weight_name
from tvm_hetero.platform.discovery import missing_features
from tvm_hetero.platform.host import cores_ever_allowed, read_processor
from tvm_hetero.platform.model import Platform
from tvm_hetero.util.quote import quote


def check_processor(platform: Platform, libraries: Iterable[str]) -> None:
    """Refuse libraries with instructions that this CPU lacks: the first one would kill us.

    Raises
    ------
    ArtifactError
        If there is one.
    """
    for name in libraries:
        device = platform.device(name)
        if device.rpc is not None:
            continue  # it is not this CPU that runs them
        target = device.target
        missing = missing_features(target, read_processor())
        if missing:
            raise ArtifactError(
                f"device {name!r} was compiled for {dict(target or {})}; this CPU lacks "
                f"{', '.join(missing[:6])}; build it again here, or for an older mcpu"
            )


def check_cores(plan: Plan) -> None:
    """Refuse to run on cores that were not given to this process (``taskset``): others run there.

    Raises
    ------
    PlatformError
        If a worker is pinned to one.
    """
    given = cores_ever_allowed()
    for worker in plan.workers:
        if not given.issuperset(worker.cores):
            raise PlatformError(
                f"worker {worker.name!r} runs on cores {quote(list(worker.cores))}, but this "
                f"process may only use {quote(sorted(given))}: give it those cores, or partition "
                "the model again for these"
            )


def set_libraries(
    executor: NativeExecutor, libraries: Mapping[str, Path], loaded: dict[Path, Any]
) -> None:
    """Give each worker that runs kernels those of its device.

    Parameters
    ----------
    loaded : libraries that are loaded already; those that are not are added.

    Raises
    ------
    ArtifactError
        If a library is missing or damaged, or lacks a kernel.
    """
    plan = executor.plan
    computing = {step.worker for step in plan.steps if step.kind is StepKind.KERNELS}
    for i in sorted(computing):
        name = plan.workers[i].name
        if name not in libraries:
            raise ArtifactError(f"there is no library of device {name!r}; build the model again")
        path = libraries[name]
        if path not in loaded:
            loaded[path] = load_kernels(path)
        try:
            executor.set_library(i, loaded[path])
        except InterpreterEnds:
            raise
        except RunError as error:
            raise ArtifactError(
                f"the library of device {name!r} is not that of the plan ({error}); build the "
                "model again"
            ) from None


def set_constants(
    executor: NativeExecutor, weights: Mapping[str, Any], placed: dict[tuple[str, str], Any]
) -> None:
    """Put each weight into the memories that need it.

    Parameters
    ----------
    placed : weights by name and memory that are there already; those that are not are added.

    Raises
    ------
    ArtifactError
        If one is missing.
    """
    for i, constant in enumerate(executor.plan.constants):
        name = weight_name(constant.name)
        if name not in weights:
            raise ArtifactError(f"the plan needs a weight {name!r}, which is not there")
        device = device_of_slot(executor.plan, constant.slot)
        key = (name, str(device))
        if key not in placed:
            placed[key] = _in_memory(weights[name], device)
        executor.set_constant(i, placed[key])


def _in_memory(value: Any, device: Any) -> Any:
    if not isinstance(value, np.ndarray) and value.device == device:
        return value
    return copy_lasting(value if isinstance(value, np.ndarray) else value.numpy(), device)
