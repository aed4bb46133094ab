"""Images per second of a stream on two cores while another program takes half of one of them.

    python -m benchmarks.disturbed                 writes results/disturbed.json
    python -m benchmarks.disturbed --models resnet50 --output FILE
    python -m benchmarks.disturbed --small         seconds (the tests run it)
    python -m benchmarks.disturbed --show          writes build/results/performance.md

A plan shares a batch out over two equal cores. Then a program comes that wants one of them all the
time: the system gives it half. What is left is a core and a half, three quarters of what there was.
In turns, with the program and without it:

- ``plan``: workers that are alike run each other's steps (src/executor/state.h);
- ``apart``: the same plan, each worker for itself: the stream has the pace of the slower core;
- ``ort_process_batches``: ONNX Runtime in two processes of one thread, each pinned to a core, with
  half a batch at once: they do not wait for each other.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import onnx

from benchmarks.documents import write_document
from benchmarks.execution.arguments import chosen
from benchmarks.execution.cases import make_model, two_devices, with_batch, with_links
from benchmarks.execution.contenders import (
    Built,
    Rate,
    build_plan,
    difference,
    rates_in_turns,
    stream_rate,
)
from benchmarks.execution.pinned import PinnedProcesses
from tvm_hetero.artifact.executable import PARTITION, Executable
from tvm_hetero.cli.shared.measure import OnnxRuntime
from tvm_hetero.executor.executor import Executor
from tvm_hetero.problem import Objective
from tvm_hetero.processes.disturbers import disturb

BATCH, CORES = 8, (0, 1)
SIDES = ("plan", "apart", "ort_process_batches")
_MODELS = ("squeezenet", "inception_v1", "resnet50")
_ROUNDS, _SECONDS = 5, 1.5


@dataclass(frozen=True)
class Row:
    """One model: images per second of each side, medians of the rounds; `difference` is the largest
    deviation from ONNX Runtime, relative.
    """

    model: str
    quiet: dict[str, float]
    disturbed: dict[str, float]
    difference: float

    def kept(self, side: str) -> float:
        """The share of its rate that is left to a side."""
        return self.disturbed[side] / self.quiet[side]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    asked = chosen(__doc__, arguments, "disturbed.json", models=_MODELS, limit=30.0, rounds=_ROUNDS)
    if asked is None:
        return []
    seconds = 0.05 if asked.small else _SECONDS
    rows: list[Row] = []
    for name in asked.models:
        rows.append(measure(name, asked.rounds, seconds, asked.limit, asked.small))
        print(_line(rows[-1]), flush=True)
        if asked.output is not None:
            write_document(asked.output, "python -m benchmarks.disturbed", map(asdict, rows),
                           target=dict(two_devices().devices[0].target or {}),
                           rounds=asked.rounds, seconds=seconds, batch=BATCH)  # fmt: skip
    return rows


def measure(name: str, rounds: int, seconds: float, time_limit: float, small: bool) -> Row:
    """Build one model and let all sides run, in turns, in quiet and not."""
    model = make_model(name)
    platform = with_links(two_devices(), small=small)
    built = build_plan(
        model, platform, Objective("throughput", batch=BATCH), time_limit, small=small
    )
    with ExitStack() as stack:
        rates, error = _contenders(stack, model, built)
        separate = frozenset({"ort_process_batches"})
        found: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}
        for _ in range(rounds):
            for disturbed in (False, True):
                with disturb("busy", CORES[1]) if disturbed else ExitStack():
                    once, _ = rates_in_turns(rates, 1, seconds, separate)
                for side, values in once.items():
                    found[disturbed].setdefault(side, []).extend(values)
    quiet, noisy = (
        {side: statistics.median(values) for side, values in found[disturbed].items()}
        for disturbed in (False, True)
    )
    return Row(name, quiet, noisy, error)


def _contenders(
    stack: ExitStack, model: onnx.ModelProto, built: Built
) -> tuple[dict[str, Rate], float]:
    """The sides, which end with the stack, and by how much ours deviate from ONNX Runtime."""
    executors = {
        "plan": Executor(built.executable, PARTITION),
        "apart": Executor(each_for_itself(built.executable), PARTITION),
    }
    for executor in executors.values():
        stack.callback(executor.close)
    inputs = executors["plan"].random_inputs(0)
    peer = OnnxRuntime(model, len(CORES))
    error = max(difference(executor, inputs, BATCH, peer) for executor in executors.values())
    rates = {name: stream_rate(executor, inputs, BATCH) for name, executor in executors.items()}
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    half = BATCH // len(CORES)
    children = PinnedProcesses(with_batch(model, half), CORES, folder, half)
    rates["ort_process_batches"] = stack.enter_context(children).rate
    return rates, error


def each_for_itself(executable: Executable) -> Executable:
    """The same plan, in which no worker runs another's steps."""
    variant = executable.variants[PARTITION]
    workers = tuple(replace(worker, alike=None) for worker in variant.plan.workers)
    alone = replace(variant, plan=replace(variant.plan, workers=workers))
    return replace(executable, variants={**executable.variants, PARTITION: alone})


def _line(row: Row) -> str:
    sides = ", ".join(
        f"{side} {row.quiet[side]:.1f} -> {row.disturbed[side]:.1f} ({100 * row.kept(side):.0f} %)"
        for side in SIDES
    )
    return f"{row.model:<14}{sides}; error {row.difference:.0e}"


if __name__ == "__main__":
    main()
