"""Build an annotated module: split it, compile a library for each device, gather the weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import tvm

from tvm_hetero.choices import Choice
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.kernels.implementations import implementation_of
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.annotate_devices import KERNEL, annotate_devices, problem_and_schedule
from tvm_hetero.passes.kernel_choices import choices_of
from tvm_hetero.passes.split_segments import Split, split_segments
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.runtime.executable import PARTITION, SINGLE, Executable, Variant
from tvm_hetero.runtime.kernel_cache import compile_module, schedule_kernels
from tvm_hetero.runtime.plan import make_plan, tasks_of_steps
from tvm_hetero.schedule import Schedule
from tvm_hetero.solvers import solve
from tvm_hetero.targets import device_target

# Attribute of `main`: where the model came from, as JSON text. Set by a front end.
SOURCE = "hetero_source"
# Of each kernel (by name) on each device, as far as is known.
Choices = dict[tuple[str, str], Choice]


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
    choices = {(choice.kernel, choice.device): choice for choice in choices_of(mod)}
    variants = {PARTITION: _build_variant(split, problem.platform, choices)}
    if single:
        other = _single_device_module(mod, problem, schedule)
        if other is not None:
            variants[SINGLE] = _build_variant(split_segments(other), problem.platform, choices)
    return Executable(
        problem=problem,
        schedule=schedule,
        variants=variants,
        weights=dict(split.constants),
        source=_source(mod),
        choices=tuple(choices.values()),
    )


def _build_variant(split: Split, platform: Platform, choices: Choices) -> Variant:
    """Compile a variant; kernels of which `choices` says nothing are added to it."""
    plan = make_plan(split, platform)
    libraries = {}
    for device, module in split.modules.items():
        row = platform.devices[device]
        scheduled = schedule_kernels(module, device_target(row))
        libraries[row.name] = compile_module(scheduled, device_target(row))
        for choice in _built(module, scheduled, row.name):
            choices.setdefault((choice.kernel, choice.device), choice)
    return Variant(plan, tuple(tuple(t) for t in tasks_of_steps(split, plan)), libraries)


def _built(module: tvm.IRModule, scheduled: tvm.IRModule, device: str) -> Iterator[Choice]:
    """What a device's kernels are computed by, where costs came from elsewhere than profiling."""
    for gvar, func in scheduled.functions.items():
        if isinstance(func, tvm.tirx.PrimFunc):
            how = implementation_of(module[gvar.name_hint])
            yield Choice(str(func.attrs[KERNEL]), device, rule_of(func), how)


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
