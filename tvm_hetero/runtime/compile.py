"""Build an annotated module: split it, compile a library for each device, gather the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tvm

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.passes.annotate_devices import annotate_devices, problem_and_schedule
from tvm_hetero.passes.split_segments import Split, split_segments
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.runtime.executable import PARTITION, SINGLE, Executable, Variant
from tvm_hetero.runtime.kernel_cache import compile_module
from tvm_hetero.runtime.plan import make_plan, tasks_of_steps
from tvm_hetero.schedule import Schedule
from tvm_hetero.solvers import solve
from tvm_hetero.targets import device_target

# Attribute of `main`: where the model came from, as JSON text. Set by a front end.
SOURCE = "hetero_source"


def build(mod: tvm.IRModule, *, single: bool = True) -> Executable:
    """Compile an annotated module.

    Parameters
    ----------
    mod : what ``HeteroPartition()`` returns.
    single : whether to build the best single device beside it (see `Executable`).

    Raises
    ------
    UsageError
        If the module is not annotated.
    ArtifactError
        If a device's module does not compile.
    """
    problem, schedule = problem_and_schedule(mod)
    split = split_segments(mod)
    variants = {PARTITION: _build_variant(split, problem.platform)}
    if single:
        other = _single_device_module(mod, problem, schedule)
        if other is not None:
            variants[SINGLE] = _build_variant(split_segments(other), problem.platform)
    return Executable(
        problem=problem,
        schedule=schedule,
        variants=variants,
        weights=dict(split.constants),
        source=_source(mod),
    )


def _build_variant(split: Split, platform: Platform) -> Variant:
    plan = make_plan(split, platform)
    libraries = {}
    for device, module in split.modules.items():
        row = platform.devices[device]
        libraries[row.name] = compile_module(module, device_target(row))
    return Variant(plan, tuple(tuple(t) for t in tasks_of_steps(split, plan)), libraries)


def _single_device_module(
    mod: tvm.IRModule, problem: Problem, schedule: Schedule
) -> tvm.IRModule | None:
    """The module on the best single device; None if there is none or it is `mod` already."""
    try:
        alone = solve(problem, "single")
    except InfeasibleError:
        return None
    if alone.placement == schedule.placement:
        return None
    return annotate_devices(mod, problem, alone)


def _source(mod: tvm.IRModule) -> Mapping[str, Any]:
    attrs = mod["main"].attrs
    text = attrs.get(SOURCE) if attrs else None
    return dict(json.loads(str(text))) if text else {}
