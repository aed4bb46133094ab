"""Images per second of two cores: a plan of two devices, one device with two threads, ONNX Runtime.

    python -m benchmarks.steady_state                 all nine, writes results/steady_state.json
    python -m benchmarks.steady_state --models resnet50,squeezenet --output FILE
    python -m benchmarks.steady_state --small         seconds (the tests run it)
    python -m benchmarks.steady_state --show          writes build/results/performance.md

Each light model with random weights, in one process and in turns, in rounds:

- ``single``: the better device alone, batches in a stream (what others are measured by);
- ``plan``: two devices, a core each, partitioned for throughput with eight elements in a batch;
- ``copies``: what runs as ``single``, on each core, unaware of one another: what the machine leaves
  of twice one device (``benchmarks.execution.copies``); no rival, but a measure of the plan;
- ``threads``: our build for one device that has both cores, so that each kernel is divided;
- ``ort_threads``: ONNX Runtime with two threads, run after run; ``ort_batches``: the same with all
  elements of a batch at once;
- ``ort_processes``: ONNX Runtime in two processes of one thread, each pinned to a core, images per
  second summed over the window in which both work; ``ort_process_batches``: the same with half a
  batch at once in each.

A figure is the median of the rounds, of a stream's steady state (`tvm_hetero.executor.streaming`).
The goal: the plan does 1.9 times what one device does. What two whole networks on two cores cannot
reach since they share cache and memory, no plan can; ``copies`` shows how much that is.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

from benchmarks.documents import write_document
from benchmarks.execution import page
from benchmarks.execution.arguments import chosen
from benchmarks.execution.cases import make_model, one_device, two_devices, with_batch
from benchmarks.execution.contenders import (
    Built,
    Rate,
    build_plan,
    difference,
    elements_of,
    executors_of,
    peer_rate,
    rates_in_turns,
    stream_rate,
)
from benchmarks.execution.copies import copies_rate, on_core
from benchmarks.execution.mode import Mode, in_one_mode
from benchmarks.execution.pinned import PinnedProcesses
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.artifact.executable import PARTITION, SINGLE
from tvm_hetero.cli.shared.measure import OnnxRuntime
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective

BATCH, CORES = 8, (0, 1)
_SMALL_BATCH = 4
SIDES = ("single", "plan", page.COPIES, *page.RIVALS)
_ROUNDS, _SECONDS = 7, 1.5


@dataclass(frozen=True)
class Row:
    """One model. Rates are images per second, by side: the median of the rounds, and the best.

    ``predicted`` and ``bound`` are what the plan was solved for and what no plan can exceed by the
    costs; ``difference`` is the largest deviation from ONNX Runtime, relative.
    """

    model: str
    tasks: int
    devices: int
    predicted: float
    bound: float
    median: dict[str, float]
    best: dict[str, float]
    difference: float
    others: float
    build_s: float
    mode: Mode

    @property
    def over_single(self) -> float:
        """The plan's rate over that of one device."""
        return page.over_single(asdict(self))

    @property
    def over_rivals(self) -> float:
        """The plan's rate over the best of the rivals'."""
        return page.over_rivals(asdict(self))

    @property
    def over_copies(self) -> float:
        """The plan's rate over that of one device's build on each core."""
        return self.median["plan"] / self.median[page.COPIES]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    models = list(light_models())
    asked = chosen(
        __doc__, arguments, "steady_state.json",
        models=models, limit=30.0, rounds=_ROUNDS,
    )  # fmt: skip
    if asked is None:
        return []
    seconds = 0.05 if asked.small else _SECONDS
    batch = _SMALL_BATCH if asked.small else BATCH
    print(_HEAD)
    rows: list[Row] = []
    for name in asked.models:
        rows.append(measure(name, batch, asked.rounds, seconds, asked.limit, asked.small))
        print(_line(rows[-1]), flush=True)
        if asked.output is not None:  # each time: the next model may take long
            write_document(asked.output, "python -m benchmarks.steady_state", map(asdict, rows),
                           target=dict(two_devices().devices[0].target or {}),
                           rounds=asked.rounds, seconds=seconds, batch=batch)  # fmt: skip
    print(summary(rows))
    return rows


def measure(
    name: str, batch: int, rounds: int, seconds: float, time_limit: float, small: bool
) -> Row:
    """Build one model for two devices and for one of two cores, and let all sides run in turns."""

    def once(platform: Platform) -> dict[str, Any]:
        return _measure(name, platform, batch, rounds, seconds, time_limit, small)

    figures, mode = in_one_mode(two_devices(), once, small)
    return Row(model=name, **figures, mode=mode)


