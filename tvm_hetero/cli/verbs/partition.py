"""``tvm-hetero partition``: a model, divided over the devices and compiled for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.cli.shared.source import note_source
from tvm_hetero.cli.verbs.cluster import Where, priced
from tvm_hetero.errors import UsageError
from tvm_hetero.util.units import format_seconds

# Files of these names are Relay modules that an old TVM saved; all others are ONNX models.
RELAY_SUFFIXES = (".json", ".txt", ".relay")

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.artifact.executable import Executable
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.platform.model import Platform


def partition(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX model, a Relay module saved by an old TVM (.json, .txt), or the folder "
            "of a Hugging Face decoder (config.json).",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="NET.hetero", help="The folder to write.")
    ],
    platform: options.PlatformFile = None,
    objective: options.ObjectiveKind = "latency",
    batch: options.Batch = 1,
    solver: options.Solver = "auto",
    time_limit: options.TimeLimit = 60.0,
    gap: options.Gap = 1e-3,
    seed: options.Seed = 0,
    cost_model: options.CostModel = "profiled",
    shape: options.Shapes = None,
    random_weights: options.RandomWeights = None,
    length: Annotated[
        int | None,
        typer.Option(
            "--length", help="Of a decoder: tokens of the longest text. [default: the model's]"
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", help="Of a decoder: tokens of a prefill at once; 1: none."),
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(
            "--groups", help="Of a decoder: groups of --batch sequences, in flight together."
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option("--shards", help="Of a decoder: parts that each layer is divided into."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", help="Of a decoder: float32 (default), bfloat16, int8 or int4."),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache", help="Of a decoder's keys and values: float32 (default), bfloat16, float16."
        ),
    ] = None,
    params: options.Params = None,
    respect_annotations: Annotated[
        bool,
        typer.Option(
            "--respect-annotations",
            help="Of a Relay module: run what is annotated on_device on that device.",
        ),
    ] = False,
    plain_sums: Annotated[
        bool,
        typer.Option(
            "--plain-sums",
            help="Sum convolutions up as written, never by Winograd's tiles: slower, errors about "
            "a tenth.",
        ),
    ] = False,
    no_measure: Annotated[
        bool,
        typer.Option(
            "--no-measure", help="Do not run plan and best single device to keep the quicker one."
        ),
    ] = False,
    cluster: Where = None,
    json_output: options.AsJson = False,
) -> None:
    """Place a model on devices and compile it.

    Plan and best single device are run; the quicker one is what the artifact runs.
    """
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.report.schedule.text import schedule_text
    from tvm_hetero.util.text_tables import printable

    shapes = options.parse_shapes(shape)
    goal = options.objective_of(objective, batch)
    options.check_writable(output, folder=True)
    steps = Steps(quiet=json_output)
    asked = {
        "length": length, "chunk": chunk, "groups": groups, "shards": shards, "weights": weights,
        "cache": cache,
    }  # fmt: skip
    how = PartitionOptions(
        objective=goal,
        solver=solver,
        time_limit=time_limit,
        gap=gap,
        seed=seed,
        respect_annotations=respect_annotations,
        plain_sums=plain_sums,
    )
    if model.is_dir():
        from tvm_hetero.cli.shared.partition_decoder import decoder_options, partition_decoder

        decoder = decoder_options(model, asked, batch, shape=shape, random_weights=random_weights)
        # Annotations and convolutions are none of a decoder's.
        how = replace(how, respect_annotations=False, plain_sums=False)
        with priced(steps, platform, cost_model, cluster) as (place, costs):
            partition_decoder(
                steps, model, output, place, decoder, replace(how, cost_model=costs),
                measure=not no_measure, json_output=json_output,
            )  # fmt: skip
        return
    _refuse_decoder_options(model, asked)
    with priced(steps, platform, cost_model, cluster) as (place, costs):
        module = import_model(steps, model, shapes, random_weights, params)
        result = partition_module(steps, module, place, replace(how, cost_model=costs))
    executable = compile_artifact(steps, result, output, measure=not no_measure)
    if json_output:
        typer.echo(json.dumps(partition_json(result, executable, steps.seconds, output)))
        return
    steps.head(f"Plan of {printable(result.problem.name)}, {goal.kind}, batch {goal.batch}")
    steps.say(schedule_text(result.schedule, result.problem, chart_width()))
    say_kernels(steps, result, output)
    steps.say(f"wrote {printable(output)}", "green")


def _refuse_decoder_options(model: Path, asked: Mapping[str, object]) -> None:
    for option, value in asked.items():
        if value is not None:
            raise UsageError(
                f"--{option} is for decoders, which are folders from Hugging Face; {model} is none"
            )


def say_kernels(steps: Steps, result: Partition, output: Path) -> None:
    """How the kernels are computed, a line a device; nothing where they were not measured."""
    from tvm_hetero.passes.kernel_choices import choices_of
    from tvm_hetero.report.run.kernels import kernels_summary
    from tvm_hetero.util.text_tables import printable

    lines = kernels_summary(choices_of(result.module), result.problem, result.schedule)
    if lines:
        steps.head("Kernels")
        for line in lines:
            steps.say(printable(line))
        steps.say(f"(all of them: tvm-hetero show {printable(output)} --kernels)")


def load_platform(steps: Steps, path: Path | None, cost_model: str) -> Platform:
    """Step: the platform of a file or of this machine, its links measured where it has none.

    Links are measured only where kernels are: other cost models are for devices elsewhere.
    """
    from tvm_hetero.cost_models.registry import measures

    with steps.step("Load platform") as step:
        platform = options.load_platform(path)
        step.note = ", ".join(platform.names)
    return measure_links(steps, platform) if measures(cost_model) else platform


def measure_links(steps: Steps, platform: Platform, again: bool = False) -> Platform:
    """Step: measure the links that the platform leaves open; none, no step."""
    from tvm_hetero.cost_models.links import measure as links

    if not links.open_pairs(platform) and not links.open_copies(platform):
        return platform
    with steps.step("Measure links") as step:
        platform = links.measure_links(platform, again=again)
        known = ((k.src, k.dst, format_seconds(k.latency)) for k in platform.links)
        step.note = ", ".join(f"{src} → {dst} {latency}" for src, dst, latency in known)
    return platform


def import_model(
    steps: Steps,
    model: Path,
    shapes: dict[str, tuple[int, ...]],
    random_weights: int | None,
    params: Path | None = None,
) -> tvm.IRModule:
    """Step: read a model's file. Loading TVM is a step of its own: it takes a second."""
    if model.suffix in RELAY_SUFFIXES:
        return import_relay(steps, model, shapes, random_weights, params)
    if params is not None:
        known = ", ".join(RELAY_SUFFIXES)
        raise UsageError(f"--params is for saved Relay modules ({known}), not for {model}")
    with steps.step("Load TVM") as step:
        import tvm

        from tvm_hetero.frontends.onnx import from_onnx

        step.note = f"TVM {tvm.__version__}"
    with steps.step("Import model") as step:
        module = from_onnx(model, shapes=shapes, random_weights=random_weights)
        module = note_source(module, model, shapes, random_weights)
        weights = "" if random_weights is None else f", random weights of seed {random_weights}"
        step.note = f"{model.name}{weights}"
    return module


