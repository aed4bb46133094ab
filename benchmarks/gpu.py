"""CPU and GPU together: measured costs and links, a plan, overlapped copies, equal outputs.

    python -m benchmarks.gpu [--models NAME,NAME] [--torch PYTHON] [--output FILE]

Needs a CUDA device and nvcc. For each model the costs of every kernel are measured on the CPU
place and on the GPU, the links by timing copies, and the latency problem is solved; the plan
runs and is compared with ONNX Runtime. Then random placements of the same model, which move many
tensors both ways, are run and compared: they show that copies and synchronisation are right, and
the trace shows how long copies and kernels were at work at the same time. With ``--torch`` the
given Python, whose PyTorch sees the GPU, runs torchvision's network of that name, as it comes and
as a graph of CUDA's, with the precision that it takes by default (TF32) and in float32.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import tvm_hetero as th
from benchmarks.execution.argument_types import output_file
from benchmarks.execution.logits import logits_of
from benchmarks.execution.torch_process import run_torch
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx, light_models, load_model, randomize_weights
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import Partition, partition
from tvm_hetero.platform import Platform
from tvm_hetero.platform.host import read_gpus
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate
from tvm_hetero.report.schedule.intervals import COPY, Interval, overlap_seconds
from tvm_hetero.util.documents import write_atomic

RESULTS = Path(__file__).with_name("results") / "gpu.json"
_TORCH = Path(__file__).parent / "execution" / "torch_networks_on_gpu.py"
RUNS = 30
# By how much of the greatest value sums in another order may differ.
TOLERANCE = 1e-4
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write what is right; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="squeezenet,inception_v1,resnet50")
    parser.add_argument("--placements", type=int, default=3, help="random ones for each model")
    parser.add_argument("--time-limit", type=float, default=20, help="seconds for each solve")
    parser.add_argument("--torch", help="a Python whose PyTorch sees the GPU")
    parser.add_argument("--output", type=output_file, default=RESULTS)
    options = parser.parse_args(arguments)
    platform = measure_links(Platform.detect())
    if not any(device.kind == "cuda" for device in platform.devices):
        sys.exit("this machine has no CUDA device that nvidia-smi shows; nothing to measure")
    for device in platform.devices:
        print(device, flush=True)
    for link in platform.links:
        print(link, flush=True)
    rows, wrong = [], []
    for name in options.models.split(","):
        row = measure_model(name, platform, options.placements, options.time_limit)
        if options.torch:
            row["torch"] = by_torch(options.torch, name)
        print(json.dumps(row), flush=True)
        if worst_difference(row) > TOLERANCE:
            wrong.append(name)
            continue
        rows.append(row)
        write_atomic(options.output, json.dumps(_document(platform, rows), indent=1) + "\n")
    if wrong:
        print(f"other values than ONNX Runtime's, so not written: {', '.join(wrong)}")
    return 1 if wrong else 0


def worst_difference(row: Row) -> float:
    """The greatest difference from ONNX Runtime's outputs of all ways in which a model was run."""
    runs = [row["partition"], *([row["single"]] if "single" in row else []), *row["random"]]
    return max(float(run["difference"]) for run in runs)


def by_torch(python: str, name: str) -> dict[str, float]:
    """Seconds of PyTorch for torchvision's network of that name."""
    return run_torch(python, _TORCH, name)


