"""Teams of 4 to 64 cores by analytical costs: the plan beside fixed widths, CPA and MCPA.

    python -m benchmarks.teams [--small] [--output FILE] [--cores 4,16] [--limit S]

Costs are a roofline for every width w, with a parallel efficiency that is an assumption of ours:

    peak(w) = w P / (1 + 0.03 (w - 1))      bandwidth(w) = min(w B, all that the node has)
    launch(w) = 2 us + 1.5 us log2 w        the meeting of the team's members, at every kernel

Teams are buddies of 1, 2, 4 .. all cores; a hand-over between two teams takes 1 us and 40 GB/s of
the time of nobody. Beside the plan (auto) stand, each without anything that `auto` does: all cores
for every operator, one core for each and the best fixed width (the best of some list schedules),
CPA, MCPA, the work-area rule. `ahead` is by how much the best of these takes longer than the plan.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tvm_hetero import zoo
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.report.schedule.core_rows import fixed_width_value, widths_of
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.lists import cpa, mcpa, work_area
from tvm_hetero.util.documents import write_atomic
from tvm_hetero.util.units import format_seconds

Row = dict[str, Any]
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("inception-v1", {}),
    ("inception-v3", {}),
    ("randwire-ws", {}),
    ("bert-base", {}),
    ("gpt-24-decode", {}),
)
CORES = (4, 8, 16, 32, 64)
LIMIT = 60.0
# Flop/s and bytes/s of a core, the share of a core's work that others wait for, s a meeting.
PEAK, PACE, SERIAL, MEETING = 1.0e11, 12e9, 0.03, 1.5e-6
_BASELINES = ("all", "one", "fixed", "cpa", "mcpa", "work-area")


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; returns them."""
    given = _parse(arguments)
    models = (("inception-v1", {}),) if given.small else MODELS
    cores = (4,) if given.small else given.cores
    limit = min(1.0, given.limit) if given.small else given.limit
    rows = []
    for model, parameters in models:
        for count in cores:
            rows.append(run(zoo.problem(model, team_platform(count), **parameters), count, limit))
            print(json.dumps(rows[-1]), flush=True)
    Console(width=130).print(table(rows))
    if given.output:
        write_atomic(given.output, json.dumps(rows, indent=1) + "\n")
    return rows


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one model on four cores")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds a plan may take")
    parser.add_argument(
        "--cores", type=lambda text: tuple(map(int, text.split(","))), default=CORES
    )
    return parser.parse_args(arguments)


def team_platform(cores: int) -> Platform:
    """Buddies of 1, 2, 4 .. all cores (see the head of this file)."""
    rows = []
    for power in range(cores.bit_length()):
        width = 1 << power
        for first in range(0, cores - width + 1, width):
            row = Device(
                f"c{first}x{width}",
                target={"kind": "llvm"},
                cores=tuple(range(first, first + width)),
                overlap=True,
                peak_flops=PEAK * width / (1 + SERIAL * (width - 1)),
                bandwidth=PACE * min(width, max(2.0, 0.4 * cores)),
                launch=2e-6 + MEETING * math.log2(width),
            )
            rows.append(row)
    fabric = Fabric("node0", bandwidth=40e9, latency=1e-6)
    return Platform(tuple(rows), fabrics=(fabric,), name=f"teams-{cores}")


def run(problem: Problem, cores: int, limit: float) -> Row:
    """One model on so many cores."""
    began = time.monotonic()
    found = solve(problem, "auto", Options(time_limit=limit))
    seconds = time.monotonic() - began
    widths = widths_of(problem.platform)
    fixed = {width: fixed_width_value(problem, width) or math.inf for width in widths}
    row: Row = {
        "model": problem.name,
        "cores": cores,
        "tasks": len(problem.tasks),
        "value": found.value,
        "bound": found.lower_bound,
        "gap": found.gap,
        "solver": found.solver,
        "seconds": seconds,
        "all": fixed[cores],
        "one": fixed[1],
        "fixed": min(fixed.values()),
        "width": min(fixed, key=lambda width: fixed[width]),
        "cpa": cpa.solve(problem, Options()).value,
        "mcpa": mcpa.solve(problem, Options()).value,
        "work-area": work_area.solve(problem, Options()).value,
    }
    row["ahead"] = min(row[name] for name in _BASELINES) / found.value - 1
    return row


def table(rows: Sequence[Row]) -> Table:
    """A line for each model and number of cores."""
    result = Table(title="plans on teams of cores, by analytical costs")
    for name in ("model", "cores", "tasks"):
        result.add_column(name)
    for name in ("plan", "gap", *_BASELINES, "ahead", "seconds"):
        result.add_column(name, justify="right")
    for row in rows:
        result.add_row(
            *(str(row[name]) for name in ("model", "cores", "tasks")),
            format_seconds(row["value"]),
            f"{row['gap']:.1%}",
            *(format_seconds(row[name]) for name in _BASELINES),
            f"{row['ahead']:.0%}",
            f"{row['seconds']:.1f}",
        )
    return result


if __name__ == "__main__":
    main()
