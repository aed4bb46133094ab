"""An artifact's executor, and the trace of what it did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.executor.executor import Executor, TracedStep


def load_executor(steps: Steps, artifact: Path, variant: str | None = None) -> Executor:
    """Step: load an artifact and start its executor."""
    with steps.step("Load artifact") as step:
        from tvm_hetero.executor.executor import load

        executor = load(artifact, variant)
        step.note = f"{artifact}, variant {executor.variant}"
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