def measure_model(name: str, platform: Platform, placements: int, limit: float) -> Row:
    """Solve and run one model, then random placements of it."""
    placed = partition(from_onnx(_model(name)), platform, PartitionOptions(time_limit=limit))
    schedule = placed.schedule
    exe = th.build(placed.module)
    row: Row = {
        "model": name,
        "tasks": len(placed.problem.tasks),
        "kernels": placed.kernels,
        "seconds": placed.seconds,
        "status": schedule.status,
        "gap": schedule.gap,
        "predicted_s": schedule.value,
        "single_predicted": [schedule.best_single_device.device, schedule.best_single_device.value]
        if schedule.best_single_device
        else None,
        "tasks_on": _count(schedule),
        "copies": len(schedule.copies),
    }
    with Executor(exe) as executor:
        inputs = executor.random_inputs(0)
        reference, row["onnxruntime_cpu_s"] = _onnxruntime(name, inputs)
        row |= {"partition": _run(executor, inputs, reference)}
    if "single" in exe.variants:
        with Executor(exe, "single") as executor:
            row |= {"single": _run(executor, inputs, reference)}
    row["random"] = [
        _random_placement(placed, seed, inputs, reference) for seed in range(placements)
    ]
    return row


def _random_placement(
    placed: Partition, seed: int, inputs: dict[str, Any], reference: list[Any]
) -> Row:
    """Every task on a device by lot."""
    rng = random.Random(seed)
    problem = placed.problem
    steps = [
        (task, rng.choice(problem.devices_for(task)), (0,))
        for task in problem.graph.topological_order
    ]
    executions, copies = simulate(problem, steps)
    value = max(e.end for e in executions)
    schedule = Schedule(problem.digest, "random", "latency", executions, copies, value, 0.0)
    exe = th.build(annotate_devices(placed.module, problem, schedule), single=False)
    with Executor(exe) as executor:
        return {"predicted_s": value, "copies": len(copies), **_run(executor, inputs, reference)}


def _run(executor: Executor, inputs: dict[str, Any], reference: list[Any]) -> Row:
    """Differences from the reference over many runs, times, and who was at work with whom."""
    difference = 0.0
    best: list[Any] = []
    for _ in range(RUNS):
        outputs = executor.run(inputs)
        trace = executor.trace()
        if not best or max(s.end for s in trace) < max(s.end for s in best):
            best = trace
        for mine, other in zip(outputs, reference, strict=True):
            scale = float(np.abs(other).max())
            difference = max(difference, float(np.abs(mine.numpy() - other).max()) / scale)
    intervals = [Interval(s.device, s.name, s.start, s.end, s.kind) for s in best]
    lanes = sorted({i.lane for i in intervals})
    copying = sorted({i.lane for i in intervals if i.kind == COPY})
    return {
        "min_s": min(executor.benchmark(inputs, RUNS)),
        "difference": difference,
        "lanes": lanes,
        "overlap_s": overlap_seconds(intervals, lanes),
        "copy_lanes": copying,
        "copy_overlap_s": max(
            (
                overlap_seconds(intervals, [lane, other])
                for lane in copying
                for other in lanes
                if other != lane
            ),
            default=0.0,
        ),
    }


def _count(schedule: Schedule) -> dict[str, int]:
    counts: dict[str, int] = {}
    for execution in schedule.executions:
        counts[execution.device] = counts.get(execution.device, 0) + 1
    return counts


def _onnxruntime(name: str, inputs: dict[str, Any]) -> tuple[list[Any], float]:
    """Its outputs and its fastest time (s) on all cores; its threads end with the session."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        _model(name).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = list(session.run(None, inputs))
    seconds = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - begun)
    return outputs, min(seconds)


def _model(name: str) -> onnx.ModelProto:
    """A light model with random weights, which would saturate its softmax: cut off before it."""
    return logits_of(randomize_weights(load_model(light_models()[name]), 0))


def _document(platform: Platform, rows: Sequence[Row]) -> Row:
    return {
        "what": "benchmarks/gpu.py",
        "gpus": [gpu.name for gpu in read_gpus()],
        "devices": [
            {"name": d.name, "target": dict(d.target or {}), "cores": len(d.cores)}
            for d in platform.devices
        ],
        "links": [
            {"from": k.src, "to": k.dst, "bandwidth": k.bandwidth, "latency": k.latency}
            for k in platform.links
        ],
        "rows": list(rows),
    }


if __name__ == "__main__":
    sys.exit(main())
