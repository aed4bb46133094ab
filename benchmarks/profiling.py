"""What profiling takes: all kernels of a light model on one target, measured from nothing.

    python -m benchmarks.profiling                     all nine, writes results/profiling.json
    python -m benchmarks.profiling --models resnet50 --cores 2
    python -m benchmarks.profiling --small             a second or two (the tests run it)
    python -m benchmarks.profiling --show              the table of the last run

Wall seconds of each step (profiling is schedule + compile + measure + compare), each model with a
store of its own, in this one process. Beside them the CPU time of all of it, children included, and
the load of the machine: on two idle cores the wall time is below the CPU time, on two that seven
others use it is two or three times that. Then, what was found: distinct kernels, the median
and the largest of the spreads (lower quartile of the repeats over the smallest; a goal of ours, not
the issue's, is a median below 2 %), how many kernels are better off with another implementation
than their rule's, and what all tasks of the model take by the sum of their kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tvm

from benchmarks.documents import write_document
from benchmarks.parts import table
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.devices.target import device_target
from tvm_hetero.frontends.onnx import from_onnx, light_models
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.host import available_cores

RESULTS = Path(__file__).with_name("results") / "profiling.json"
SMALL = ("squeezenet",)
GOAL = 5.0  # s for ResNet-50
_STEPS = ("schedule", "compile", "measure", "compare")
_HEADERS = ["model", "kernels", "lower", *_STEPS, "**profiling**", "CPU time", "load",
            "spread, median", "largest", "by default", "sum of tasks"]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One model. Times in seconds; spreads as parts of the smallest time."""

    model: str
    cores: int
    kernels: int
    lower_s: float
    schedule_s: float
    compile_s: float
    measure_s: float
    compare_s: float
    profile_s: float
    cpu_s: float
    load: float
    spread_median: float
    spread_largest: float
    implementations: dict[str, int]
    rules: dict[str, int]
    tasks_s: float


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one model, no file")
    parser.add_argument("--show", action="store_true", help="print the results of the last run")
    parser.add_argument("--models", help="names, with commas between (default: all nine)")
    parser.add_argument("--cores", type=int, default=1, help="cores of the one device")
    options = parser.parse_args(arguments)
    if options.show:
        found = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
        print(markdown([Row(**row) for row in found]))
        return []
    names = SMALL if options.small else sorted(light_models())
    names = options.models.split(",") if options.models else names
    platform = one_device(options.cores)
    rows = [measure(name, platform) for name in names]
    print(markdown(rows))
    if not options.small and not options.models:
        what = "seconds that profiling takes, and what it found"
        target = dict(platform.devices[0].target or {})
        write_document(RESULTS, what, map(asdict, rows), goal_s=GOAL, target=target)
    return rows


def one_device(cores: int) -> Platform:
    """This machine's first cores as one device."""
    found = Platform.detect(devices=1).devices[0]
    target = {**dict(found.target or {}), "num-cores": cores}
    first = tuple(sorted(available_cores())[:cores])
    return Platform((Device("cpu0", target=target, cores=first),))


def measure(name: str, platform: Platform) -> Row:
    """Profile all kernels of a model into an empty store."""
    module = from_onnx(light_models()[name], random_weights=0)
    start = time.perf_counter()
    lower: tvm.transform.Pass = LowerToTasks([device_target(d) for d in platform.devices])
    module = lower(module)
    tasks = extract_tasks(module)
    lowered, worked = time.perf_counter(), _cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        model = ProfiledCosts(CostStore(Path(folder) / "costs.sqlite"))
        costs = model.costs(tasks.kernels, platform)
    done, worked = time.perf_counter(), _cpu_seconds() - worked
    choices = model.profile.choices.values()
    timings = [choice.timing for choice in choices if choice.timing is not None]
    spreads = [(timing.spread or 0.0) / timing.seconds for timing in timings]
    steps = {step: model.profile.seconds.get(step, 0.0) for step in _STEPS}
    return Row(
        model=name,
        cores=len(platform.devices[0].cores),
        kernels=len(tasks.kernels),
        lower_s=lowered - start,
        schedule_s=steps["schedule"],
        compile_s=steps["compile"],
        measure_s=steps["measure"],
        compare_s=steps["compare"],
        profile_s=done - lowered,
        cpu_s=worked,
        load=os.getloadavg()[0],
        spread_median=statistics.median(spreads),
        spread_largest=max(spreads),
        implementations=dict(Counter(choice.implementation for choice in choices)),
        rules=dict(Counter(choice.rule for choice in choices)),
        tasks_s=sum(costs[kernel]["cpu0"].seconds(1) for kernel in tasks.kernel_of.values()),
    )


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usage)


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a table, under a line that says whether the goal is reached."""
    lines = []
    goal = next((row for row in rows if row.model == "resnet50"), None)
    if goal is not None:
        verdict = "reached" if goal.profile_s <= GOAL else "missed"
        lines.append(f"ResNet-50: {goal.profile_s:.1f} s of {GOAL:g} s, {verdict}\n")
    return "\n".join([*lines, table(_HEADERS, [_cells(row) for row in rows])])


def _cells(row: Row) -> list[str]:
    steps = [row.lower_s, row.schedule_s, row.compile_s, row.measure_s, row.compare_s]
    return [
        row.model,
        str(row.kernels),
        *(f"{seconds:.2f} s" for seconds in steps),
        f"{row.profile_s:.2f} s",
        f"{row.cpu_s:.2f} s",
        f"{row.load:.1f}",
        f"{100 * row.spread_median:.1f} %",
        f"{100 * row.spread_largest:.0f} %",
        str(row.implementations.get("default", 0)),
        f"{1e3 * row.tasks_s:.2f} ms",
    ]


if __name__ == "__main__":
    main()
