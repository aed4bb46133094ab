"""Build an annotated module: plans, a library for each device that they use, and the weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tvm

from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable, Variant
from tvm_hetero.compiler.kernel_cache import Scheduled, begin_library, schedule_kernels
from tvm_hetero.compiler.make_plan import make_plan
from tvm_hetero.compiler.module_text import module_text
from tvm_hetero.compiler.parallel_compile import Compiler
from tvm_hetero.devices.target import device_target
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.batched import batch_of_kernel
from tvm_hetero.kernels.tir.implementation_attr import implementation_of
from tvm_hetero.passes.annotate_devices import place_tasks, strip_devices
from tvm_hetero.passes.attributes import ESTIMATED, SOURCE
from tvm_hetero.passes.branch_probabilities import probabilities_of
from tvm_hetero.passes.kernel_choices import choices_of
from tvm_hetero.passes.kernel_symbols import kernel_name, network_kernels
from tvm_hetero.passes.placed_model import PlacedModel
from tvm_hetero.passes.precision_promise import promise_of
from tvm_hetero.passes.split_segments import Split, split_segments
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.equivalent_devices import equivalence_classes
from tvm_hetero.problem.implementation_choice import Choice
from tvm_hetero.problem.model import Problem
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.lists.best_single import best_single
from tvm_hetero.util.tvm_state import one_thread

# Of each kernel (by name) on each device, as far as is known.
Choices = dict[tuple[str, str], Choice]


@dataclass
class Network:
    """A network that is built in parts: a lowered module and its problem.

    `scheduled` are its kernels as far as they have been scheduled, by target and symbol.
    """

    module: tvm.IRModule
    problem: Problem
    scheduled: dict[str, Scheduled] = field(default_factory=dict)


@one_thread
def build(
    mod: tvm.IRModule | PlacedModel,
    *,
    single: bool = True,
    network: Network | None = None,
    adaptable: bool = False,
    tell: Callable[[int, int], None] | None = None,
) -> Executable:
    """Compile an annotated module, or a placed model.

    Parameters
    ----------
    mod : what ``HeteroPartition()`` returns.
    single : whether to build the best single device beside it (see `Executable`). If not, the
        libraries hold what this placement calls and no more, which is compiled sooner.
    network : of what `mod` is a part (`tvm_hetero.cluster.parts.parts`). The libraries hold all of
        its kernels, so that its other parts find them compiled.
    adaptable : whether other plans are to be made of it while it runs: kernels are compiled for all
        devices, and the module is kept.
    tell : hears, in any thread, how many kernels are compiled, of how many that are begun; of those
        that are found compiled it hears nothing.

    Raises
    ------
    UsageError
        If the module is not annotated.
    PlatformError
        If two devices share a core and the platform does not ask for it.
    ArtifactError
        If a device's kernels do not compile.
    """
    model = PlacedModel.of(mod)
    problem, platform = model.problem, model.problem.platform
    splits = {PARTITION: split_segments(model)}
    estimated = _estimated(model.placed)
    again = adaptable or _several_nodes(platform) or estimated is not None
    lowered = strip_devices(model.placed) if single or again else None
    other = _on_best_device(lowered, model) if single and lowered is not None else None
    if other is not None:
        splits[SINGLE] = split_segments(other)
    equal = equivalence_classes(problem)
    plans = {name: make_plan(split, platform, equal) for name, split in splits.items()}
    if network is None and (single or adaptable):
        network = Network(lowered, problem)
    kernels = _kernels(network, platform, splits.values())
    used = set(kernels)
    if adaptable and network is not None:
        kernels |= _unused_kernels(network, platform, used)
    choices = {(choice.kernel, choice.device): choice for choice in choices_of(model.placed)}
    known = {} if network is None else network.scheduled
    libraries = _libraries(kernels, platform, choices, known, tell)
    return Executable(
        problem=problem,
        schedule=model.schedule,
        variants={
            name: Variant(plans[name], {row: libraries[row] for row in _devices(split, problem)})
            for name, split in splits.items()
        },
        weights=dict(splits[PARTITION].constants),
        source=_source(model.placed),
        choices=tuple(choices.values()),
        module=module_text(lowered) if again else None,
        estimated=estimated,
        probabilities=probabilities_of(model.placed),
        precision=promise_of(model.placed),
        spare={name: path for name, path in libraries.items() if name not in used},
    )


def _several_nodes(platform: Platform) -> bool:
    return len({device.node for device in platform.devices}) > 1


def _devices(split: Split, problem: Problem) -> list[str]:
    """The devices that compute."""
    return [problem.platform.names[device] for device in split.modules]


def _kernels(
    network: Network | None, platform: Platform, splits: Iterable[Split]
) -> dict[str, dict[str, tvm.tirx.PrimFunc]]:
    """For each device that computes the kernels that are called there, and all others of the
    network that it can run, if that is given (see `tvm_hetero.compiler.kernel_cache`).
    """
    kernels: dict[str, dict[str, tvm.tirx.PrimFunc]] = {}
    for split in splits:
        for number, module in split.modules.items():
            device = platform.devices[number]
            if device.name not in kernels:
                kernels[device.name] = {}
                if network is not None:
                    costs = _costs(network.problem, device.name)
                    kernels[device.name] = network_kernels(network.module, device, costs)
            # Those that are called have the last word: a placed module says by itself how its
            # kernels are computed, whatever the store has learnt since.
            called = {g.name_hint: func for g, func in module.functions.items()}
            kernels[device.name] |= called
    return kernels


def _unused_kernels(
    network: Network, platform: Platform, used: Collection[str]
) -> dict[str, dict[str, tvm.tirx.PrimFunc]]:
    """The network's kernels for each device that it does not compute on; boards have none."""
    return {
        device.name: network_kernels(network.module, device, costs)
        for device in platform.devices
        if device.name not in used and device.rpc is None
        if (costs := _costs(network.problem, device.name))
    }


