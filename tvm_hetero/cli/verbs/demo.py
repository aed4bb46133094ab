"""``tvm-hetero demo``: the main job on a real model, from the ONNX file to a measured report.

It calls the functions that the other verbs call, on ``light_inception_v1`` out of the onnx wheel
with seeded random weights (as shipped the weights are constants, so equal outputs would prove
nothing) and on this machine as two different CPU devices.
"""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.cli.shared.executors import load_executor, write_trace
from tvm_hetero.cli.shared.import_model import import_model
from tvm_hetero.cli.shared.partition_steps import compile_artifact, partition_module
from tvm_hetero.cli.shared.platforms import measure_links
from tvm_hetero.cli.shared.rivals import load_reference, load_single, measure_against
from tvm_hetero.errors import RunError
from tvm_hetero.util.units import format_seconds

if TYPE_CHECKING:
    from tvm_hetero.executor.executor import TracedStep
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.problem.schedule import Schedule
    from tvm_hetero.report.run.run_table import Comparison

MODEL = "inception_v1"
SECOND_CPU = "x86-64-v3"
# Of the largest output. Float32 sums in another order differ by some 1e-6; 1e-3 is an error.
TOLERANCE = 1e-3


def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where the results go.")] = Path("demo"),
    model: Annotated[
        str, typer.Option("--model", help="A light model of the onnx wheel, or FILE.onnx.")
    ] = MODEL,
    seed: options.Seed = 0,
    time_limit: options.TimeLimit = 5.0,
    repeat: options.Repeat = 50,
) -> None:
    """Partition and measure a real network.

    Two CPU devices of one core each against the better of the two, and ONNX Runtime.
    """
    from tvm_hetero.pipeline.options import PartitionOptions

    steps = Steps()
    model_file = light_model(model)
    folder.mkdir(parents=True, exist_ok=True)
    platform = describe_machine(steps, folder)
    module = import_model(steps, model_file, {}, {}, seed)
    goal = options.parse_objective("latency", 1)
    how = PartitionOptions(objective=goal, time_limit=time_limit, seed=seed)
    result = partition_module(steps, module, platform, how)
    artifact = folder / "net.hetero"
    compile_artifact(steps, result, artifact)
    comparison, trace = measure_artifact(steps, artifact, folder / "trace.json", seed, repeat)
    write_report(folder / "report.html", result, trace, comparison, steps)
    say_report(steps, result, comparison, folder)
    difference = comparison.difference
    if difference is not None and not difference.relative <= TOLERANCE:
        raise RunError(
            f"the outputs differ from ONNX Runtime's by {difference}; at most {TOLERANCE:g} of "
            "the largest output was expected. This is a bug: please report it"
        )


def light_model(name: str) -> Path:
    """The path of a light model of the onnx wheel; a name that ends in ``.onnx`` is a path.

    Raises
    ------
    UsageError
        If there is none of that name; the nearest is suggested.
    """
    from tvm_hetero.errors import UsageError
    from tvm_hetero.frontends.onnx import light_models
    from tvm_hetero.util.nearest import nearest

    if name.endswith(".onnx"):
        return Path(name)
    models = light_models()
    if name not in models:
        raise UsageError(f"--model {name!r} is unknown{nearest(name, models)}")
    return models[name]


def describe_machine(steps: Steps, folder: Path) -> Platform:
    """Step: two devices of one core each, unlike in what they are compiled for."""
    from tvm_hetero.platform.host import available_cores, read_processor
    from tvm_hetero.platform.model import Platform

    with steps.step("Describe machine") as step:
        cores = sorted(available_cores())
        step.note = f"{read_processor().name}, {len(cores)} cores"
        if len(cores) > 1:
            platform = Platform.detect(2, [None, SECOND_CPU], cores=_two_cores(cores))
        else:
            platform = Platform.detect(1)
    platform = measure_links(steps, platform)
    platform.save(folder / "platform.yaml")
    if len(cores) == 1:
        steps.say("This machine has one core: there is nothing to overlap.", "yellow", bold=True)
    return platform


def _two_cores(cores: list[int]) -> list[int]:
    """Two cores, far apart in number so that they are not two threads of one."""
    from tvm_hetero.platform.host import read_machine

    physical = {core.physical: core.number for core in read_machine(cores=cores).cores}
    chosen = sorted(physical.values())
    return chosen[:2] if len(chosen) > 1 else cores[:2]


