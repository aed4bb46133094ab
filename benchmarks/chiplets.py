"""Multi-chip packages: plans with bounds on the presets, and policies replayed on them.

    python -m benchmarks.chiplets [--small]     writes results/chiplets.json
    python -m benchmarks.chiplets --show        prints the tables of docs/chiplets.md

Presets have fast places (fast cores, much bandwidth) and slow ones (neither), as Shisha's packages
(``platforms/chiplets-*.yaml``). Plans: latency, and throughput by contiguous stages. Searches: as
in `benchmarks.online`, by hints, with the share of the best that is settled on. Streams: every 100
requests a disturbance, on a random place. All seconds come from the presets' rooflines.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks.documents import write_document
from benchmarks.pipelines.disturbing import Table, grid_rows, lasting_rows
from benchmarks.pipelines.packages import package_recording, package_setting
from benchmarks.pipelines.searching import trials_of
from benchmarks.quoted.chiplets import tables
from benchmarks.result_rows import read_rows
from tvm_hetero import zoo
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policies import make_policy
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import Options, solve

RESULTS = Path(__file__).resolve().parent / "results" / "chiplets.json"
PRESETS = ("chiplets-4", "chiplets-8")
NETWORKS = ("resnet50", "layers-yolov3", "mobilenet-v2")
SEARCHES = ("shisha", "pipe-search", "hill-climbing", "resolve")
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run and write the results, or print the tables of them; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="one of each, nothing is written")
    parser.add_argument("--show", action="store_true", help="print the tables of the page")
    given = parser.parse_args(arguments)
    if given.show:
        rows = read_rows(RESULTS)
        print(*tables(rows), sep="\n\n")
        return rows
    rows = list(_small_rows() if given.small else _all_rows())
    if not given.small:
        write_document(RESULTS, "Multi-chip packages: plans, and policies replayed", rows)
    return rows


def _all_rows() -> Iterator[Row]:
    for preset in PRESETS:
        for network in NETWORKS:
            yield plan_row(network, preset, "latency", 10.0)
            yield plan_row(network, preset, "throughput", 10.0)
            yield search_row(network, preset)
    for network in NETWORKS:
        yield from stream_rows(network, "chiplets-4", 4000, 4)


def _small_rows() -> Iterator[Row]:
    yield plan_row("layers-synthnet", "chiplets-4", "throughput", 10.0)
    yield search_row("layers-synthnet", "chiplets-4")
    yield from stream_rows("layers-synthnet", "chiplets-4", 100, 2)


def plan_row(
    network: str, preset: str, kind: Literal["latency", "throughput"], limit: float
) -> Row:
    """A plan of our solvers, with its bound, beside the best single place."""
    objective = Objective(kind, contiguous=kind == "throughput")
    problem = zoo.problem(network, preset, objective)
    found = solve(problem, "auto", Options(limit, gap=1e-6))
    single = found.best_single_device
    used = {run.device for run in found.executions if problem.seconds(run.task, run.device) > 0}
    return {
        "measure": "plan", "network": network, "preset": preset, "kind": kind,
        "value": found.value, "gap": found.gap, "solver": found.solver,
        "single": None if single is None else single.value,
        "fast": sum(name.startswith("fast") for name in used),
        "slow": sum(name.startswith("slow") for name in used),
    }  # fmt: skip


def search_row(network: str, preset: str) -> Row:
    """What searches settle on, as a share of the best contiguous stages, and their trials."""
    setting = package_setting(network, preset)
    assert setting.seconds is not None
    best = find_optimum(setting.seconds, setting.places).bottleneck
    row: Row = {"measure": "search", "network": network, "preset": preset, "best": 1 / best}
    for name in SEARCHES:
        trials, settled = trials_of(make_policy(name), setting)
        row[name] = best / bottleneck(setting.seconds, settled)
        row[f"{name}_trials"] = len(trials)
    return row


def stream_rows(network: str, preset: str, requests: int, count: int) -> Iterator[Row]:
    """Policies on disturbed streams of so many places, fast and slow ones in turns."""
    recording = package_recording(network, preset)
    width = next(iter(recording.kinds.values()))[0]
    table = Table(recording, tuple(recording.kinds), width, f"{preset}-")
    yield from grid_rows(table, count, requests, [(100, 100)])
    yield from lasting_rows(table, count)


if __name__ == "__main__":
    main()