def import_relay(
    steps: Steps,
    model: Path,
    shapes: Mapping[str, tuple[int, ...]],
    random_weights: int | None,
    params: Path | None,
) -> tvm.IRModule:
    """Step: read a Relay module that an old TVM saved, and the values of its parameters."""
    for option, value in (("--shape", shapes), ("--random-weights", random_weights)):
        if value not in (None, {}):
            raise UsageError(f"{option} is for ONNX models; {model} is a saved Relay module")
    with steps.step("Load TVM") as step:
        import tvm

        from tvm_hetero.frontends.relay import from_json

        step.note = f"TVM {tvm.__version__}"
    with steps.step("Import model") as step:
        module = from_json(model, params)
        kept = len(module["main"].params)
        step.note = f"{model.name}, {kept} input{'s' * (kept != 1)}"
    return module


def partition_module(
    steps: Steps, module: tvm.IRModule, platform: Platform, how: PartitionOptions
) -> Partition:
    """Steps: lower, measure and solve. Each is printed with the seconds that it took."""
    from tvm_hetero.pipeline.partition import partition_as

    with steps.live("Partition") as live:
        result = partition_as(module, platform, how, live.progress)
    names = ", ".join(platform.names)
    tasks = f"{len(result.problem.tasks)} tasks, {result.kernels} distinct kernels on {names}"
    for i, (title, seconds) in enumerate(result.seconds.items()):
        steps.record(title.capitalize(), seconds, tasks if i == 0 else "")
    return result