def _measure(
    name: str,
    platform: Platform,
    batch: int,
    rounds: int,
    seconds: float,
    time_limit: float,
    small: bool,
) -> dict[str, Any]:
    model = make_model(name)
    objective = Objective("throughput", batch=batch)
    plan = build_plan(model, platform, objective, time_limit, small=small)
    one = one_device(len(CORES))
    threads = build_plan(model, one, objective, time_limit, small=small)
    with ExitStack() as stack:
        contenders, error = _contenders(stack, model, plan, threads, batch)
        apart = frozenset({"ort_processes", "ort_process_batches"})
        rates, others = rates_in_turns(contenders, rounds, seconds, apart)
    schedule = plan.placed.schedule
    return {
        "tasks": len(plan.placed.problem.tasks),
        "devices": len({execution.device for execution in schedule.executions}),
        "predicted": batch / schedule.value,
        "bound": batch / schedule.lower_bound,
        "median": {side: statistics.median(rates[side]) for side in SIDES},
        "best": {side: max(rates[side]) for side in SIDES},
        "difference": error,
        "others": others,
        "build_s": plan.build_s,
    }


def _contenders(
    stack: ExitStack, model: onnx.ModelProto, plan: Built, threads: Built, batch: int
) -> tuple[dict[str, Rate], float]:
    """The sides, which end with the stack, and by how much ours deviate from ONNX Runtime."""
    ours = executors_of(plan)
    executors = {
        "single": ours[SINGLE],
        "plan": ours[PARTITION],
        "threads": Executor(threads.executable, PARTITION),
    }
    copies = [on_core(plan.executable, core) for core in CORES]
    for executor in (*executors.values(), *copies):
        stack.callback(executor.close)
    inputs = executors["plan"].random_inputs(0)
    peer = OnnxRuntime(model, len(CORES))
    error = max(difference(executor, inputs, batch, peer) for executor in executors.values())
    rates = {name: stream_rate(executor, inputs, batch) for name, executor in executors.items()}
    rates[page.COPIES] = copies_rate(copies, inputs, batch)
    rates["ort_threads"] = peer_rate(peer, elements_of(inputs, batch)[0])
    whole = OnnxRuntime(with_batch(model, batch), len(CORES))
    rates["ort_batches"] = peer_rate(whole, inputs, batch)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name, images in (("ort_processes", 1), ("ort_process_batches", batch // len(CORES))):
        alike = with_batch(model, images) if images > 1 else model
        children = stack.enter_context(PinnedProcesses(alike, CORES, folder, images))
        rates[name] = children.rate
    return rates, error


_HEAD = (
    f"images/s      {'single':>9}{'plan':>9}{'predict.':>9}{'copies':>9}{'threads':>9}"
    f"{'ORT 2 th.':>10}"
    f"{'ORT b.':>10}{'ORT 2 pr.':>10}{'2 pr. b.':>10}{'/single':>9}{'goal':>6}{'/rivals':>9}"
    f"{'goal':>6}{'error':>8}{'others':>8}{'link us':>8}"
)


def _line(row: Row) -> str:
    rates = row.median
    return (
        f"{row.model:<14}{rates['single']:>9.2f}{rates['plan']:>9.2f}{row.predicted:>9.2f}"
        f"{rates['copies']:>9.2f}{rates['threads']:>9.2f}{rates['ort_threads']:>10.2f}{rates['ort_batches']:>10.2f}"
        f"{rates['ort_processes']:>10.2f}{rates['ort_process_batches']:>10.2f}"
        f"{row.over_single:>9.2f}{page.STEADY_GOAL:>6}{row.over_rivals:>9.2f}{1:>6}"
        f"{row.difference:>8.0e}{row.others:>8.1f}{row.mode.text:>8}"
    )


def summary(rows: Sequence[Row]) -> str:
    """Mean and worst beside the goals."""
    lines = []
    for what, ratios, goal in (
        ("one device's", {row.model: row.over_single for row in rows}, page.STEADY_GOAL),
        ("the best rival's", {row.model: row.over_rivals for row in rows}, 1.0),
        ("that of two copies", {row.model: row.over_copies for row in rows}, 1.0),
    ):
        mean, least = geometric_mean(list(ratios.values())), min(ratios.values())
        worst = next(model for model, ratio in ratios.items() if ratio == least)
        lines.append(
            f"the plan's rate / {what}: geometric mean {mean:.2f}, least {least:.2f} ({worst}); "
            f"goal {goal:g} for each"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