def _costs(problem: Problem, device: str) -> dict[str, Cost]:
    """The cost of each task that a device can run, without sizes that no batch is of."""
    own = {task: row[device] for task, row in problem.costs.items() if device in row}
    return {
        task: replace(cost, sizes=tuple(n for n in cost.sizes if n <= problem.batch))
        for task, cost in own.items()
    }


def _libraries(
    kernels: Mapping[str, Mapping[str, tvm.tirx.PrimFunc]],
    platform: Platform,
    choices: Choices,
    known: dict[str, Scheduled],
    tell: Callable[[int, int], None] | None,
) -> dict[str, Path]:
    """Compile what each device needs; kernels of which `choices` says nothing are added to it.

    While one device's kernels are compiled, the next one's are scheduled.
    """
    libraries = {}
    with Compiler(tell) as compiler:
        for name, functions in kernels.items():
            target = device_target(platform.device(name))
            scheduled = schedule_kernels(functions, target, known.setdefault(str(target), {}))
            libraries[name] = begin_library(compiler, scheduled, target)
            for symbol, func in functions.items():
                if batch_of_kernel(func) > 1:
                    continue  # its kernel of one element speaks for it
                kernel = kernel_name(symbol, func)
                choice = Choice(kernel, name, rule_of(scheduled[symbol]), implementation_of(func))
                choices.setdefault((kernel, name), choice)
        compiler.finish()
    return libraries


def _on_best_device(lowered: tvm.IRModule, model: PlacedModel) -> PlacedModel | None:
    """The model on the best single device; None if there is none or it is there already."""
    # Not `solve`, which proves a bound beside the answer: seconds that no one asked for here.
    alone = best_single(model.problem, Options())
    if alone is None or alone.placement == model.schedule.placement:
        return None
    return place_tasks(lowered, model.problem, alone)


def _estimated(mod: tvm.IRModule) -> str | None:
    """The cost model whose estimates the costs are, if they are estimates."""
    name = mod.attrs.get(ESTIMATED) if mod.attrs is not None else None
    return None if name is None else str(name)


def _source(mod: tvm.IRModule) -> Mapping[str, Any]:
    attrs = mod["main"].attrs
    text = attrs.get(SOURCE) if attrs else None
    return dict(json.loads(str(text))) if text else {}
