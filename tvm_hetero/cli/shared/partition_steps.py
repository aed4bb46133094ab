"""A module divided, compiled and judged, step by step, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.util.units import format_seconds

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.artifact.executable import Executable
    from tvm_hetero.cli.shared.console import ConsoleStep, Progress, Steps
    from tvm_hetero.cost_models.protocol import CostModel
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.platform.model import Platform


# The phase of `tvm_hetero.pipeline.steps` that has a limit.
SOLVE = "solve"


def partition_module(
    steps: Steps, module: tvm.IRModule, platform: Platform, how: PartitionOptions
) -> Partition:
    """Steps: lower, measure and solve. Each is printed with the seconds that it took."""
    from tvm_hetero.pipeline.partition import partition

    refuse_without_linker(platform)
    with steps.live("Partition") as live:
        result = partition(module, platform, how, tell_phases(live, how.time_limit))
    names = ", ".join(platform.names)
    tasks = f"{len(result.problem.tasks)} tasks, {result.kernels} distinct kernels on {names}"
    for i, (title, seconds) in enumerate(result.seconds.items()):
        steps.record(title.capitalize(), seconds, tasks if i == 0 else "")
    return result


def quantize_module(
    steps: Steps, module: tvm.IRModule, platform: Platform, how: PartitionOptions, model: CostModel
) -> tvm.IRModule:
    """Step: quantise a model, if that is asked for and was not done yet."""
    from tvm_hetero.passes.precision_promise import promise_of
    from tvm_hetero.problem.precision_promise import INT8

    if how.precision != INT8 or promise_of(module) is not None:
        return module
    from tvm_hetero.pipeline.int8_module import int8_module

    start = time.perf_counter()
    with steps.live("Quantize") as live:
        made = int8_module(module, platform, how, model, live.progress)
    promise = promise_of(made)
    note = promise.reason if promise is not None else ""
    steps.record("Quantize", time.perf_counter() - start, note)
    return made


def tell_phases(live: ConsoleStep, time_limit: float) -> Progress:
    """What long work reports to: `live`, which is told when solving has to end, too."""

    def tell(what: str, done: int, total: int) -> None:
        if what == SOLVE:
            live.begin(what, time_limit)
        else:
            live.progress(what, done, total)

    return tell


def refuse_without_linker(platform: Platform) -> None:
    """Refuse devices whose kernels cannot be linked here, before anything else is done.

    Raises
    ------
    PlatformError
        If a linker is not there.
    """
    from tvm_hetero.compiler.linking import linker_of
    from tvm_hetero.devices.target import device_target

    for device in platform.devices:
        if device.target is not None:
            linker_of(device_target(device))


def compile_artifact(
    steps: Steps, result: Partition, output: Path, *, measure: bool = True
) -> Executable:
    """Steps: compile for each device, decide what runs by default, write the artifact."""
    executable = compile_executable(steps, result, measure=measure)
    save_artifact(steps, executable, output)
    return executable


def save_artifact(steps: Steps, executable: Executable, output: Path) -> None:
    """Step: write the artifact."""
    with steps.step("Save", of=output) as step:
        executable.save(output)
        step.note = str(output)


def compile_executable(steps: Steps, result: Partition, *, measure: bool = True) -> Executable:
    """Steps: compile for each device, decide what runs by default."""
    from tvm_hetero.compiler.build import build

    with steps.step("Compile") as step:
        # A stream may be adapted while it runs (`run --stream --adapt`), and a server gives a model
        # more and fewer cores (`serve`).
        executable = build(result.placed, adaptable=True, tell=step.counter("kernels"))
        step.note = ", ".join(executable.variants)
    # What runs on several nodes does not run here, where it could be measured.
    here = len({device.node for device in result.problem.platform.devices}) == 1
    return decide_default(steps, executable) if measure and here else executable


def decide_default(steps: Steps, executable: Executable) -> Executable:
    """Step: measure the partition and the best single device; the quicker one is the default."""
    from tvm_hetero.artifact.executable import SINGLE
    from tvm_hetero.executor.choose_variant import compare, with_decision
    from tvm_hetero.util.untrusted_names import printable

    neighbours = Neighbours()
    with steps.step("Decide by measuring") as step:
        decision = compare(executable, step.counter("runs"))
        step.note = ", ".join(f"{k} {format_seconds(v)}" for k, v in decision.measured.items())
    colour = "yellow" if decision.chosen == SINGLE else None
    steps.say(printable(decision.text(), limit=None), colour)
    warning = neighbours.warning() if decision.measured else ""
    if warning:
        steps.say(warning, "yellow")
    return with_decision(executable, decision)


def say_kernels(steps: Steps, result: Partition, output: Path) -> None:
    """How the kernels are computed, a line a device; nothing where they were not measured."""
    from tvm_hetero.passes.kernel_choices import choices_of
    from tvm_hetero.report.run.kernels import kernels_summary
    from tvm_hetero.util.untrusted_names import printable

    lines = kernels_summary(choices_of(result.placed.placed), result.problem, result.schedule)
    if lines:
        steps.head("Kernels")
        for line in lines:
            steps.say(printable(line, limit=None))
        steps.say(f"(all of them: tvm-hetero show {printable(output, limit=None)} --kernels)")


def say_probabilities(steps: Steps, probabilities: Mapping[str, float]) -> None:
    """That the plan's value is an expectation, where probabilities were given."""
    from tvm_hetero.report.run.kernels import probabilities_text

    if probabilities:
        steps.say(probabilities_text(probabilities))


def say_precision(steps: Steps, executable: Executable) -> None:
    """Which tasks are not in float32 and what that does; nothing where no one asked for it."""
    from tvm_hetero.report.run.precision import precision_text

    if executable.precision is not None:
        steps.say(precision_text(executable.precision, executable.problem))


def say_estimates(steps: Steps, executable: Executable, output: Path) -> None:
    """That costs are estimates, where they are, and how many kernels were measured."""
    from tvm_hetero.report.run.kernels import estimates_text
    from tvm_hetero.util.untrusted_names import printable

    text = estimates_text(executable.estimated, executable.choices or ())
    if text:
        steps.say(f"{text}; tvm-hetero refine {printable(output, limit=None)} measures", "yellow")


def partition_json(
    result: Partition, executable: Executable, seconds: dict[str, float], output: Path
) -> dict[str, Any]:
    """What ``partition --json`` prints."""
    from tvm_hetero.report.run.precision import precision_json

    schedule = result.schedule
    single = schedule.best_single_device
    return {
        "artifact": str(output),
        "tasks": len(result.problem.tasks),
        "kernels": result.kernels,
        "implementations": _count_implementations(result),
        "objective": {"kind": schedule.kind, "value": schedule.value},
        "lower_bound": schedule.lower_bound,
        "gap": schedule.gap,
        "status": schedule.status,
        "solver": schedule.solver,
        "best_single_device": single and {"device": single.device, "value": single.value},
        "default": executable.default,
        "decision": executable.decision,
        "estimated": executable.estimated,
        "probabilities": dict(executable.probabilities),
        "precision": precision_json(executable.precision),
        "seconds": seconds,
        "placement": {task: list(devices) for task, devices in schedule.placement.items()},
    }


def _count_implementations(result: Partition) -> dict[str, dict[str, int]]:
    """For each device how many kernels are best computed in which way; {} if not measured."""
    from tvm_hetero.passes.kernel_choices import choices_of

    counts: dict[str, dict[str, int]] = {}
    for choice in choices_of(result.placed.placed):
        own = counts.setdefault(choice.device, {})
        own[choice.implementation] = own.get(choice.implementation, 0) + 1
    return counts
