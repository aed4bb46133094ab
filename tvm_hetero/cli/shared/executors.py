"""An artifact's executor, and the trace of what it did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.executor.executor import Executor, TracedStep
    from tvm_hetero.online.live.adapter import AdaptationEvent


def load_executor(
    steps: Steps, artifact: Path, variant: str | None = None, input_file: Path | None = None
) -> Executor:
    """Step: load an artifact and start its executor; of several sizes that of the inputs."""
    from tvm_hetero.artifact.kinds import has_sizes

    if input_file is not None and has_sizes(artifact):
        return _load_size(steps, artifact, variant, input_file)
    with steps.step("Load artifact", of=artifact) as step:
        from tvm_hetero.executor.executor import load

        executor = load(artifact, variant)
        step.note = f"{artifact}, variant {executor.variant}"
    return executor


def load_streaming(
    steps: Steps,
    artifact: Path,
    variant: str | None,
    policy: str | None,
    alpha: int,
    tell: Callable[[AdaptationEvent], None],
) -> Executor:
    """Step: load an artifact and start its executor, whose plan a policy changes."""
    if policy is None:
        return load_executor(steps, artifact, variant)
    from tvm_hetero.decoders.load import load
    from tvm_hetero.online.live.adaptive_executor import AdaptiveExecutor

    with steps.step("Load artifact", of=artifact) as step:
        executor = load(artifact, variant, adapt=policy, alpha=alpha, on_event=tell)
        assert isinstance(executor, AdaptiveExecutor)
        step.note = f"{artifact}, adapted by {policy}"
    if executor.idle:
        steps.say(f"nothing is adapted: {executor.idle}")
    return executor


def _load_size(steps: Steps, artifact: Path, variant: str | None, input_file: Path) -> Executor:
    """Step: load the size that a file's inputs have, or build it first."""
    from tvm_hetero.cli.shared.measure import read_inputs

    inputs = read_inputs(input_file)
    with steps.step("Load size", of=artifact) as step:
        from tvm_hetero.sizes.axes import size_name
        from tvm_hetero.sizes.executor import SizedExecutor

        sizes = SizedExecutor(artifact, variant)
        size = sizes.size_of(inputs)
        executor = sizes.executor(*size)
        step.note = f"{artifact}, size {size_name(size)}, variant {executor.variant}"
    return executor


def write_trace(path: Path, executor: Executor, trace: list[TracedStep]) -> None:
    """The plan and the measured run in one trace file."""
    from tvm_hetero.report.run.chrome_trace import save_trace
    from tvm_hetero.report.schedule.intervals import measured_intervals, plan_intervals

    groups = {
        "plan": plan_intervals(executor.schedule, executor.problem),
        f"measured ({executor.variant})": measured_intervals(trace),
    }
    save_trace(path, groups, executor.problem.platform.names)
