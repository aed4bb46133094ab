"""Rivals of a partition, the best single device and ONNX Runtime: loaded, and measured with it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.cli.shared.executors import load_executor

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.cli.shared.measure import Arrays, OnnxRuntime, Runner
    from tvm_hetero.executor.executor import Executor
    from tvm_hetero.report.run.run_table import Comparison

PARTITION, SINGLE, ONNXRUNTIME = "partition", "single", "onnxruntime"


def load_single(
    steps: Steps, artifact: Path, executor: Executor, stack: contextlib.ExitStack
) -> Executor:
    """Step: the executor of the best single device; the same one if the partition is just that."""
    from tvm_hetero.artifact.manifest import read_manifest

    if SINGLE not in read_manifest(artifact)["variants"]:
        return executor
    return stack.enter_context(load_executor(steps, artifact, SINGLE))


def load_reference(steps: Steps, artifact: Path, executor: Executor) -> OnnxRuntime:
    """Step: the artifact's model on ONNX Runtime, with as many threads as the plan has cores."""
    from tvm_hetero.artifact.manifest import read_manifest
    from tvm_hetero.cli.shared.measure import OnnxRuntime
    from tvm_hetero.frontends.onnx.source import source_model

    with steps.step("Load ONNX Runtime", of=artifact) as step:
        threads = count_cores(executor)
        model = source_model(read_manifest(artifact)["source"])
        step.note = f"{threads} threads"
        return OnnxRuntime(model, threads)


def count_cores(executor: Executor) -> int:
    """All CPU cores of the platform: what a program without a partition would use."""
    cores = {core for device in executor.problem.platform.devices for core in device.cores}
    return max(1, len(cores))


def measure_against(
    steps: Steps,
    executor: Executor,
    single: Executor | None,
    reference: OnnxRuntime | None,
    inputs: Arrays,
    repeat: int,
    warmup: int,
) -> Comparison:
    """Steps: compare the outputs, then measure all in turns."""
    from tvm_hetero.cli.shared import measure
    from tvm_hetero.report.run.run_table import Comparison

    difference = None
    runners: dict[str, Runner] = {PARTITION: measure.executor_runner(executor, inputs)}
    if single is not None:
        runners[SINGLE] = measure.executor_runner(single, inputs)
    if reference is not None:
        with steps.step("Compare outputs") as step:
            difference = measure.largest_difference(executor.run(inputs), reference.outputs(inputs))
            step.note = f"largest difference {difference}"
        runners[ONNXRUNTIME] = reference.runner(inputs)
    neighbours = Neighbours()
    with steps.step("Measure in turns") as step:
        measured = measure.measure_in_turns(runners, repeat, warmup, step.counter("runs"))
        step.note = f"{', '.join(runners)}: {repeat} runs each after {warmup}"
    warning = neighbours.warning()
    if warning:
        steps.say(warning, "yellow")
    return Comparison(measured, difference, note=warning)