def measure_artifact(
    steps: Steps, artifact: Path, trace_file: Path, seed: int, repeat: int
) -> tuple[Comparison, list[TracedStep]]:
    """Steps: load the artifact, compare its outputs, measure it in turns with its opponents."""
    from tvm_hetero.cli.shared.measure import best_trace

    with contextlib.ExitStack() as stack:
        executor = stack.enter_context(load_executor(steps, artifact, "partition"))
        single = load_single(steps, artifact, executor, stack)
        reference = load_reference(steps, artifact, executor) if _has_reference(steps) else None
        inputs = executor.inputs_that_run(seed)
        comparison = measure_against(steps, executor, single, reference, inputs, repeat, warmup=5)
        trace = best_trace(executor, inputs)
        write_trace(trace_file, executor, trace)
    return replace(comparison, tolerance=TOLERANCE), trace


def _has_reference(steps: Steps) -> bool:
    """Whether ONNX Runtime is here, which is an extra: the wheel alone shows all but that."""
    if importlib.util.find_spec("onnxruntime") is not None:
        return True
    steps.say(
        "The outputs are compared with no other runtime's: pip install 'tvm_hetero[onnxruntime]'",
        "yellow",
    )
    return False


def default_variant(artifact: Path) -> str:
    """What an artifact runs unless told otherwise."""
    from tvm_hetero.artifact.manifest import read_manifest

    return str(read_manifest(artifact)["default"])


def write_report(
    path: Path,
    result: Partition,
    trace: list[TracedStep],
    comparison: Comparison,
    steps: Steps,
) -> None:
    """The page with the plan's chart above the measured one."""
    from tvm_hetero.report.run.run_table import run_page
    from tvm_hetero.report.schedule.html import report_html
    from tvm_hetero.util.documents import write_atomic

    page = run_page(
        result.problem, result.schedule, trace, comparison, steps.seconds, result.kernels
    )
    write_atomic(path, report_html(page))


def _fastest(schedule: Schedule, comparison: Comparison) -> str:
    """The fastest runs beside their predictions: what is left when no one disturbs."""
    best = comparison.measured["partition"].min
    text = f"partition: predicted {format_seconds(schedule.value)}, fastest {format_seconds(best)}"
    if schedule.best_single_device is None:
        return text
    guess, alone = schedule.best_single_device.value, comparison.measured["single"].min
    return (
        f"{text}; best single device ({schedule.best_single_device.device}): "
        f"predicted {format_seconds(guess)}, fastest {format_seconds(alone)}"
    )


def _default(chosen: str, comparison: Comparison) -> str:
    """What the artifact runs; and why, where what was measured since says otherwise."""
    text = f"by default net.hetero runs: {chosen}"
    ours = {n: s.median for n, s in comparison.measured.items() if n in ("partition", "single")}
    if chosen == min(ours, key=ours.__getitem__):
        return text
    return (
        f"{text}, which was quicker when that was decided (step 'Decide by measuring'): other "
        "programs, or other machines on this host, disturb; run it again to decide"
    )


def say_report(steps: Steps, result: Partition, comparison: Comparison, folder: Path) -> None:
    """The report on the terminal: plan, predicted beside measured, verdict, files."""
    from tvm_hetero.report.run.run_table import assess_run, statistics_table
    from tvm_hetero.report.schedule.text import schedule_text

    problem, schedule = result.problem, result.schedule
    steps.head(f"Plan: {len(problem.tasks)} tasks, {result.kernels} distinct kernels")
    steps.say(schedule_text(schedule, problem, chart_width()))
    steps.head("Measured")
    steps.say(statistics_table(comparison.measured))
    steps.say(_fastest(schedule, comparison))
    if comparison.difference is not None:
        right = comparison.difference.relative <= TOLERANCE
        text = f"largest difference from ONNX Runtime's outputs: {comparison.difference}"
        steps.say(f"{text}; {TOLERANCE:g} is allowed", "green" if right else "red")
    text, tone = assess_run(schedule, comparison.measured)
    steps.say("\n" + text, {"good": "green", "bad": "yellow"}.get(tone), bold=True)
    steps.say(_default(default_variant(folder / "net.hetero"), comparison))
    for name in ("platform.yaml", "net.hetero", "report.html", "trace.json"):
        steps.say(f"wrote {folder / name}")
