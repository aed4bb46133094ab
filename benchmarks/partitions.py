"""The nine models of the onnx wheel, partitioned over two unlike CPU places, end to end.

    python benchmarks/partitions.py [--small] [--models NAME,NAME] [--output FILE]
    python benchmarks/partitions.py --show    # the results in benchmarks/results, as in the README

For each model and objective: tasks, distinct kernels, the seconds of every step, what was
predicted, what was measured, the same for the best single device, the proven bound, ONNX Runtime
on one thread and on as many threads as the plan has cores (latency), and the largest difference
from its outputs. Everything is measured in this run, in turns, so that the machine's drift meets
all alike; the table has the median of the runs, the fastest stands in the JSON beside it.

The places have one core each; the second one is compiled for plain x86-64-v3.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import tvm
from rich.console import Console
from rich.table import Table

import tvm_hetero as th
from tvm_hetero import relay
from tvm_hetero.cli.measure import (
    Arrays,
    OnnxRuntime,
    Runner,
    executor_runner,
    largest_difference,
    measure_in_turns,
)
from tvm_hetero.cli.neighbours import Neighbours
from tvm_hetero.cost_models.links import measure_links
from tvm_hetero.discovery import detect_platform
from tvm_hetero.documents import write_atomic
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights
from tvm_hetero.machine import read_processor
from tvm_hetero.partition import partition
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Kind, Objective
from tvm_hetero.runtime.executable import PARTITION
from tvm_hetero.runtime.executor import Executor

RESULTS = Path(__file__).with_name("results") / "partitions.json"
SMALL = ["squeezenet"]
SEED = 0
BATCHES = 16  # of one measured stream
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one model, few runs, no file")
    parser.add_argument("--show", action="store_true", help="print the results of the last run")
    parser.add_argument("--models", help="names, with commas between (default: all nine)")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds for each solve")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS.name})")
    options = parser.parse_args(arguments)
    if options.show:
        rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
        print(markdown(rows))
        return list(rows)
    names = options.models.split(",") if options.models else sorted(light_models())
    names = SMALL if options.small and not options.models else names
    platform = measure_links(detect_platform(devices=2, mcpus=[None, "x86-64-v3"]))
    rows = []
    for name in names:
        rows += measure_model(name, platform, options.time_limit, 5 if options.small else 40)
        print(json.dumps(rows[-1]), file=sys.stderr)
    print_table(rows)
    output = options.output or (None if options.small else RESULTS)
    if output is not None:
        write_atomic(output, json.dumps(_document(rows, platform), indent=1) + "\n")
    return rows


def measure_model(name: str, platform: Platform, time_limit: float, runs: int) -> list[Row]:
    """One row an objective."""
    start = time.perf_counter()
    mod = relay.frontend.from_onnx(light_models()[name], random_weights=SEED)
    imported = time.perf_counter() - start
    rows = []
    kinds: tuple[Kind, ...] = ("latency", "throughput")
    for kind in kinds:
        placed = partition(mod, platform, Objective(kind), time_limit=time_limit, seed=SEED)
        start = time.perf_counter()
        exe = th.build(placed.module)
        compiled = time.perf_counter() - start
        single = placed.schedule.best_single_device
        rows.append(
            {
                "model": name,
                "objective": kind,
                "tasks": len(placed.problem.tasks),
                "kernels": placed.kernels,
                "import_s": imported,
                "lower_s": placed.seconds["lower"],
                "measure_s": placed.seconds["measure"],
                "solve_s": placed.seconds["solve"],
                "compile_s": compiled,
                "solver": placed.schedule.solver,
                "status": placed.schedule.status,
                "predicted_s": placed.schedule.value,
                "bound_s": placed.schedule.lower_bound,
                "gap": placed.schedule.gap,
                "single_predicted_s": single.value if single else None,
                **_measure(exe, kind, name, len(platform.devices), runs),
            }
        )
    return rows


def _measure(exe: Any, kind: Kind, name: str, cores: int, runs: int) -> Row:
    """Run the partition, the single device and ONNX Runtime in turns."""
    executors = {variant: exe.executor(variant) for variant in exe.variants}
    inputs = executors[PARTITION].random_inputs(SEED)
    model = randomize_weights(load_model(light_models()[name]), SEED)
    peers = {f"onnxruntime_{n}": OnnxRuntime(model, n) for n in sorted({1, cores})}
    expected = peers["onnxruntime_1"].outputs(inputs)
    difference = max(
        largest_difference(executor.run(inputs), expected).relative
        for executor in executors.values()
    )
    devices = sorted({step.device for step in executors[PARTITION].trace()})
    runners = {variant: _runner(e, inputs, kind) for variant, e in executors.items()}
    if kind == "latency":
        runners |= {peer: session.runner(inputs) for peer, session in peers.items()}
    else:
        runs = max(1, runs // BATCHES)
    neighbours = Neighbours()
    measured = measure_in_turns(runners, runs, warmup=1)
    row: Row = {
        "difference": difference,
        "devices": devices,
        "others_busy_cores": neighbours.busy_cores(),
    }
    for executor in executors.values():
        executor.close()
    for who, statistics in measured.items():
        row |= {f"{who}_s": statistics.min, f"{who}_median_s": statistics.median}
    return row


def _runner(executor: Executor, inputs: Arrays, kind: Kind) -> Runner:
    """Latency of runs one by one, or seconds per batch of whole streams."""
    if kind == "latency":
        return executor_runner(executor, inputs)
    return lambda count: [executor.throughput(inputs, batches=BATCHES) for _ in range(count)]


def print_table(rows: Sequence[Row]) -> None:
    """Print the rows; times of the model in ms, of the steps in s."""
    table = Table(title="light ONNX models on two CPU places (ms; steps in s)")
    heads = ["model", "objective", "tasks", "kernels", "import", "measure", "solve", "compile"]
    heads += ["predicted", "measured", "bound", "gap %", "single pred.", "single meas.", "speed-up"]
    heads += ["ORT 1", "ORT 2", "max diff"]
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i < 2 else "right")
    for row in rows:
        steps = [f"{row[key]:.1f}" for key in ("import_s", "measure_s", "solve_s", "compile_s")]
        alone = row.get("single_median_s", row["partition_median_s"])
        table.add_row(
            row["model"], row["objective"], str(row["tasks"]), str(row["kernels"]), *steps,
            *(_ms(row[key]) for key in ("predicted_s", "partition_median_s", "bound_s")),
            f"{100 * row['gap']:.1f}", _ms(row["single_predicted_s"]), _ms(alone),
            f"{alone / row['partition_median_s']:.2f}", _ms(row.get("onnxruntime_1_median_s")),
            _ms(row.get("onnxruntime_2_median_s")), f"{row['difference']:.0e}",
        )  # fmt: skip
    Console(width=max(200, Console().width)).print(table)


def markdown(rows: Sequence[Row]) -> str:
    """Medians in ms, a line a model: latency, then time per batch in a pipeline."""
    lines = [
        "| model | tasks | one device | partition | predicted | speed-up | ONNX Runtime, 2 threads "
        "| per batch: one device | partition | predicted | speed-up |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["objective"]] = row
    for model, kinds in by_model.items():
        cells = [model, str(kinds["latency"]["tasks"])]
        for kind in ("latency", "throughput"):
            row = kinds[kind]
            ours = row["partition_median_s"]
            alone = row.get("single_median_s", ours)
            cells += [_ms(alone), _ms(ours), _ms(row["predicted_s"]), f"{alone / ours:.2f}"]
            if kind == "latency":
                cells.append(_ms(row["onnxruntime_2_median_s"]))
        lines.append("| " + " | ".join(cells) + " |")
    excess = [100 * (row["partition_median_s"] / row["predicted_s"] - 1) for row in rows]
    lines += ["", f"Measured is {min(excess):.0f} to {max(excess):.0f} % above predicted."]
    return "\n".join(lines)


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.2f}"


def _document(rows: Sequence[Row], platform: Platform) -> Row:
    return {
        "what": "benchmarks/partitions.py",
        "machine": read_processor().name,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "versions": {"tvm": tvm.__version__, "onnxruntime": onnxruntime.__version__},
        "devices": [dict(d.target or {}) | {"cores": list(d.cores)} for d in platform.devices],
        "rows": list(rows),
    }


if __name__ == "__main__":
    main()
