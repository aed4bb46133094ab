"""Decide by measuring what a built model runs: the partition, or the best single device.

A plan that is better on paper only is of no use, so predictions do not decide this. Both variants
run here, in turns, on random inputs, and the quicker one becomes the default: by the seconds that
one batch takes where the objective is latency, by the seconds per batch of a pipeline where it is
throughput. Their outputs are compared, too. Energy and cost are no matter of time alone and are not
judged by it; and what is built for another machine cannot be measured on this one. Then the plan
runs, as it was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable
from tvm_hetero.errors import ArtifactError, PlatformError
from tvm_hetero.executor.compare_outputs import alike_limit, compare_outputs
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.interleave import CountTold, Runner, measure_in_turns
from tvm_hetero.util.units import format_seconds

if TYPE_CHECKING:
    from tvm_hetero.executor.executor import Executor

RUNS = 20  # enough for a median that tells a partition from one device
WARMUP = 3
# Where a batch takes long, fewer runs: about as many seconds in all, and never fewer runs.
BUDGET = 10.0
FEWEST = 3
# Samples of a pipeline: each one is the mean of many batches.
SAMPLES = 5
BATCHES = 20


@dataclass(frozen=True)
class Decision:
    """What was measured, and what runs by default therefore.

    Attributes
    ----------
    chosen : the variant that runs.
    kind : the objective that was measured.
    measured : median seconds per batch of each variant; nothing where they were not compared.
    reason : why they were not compared; empty if they were.
    difference : between the variants' outputs on the same inputs, as a share of the largest value
        (`tvm_hetero.executor.compare_outputs`); None where they were not compared, or infinite.
    """

    chosen: str
    kind: str
    measured: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    difference: float | None = None

    @property
    def gain(self) -> float | None:
        """By which share the partition's batches are shorter than the single device's (below 0:
        longer); None if that was not measured.
        """
        if not self.measured:
            return None
        return 1.0 - self.measured[PARTITION] / self.measured[SINGLE]

    def as_dict(self) -> dict[str, Any]:
        """What an artifact and ``--json`` say."""
        return {**asdict(self), "measured": dict(self.measured), "gain": self.gain}

    def text(self) -> str:
        """One sentence."""
        if self.gain is None:
            return f"{self.chosen} runs; nothing was compared: {self.reason}"
        times = {name: format_seconds(seconds) for name, seconds in self.measured.items()}
        verb = "shorter" if self.gain > 0 else "longer"
        return (
            f"{self.chosen} runs: a batch takes the partition {times[PARTITION]}, the best single "
            f"device {times[SINGLE]}: {abs(self.gain):.1%} {verb}"
        )


def decide(executable: Executable) -> Executable:
    """The executable with the quicker of its variants as its default.

    `Executable.decision` holds what was measured. Nothing is compared (and the partition runs)
    where there is no other variant, the objective is neither latency nor throughput, or this
    machine is not the one that it was built for.
    """
    return with_decision(executable, compare(executable))


def with_decision(executable: Executable, decision: Decision) -> Executable:
    """The executable with what was decided as its default."""
    return replace(executable, default=decision.chosen, decision=decision.as_dict())


def compare(executable: Executable, tell: CountTold = lambda _done, _total: None) -> Decision:
    """Measure the variants of an executable in turns (see `decide`); `tell` hears of the runs."""
    kind = executable.schedule.kind
    reason = _obstacle(executable)
    if reason:
        return Decision(PARTITION, kind, reason=reason)
    with ExitStack() as stack:
        try:
            executors = {
                name: stack.enter_context(Executor(executable, name))
                for name in (PARTITION, SINGLE)
            }
        except (ArtifactError, PlatformError) as error:
            reason = f"it was built for a machine that is not here: {error}"
            return Decision(PARTITION, kind, reason=reason)
        difference = compare_outputs(executors, alike_limit(executable))
        measured = measure_executors(executors, kind, tell)
    # Of equals the simpler one: it leaves the other devices free.
    chosen = PARTITION if measured[PARTITION] < measured[SINGLE] else SINGLE
    known = difference if difference is not None and math.isfinite(difference) else None
    return Decision(chosen, kind, measured, difference=known)


def _obstacle(executable: Executable) -> str:
    """Why the variants are not to be compared; empty if they are."""
    schedule = executable.schedule
    if SINGLE not in executable.variants:
        if len({e.device for e in schedule.executions if e.end > e.start}) == 1:
            return "the plan is on one device"
        if schedule.best_single_device is None:
            return "no device alone can run the model"
        return "the best single device was not built"
    kind = schedule.kind
    if kind not in ("latency", "throughput"):
        return f"the objective is {kind}, which is not judged by time"
    return ""


def measure_executors(
    executors: Mapping[str, Executor],
    kind: str,
    tell: CountTold = lambda _done, _total: None,
) -> dict[str, float]:
    """Median seconds per batch of each executor, on the same inputs; `tell` hears of the runs."""
    inputs = next(iter(executors.values())).inputs_that_run()
    once = sum(min(each.benchmark(inputs, repeat=2, warmup=1)) for each in executors.values())
    if kind == "throughput":
        batches = _as_many(BATCHES, once * SAMPLES)
        runners = {name: _stream(each, inputs, batches) for name, each in executors.items()}
        statistics = measure_in_turns(runners, SAMPLES, 0, tell)
    else:
        runners = {name: _runs(each, inputs) for name, each in executors.items()}
        repeat = _as_many(RUNS, once)
        statistics = measure_in_turns(runners, repeat, min(WARMUP, repeat), tell)
    return {name: each.median for name, each in statistics.items()}


def _as_many(wanted: int, seconds: float) -> int:
    """`wanted` repetitions of what takes `seconds`, or fewer where that is too long."""
    return max(FEWEST, min(wanted, math.floor(BUDGET / max(seconds, 1e-9))))


def _runs(executor: Executor, inputs: Mapping[str, Any]) -> Runner:
    return lambda count: executor.benchmark(inputs, repeat=count, warmup=0)


def _stream(executor: Executor, inputs: Mapping[str, Any], batches: int) -> Runner:
    return lambda count: [executor.throughput(inputs, batches) for _ in range(count)]