def compile_artifact(
    steps: Steps, result: Partition, output: Path, *, measure: bool = True
) -> Executable:
    """Steps: compile for each device, decide what runs by default, write the artifact."""
    executable = compile_executable(steps, result, measure=measure)
    with steps.step("Save") as step:
        executable.save(output)
        step.note = str(output)
    return executable


def compile_executable(steps: Steps, result: Partition, *, measure: bool = True) -> Executable:
    """Steps: compile for each device, decide what runs by default."""
    from tvm_hetero.compiler.build import build

    with steps.step("Compile") as step:
        executable = build(result.module)
        step.note = ", ".join(executable.variants)
    # What runs on several nodes does not run here, where it could be measured.
    here = len({device.node for device in result.problem.platform.devices}) == 1
    return decide_default(steps, executable) if measure and here else executable


def decide_default(steps: Steps, executable: Executable) -> Executable:
    """Step: measure the partition and the best single device; the quicker one is the default."""
    from tvm_hetero.artifact.executable import SINGLE
    from tvm_hetero.executor.choose_variant import compare, with_decision
    from tvm_hetero.util.text_tables import printable

    neighbours = Neighbours()
    with steps.step("Decide by measuring") as step:
        decision = compare(executable)
        step.note = ", ".join(f"{k} {format_seconds(v)}" for k, v in decision.measured.items())
    colour = "yellow" if decision.chosen == SINGLE else None
    steps.say(printable(decision.text()), colour)
    warning = neighbours.warning() if decision.measured else ""
    if warning:
        steps.say(warning, "yellow")
    return with_decision(executable, decision)


def _implementations(result: Partition) -> dict[str, dict[str, int]]:
    """For each device how many kernels are best computed in which way; {} if not measured."""
    from tvm_hetero.passes.kernel_choices import choices_of

    counts: dict[str, dict[str, int]] = {}
    for choice in choices_of(result.module):
        own = counts.setdefault(choice.device, {})
        own[choice.implementation] = own.get(choice.implementation, 0) + 1
    return counts


def partition_json(
    result: Partition, executable: Executable, seconds: dict[str, float], output: Path
) -> dict[str, Any]:
    """What ``partition --json`` prints."""
    schedule = result.schedule
    single = schedule.best_single_device
    return {
        "artifact": str(output),
        "tasks": len(result.problem.tasks),
        "kernels": result.kernels,
        "implementations": _implementations(result),
        "objective": {"kind": schedule.kind, "value": schedule.value},
        "lower_bound": schedule.lower_bound,
        "gap": schedule.gap,
        "status": schedule.status,
        "solver": schedule.solver,
        "best_single_device": single and {"device": single.device, "value": single.value},
        "default": executable.default,
        "decision": executable.decision,
        "seconds": seconds,
        "placement": {task: list(devices) for task, devices in schedule.placement.items()},
    }
