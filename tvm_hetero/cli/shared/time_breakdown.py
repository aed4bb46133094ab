"""Where the time went, for ``run`` and ``bench``: a typical run beside the plan."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm_hetero.cli.shared.console import Steps

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.measure import Arrays
    from tvm_hetero.executor.executor import Executor, TracedStep
    from tvm_hetero.report.run.predicted_vs_measured import Differences

_RUNS = 9  # of the single device: enough for medians of its kernels
_ROWS = 24  # of the table: those that differ most


def typical_trace(executor: Executor, inputs: Arrays) -> tuple[list[TracedStep], float | None]:
    """The trace of a run and what it is a part of.

    For latency the fastest of some runs, and None; for throughput a batch in the middle of a
    pipeline, and the seconds per batch.
    """
    from tvm_hetero.cli.shared.measure import TRACED, best_trace
    from tvm_hetero.cli.shared.throughput import KIND

    if executor.schedule.kind != KIND:
        return best_trace(executor, inputs), None
    seconds = executor.throughput(inputs, TRACED)
    return executor.trace(), seconds


def alone_times(single: Executor, inputs: Arrays) -> dict[tuple[str, int, str], float]:
    """Median seconds of every (task, element, device) where one device runs everything."""
    samples: dict[tuple[str, int, str], list[float]] = {}
    single.profile_kernels = True
    try:
        for _ in range(_RUNS):
            single.run(inputs)
            for each in single.kernel_times():
                share = each.seconds / len(each.elements)
                for element in each.elements:
                    samples.setdefault((each.task, element, each.device), []).append(share)
    finally:
        single.profile_kernels = False
    return {key: statistics.median(seconds) for key, seconds in samples.items()}


@dataclass(frozen=True)
class TimeBreakdown:
    """A run beside its plan, and the lane to make faster first."""

    differences: Differences
    bottleneck: str

    def as_dict(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {**self.differences.as_dict(), "bottleneck": self.bottleneck}


def break_down_time(
    executor: Executor, inputs: Arrays, single: Executor | None = None
) -> tuple[TimeBreakdown, list[TracedStep]]:
    """Compare a typical run of the partition with its plan; also that run's trace.

    `single` is the executor of the best single device, for what its tasks take alone.
    """
    from tvm_hetero.report.run.bottleneck import warn_of_bottleneck
    from tvm_hetero.report.run.predicted_vs_measured import compare_with_plan

    trace, seconds = typical_trace(executor, inputs)
    alone = alone_times(single, inputs) if single and single is not executor else None
    found = compare_with_plan(trace, executor.schedule, alone)
    names = executor.problem.platform.names
    return TimeBreakdown(found, warn_of_bottleneck(trace, names, seconds)), trace


def say_time_breakdown(steps: Steps, breakdown: TimeBreakdown) -> None:
    """The table of differences, the interference, the verdict and the bottleneck."""
    from tvm_hetero.report.run.predicted_vs_measured import differences_table
    from tvm_hetero.util.untrusted_names import printable

    found = breakdown.differences
    steps.head("Where the time went")
    steps.say(differences_table(found, _ROWS))
    steps.say()
    for device, factor in found.factors.items():
        steps.say(f"interference on {device}: its kernels take {factor:.2f} times as long as alone")
    steps.say(printable(found.verdict, limit=None))
    steps.say(printable(breakdown.bottleneck, limit=None), "yellow")
