"""Teams of 4 to 64 cores by analytical costs: the plan beside fixed widths, CPA and MCPA.

    python -m benchmarks.teams                     all; results/teams.json, docs/pictures/teams.svg
    python -m benchmarks.teams --cores 4,16 --models randwire-ws [--limit S] [--output FILE]
    python -m benchmarks.teams --small             seconds (the tests run it)

Rows of an earlier run that are not run again stay in the file; the picture is drawn of all.

Costs are a roofline for every width w, with a parallel efficiency that is an assumption of ours:

    peak(w) = w P / (1 + 0.03 (w - 1))      bandwidth(w) = min(w B, all that the node has)
    launch(w) = 2 us + 1.5 us log2 w        the meeting of the team's members, at every kernel

Teams are buddies of 1, 2, 4 .. all cores; a hand-over between two teams takes 1 us and 40 GB/s of
the time of nobody. Beside the plan (auto) stand, each without anything that `auto` does: all cores
for every operator, one core for each and the best fixed width (the best of some list schedules),
CPA, MCPA, the work-area rule. `ahead` is by how much the best of these takes longer than the plan,
`most` by how much it would be longer than a plan as short as the proven bound: no plan is further
ahead than that.
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

from benchmarks.documents import dated
from benchmarks.result_rows import read_rows, write_rows
from benchmarks.scheduling import charts
from benchmarks.scheduling.runner import geometric_mean
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
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "teams.json"
PICTURE, PICTURED = ROOT / "docs" / "pictures" / "teams.svg", "randwire-ws"
_BASELINES = ("all", "one", "fixed", "cpa", "mcpa", "work-area")


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; returns them."""
    given = _parse(arguments)
    models = [(name, more) for name, more in MODELS if name in given.models]
    rows = []
    for model, parameters in models:
        for count in given.cores:
            problem = zoo.problem(model, team_platform(count), **parameters)
            rows.append({"model": model, **run(problem, count, given.limit)})
            print(json.dumps(rows[-1]), flush=True)
            if given.output:
                _write(given.output, rows)
    Console(width=130).print(table(rows))
    print(summary(rows))
    if given.output == RESULTS:
        write_atomic(PICTURE, picture(read_rows(RESULTS)))
    return rows


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [name for name, _ in MODELS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one model on four cores, no file")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS.name})")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds a plan may take")
    parser.add_argument(
        "--cores", type=lambda text: tuple(map(int, text.split(","))), default=CORES
    )
    parser.add_argument("--models", type=lambda text: text.split(","), default=names)
    given = parser.parse_args(arguments)
    if given.small:
        given.models, given.cores, given.limit = names[:1], CORES[:1], min(1.0, given.limit)
    elif given.output is None:
        given.output = RESULTS
    if unknown := sorted(set(given.models) - set(names)):
        parser.error(f"--models: {', '.join(unknown)}: expected some of {', '.join(names)}")
    return given


def _write(output: Path, rows: Sequence[Row]) -> None:
    """Put rows in the place of those of the same models and cores."""
    found = {(row["model"], row["cores"]): row for row in [*read_rows(output), *map(dated, rows)]}
    order = [(name, count) for name, _ in MODELS for count in sorted({c for _, c in found})]
    head = {"what": "python -m benchmarks.teams", "limit": LIMIT, "peak": PEAK, "pace": PACE,
            "serial": SERIAL, "meeting": MEETING}  # fmt: skip
    write_rows(output, head, [found[key] for key in order if key in found])


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
    best = min(row[name] for name in _BASELINES)
    row["ahead"], row["most"] = best / found.value - 1, best / found.lower_bound - 1
    return row


def summary(rows: Sequence[Row]) -> str:
    """How far plans are ahead of the best baseline, and how far they can be, on average."""
    means = [geometric_mean([1 + row[name] for row in rows]) - 1 for name in ("ahead", "most")]
    return "ahead of the best baseline by {:.1%} on average, by {:.1%} at most (proven)".format(
        *means
    )


def picture(rows: Sequence[Row]) -> str:
    """Latency over cores of the plan, of each baseline and of the bound."""
    mine = [row for row in rows if row["model"] == PICTURED]
    names = {"value": "plan", "mcpa": "MCPA", "cpa": "CPA", "all": "all cores each",
             "one": "one core each", "bound": "proven bound"}  # fmt: skip
    series = [
        (text, [(row["cores"], 1e3 * row[name]) for row in mine]) for name, text in names.items()
    ]
    return charts.doubling_lines("RandWire, one image, analytical costs", series, ("cores", "ms"))


def table(rows: Sequence[Row]) -> Table:
    """A line for each model and number of cores."""
    result = Table(title="plans on teams of cores, by analytical costs")
    for name in ("model", "cores", "tasks"):
        result.add_column(name)
    for name in ("plan", "gap", *_BASELINES, "ahead", "most", "seconds"):
        result.add_column(name, justify="right")
    for row in rows:
        result.add_row(
            *(str(row[name]) for name in ("model", "cores", "tasks")),
            format_seconds(row["value"]),
            f"{row['gap']:.1%}",
            *(format_seconds(row[name]) for name in _BASELINES),
            f"{row['ahead']:.0%}",
            f"{row['most']:.0%}",
            f"{row['seconds']:.1f}",
        )
    return result


if __name__ == "__main__":
    main()
