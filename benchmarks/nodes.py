"""Many identical nodes: large language models on clusters, and orderings of what is alike.

    python -m benchmarks.nodes [--only clusters|orderings]    writes results/nodes.json
    python -m benchmarks.nodes --small        seconds, nothing is written
    python -m benchmarks.nodes --show         the tables of the results that are there

Clusters: one decoding step of each model by solver count-dp, through `solve`: value, proven
bound, gap, and wall seconds for all of it (costs of symmetry, search, bounds and checking).

Orderings, as DiviML compares them (arXiv 2308.00127): a small GPT-3 on three servers with little
memory, whole graph in one CP-SAT model without a start, by each ordering of equal devices and
nodes and by none: for how many seeds the search was closed (CP-SAT proved its model's optimum),
in how much deterministic work. CP-SAT's own symmetry detection is on in all of them.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.documents import dated
from benchmarks.result_rows import read_rows, write_rows
from tvm_hetero import zoo
from tvm_hetero.errors import SolverError
from tvm_hetero.problem import Kind, Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import SYMMETRIES, Options
from tvm_hetero.solvers.cpsat import throughput as cpsat_throughput
from tvm_hetero.solvers.cpsat.batch import solve_whole
from tvm_hetero.solvers.run_solver import solve
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Instance

RESULTS = Path(__file__).with_name("results") / "nodes.json"
Row = dict[str, Any]
PARTS = ("clusters", "orderings")
BOTH: tuple[Kind, ...] = ("latency", "throughput")
CASES = [
    (model, platform, kind)
    for model, platform in [
        ("gpt3-175b", "diviml-6"),
        ("gpt3-175b", "sched-6"),
        ("llama3-70b", "mixed-4"),
        ("llama3-405b", "mixed-16"),
        ("megatron-1t", "mixed-64"),
        ("kimi-k2", "mixed-64"),
    ]
    for kind in BOTH
]
SMALL_CASES = [("gpt3-175b", "diviml-6", kind) for kind in BOTH]
LIMIT = 60.0
SEEDS = 3
LAYERS = 6
WORK = 4.0  # deterministic time a run


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Run, print, and write the results; returns them."""
    given = _parse(arguments)
    if given.show:
        rows = read_rows(RESULTS)
        results = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    else:
        results = {part: [] for part in PARTS}
        if given.only != "orderings":
            results["clusters"] = [run(*case) for case in (SMALL_CASES if given.small else CASES)]
        if given.only != "clusters":
            results["orderings"] = (
                orderings(3, 1, BOTH[1:]) if given.small else orderings(LAYERS, SEEDS)
            )
    console = Console(width=110)
    console.print(cluster_table(results["clusters"]))
    console.print(ordering_table(results["orderings"]))
    if not given.show and not given.small:
        _write(given.output or RESULTS, results)
    return results


def _write(output: Path, results: Mapping[str, Sequence[Row]]) -> None:
    """Put the rows that were made in the place of those of their part."""
    known = read_rows(output)
    rows: list[Row] = []
    for part in PARTS:
        made = [{"part": part, **dated(row)} for row in results[part]]
        rows += made or [row for row in known if row["part"] == part]
    head = {"what": "python -m benchmarks.nodes", "load": round(os.getloadavg()[0], 1),
            "limit": LIMIT, "work": WORK}  # fmt: skip
    write_rows(output, head, rows)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="two clusters, three layers, one seed")
    parser.add_argument("--show", action="store_true", help="print the committed results")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS.name})")
    parser.add_argument("--only", choices=PARTS)
    return parser.parse_args(arguments)


def run(model: str, platform: str, kind: Kind) -> Row:
    """One model on one cluster."""
    problem = zoo.problem(model, platform, Objective(kind))
    began = time.monotonic()
    found = solve(problem, "count-dp", Options(time_limit=LIMIT))
    return {
        "model": model,
        "platform": platform,
        "objective": kind,
        "tasks": len(problem.tasks),
        "devices": len(problem.platform.devices),
        "used": len({e.device for e in found.executions}),
        "value_s": found.value,
        "bound_s": found.lower_bound,
        "gap": found.gap,
        "seconds": time.monotonic() - began,
    }


def small_case(layers: int, kind: Kind) -> Problem:
    """GPT-3 of a few layers on three servers, with memory in proportion."""
    problem = zoo.problem("gpt3-175b", "sched-node:3-serial", Objective(kind), layers=layers)
    share = layers / 96 * 2
    devices = tuple(
        replace(d, memory=None if d.memory is None else int(d.memory * share))
        for d in problem.platform.devices
    )
    return replace(problem, platform=replace(problem.platform, devices=devices))


def orderings(layers: int, seeds: int, kinds: Sequence[Kind] = BOTH) -> list[Row]:
    """Every ordering on the small case, for both objectives."""
    return [
        _ordering(small_case(layers, kind), kind, mode, seeds)
        for kind in kinds
        for mode in SYMMETRIES
    ]


def _ordering(problem: Problem, kind: Kind, mode: str, seeds: int) -> Row:
    works, values, closed = [], [], 0
    for seed in range(seeds):
        budget = CpsatBudget(WORK, time.monotonic() + 20 * WORK)
        options = Options(time_limit=20 * WORK, seed=seed, symmetry=mode)
        found = solve_in_one_model(problem, options, budget)
        works.append(WORK - budget.work)
        values.append(math.inf if found is None else found.value)
        closed += found is not None and budget.work > WORK / 100
    return {
        "objective": kind,
        "ordering": mode,
        "seeds": seeds,
        "closed": closed,
        "work": math.fsum(works) / seeds,
        "worst_s": max(values) if max(values) < math.inf else None,
    }


def solve_in_one_model(
    problem: Problem, options: Options, budget: CpsatBudget, start: Schedule | None = None
) -> Schedule | None:
    """The whole graph in one CP-SAT model, from no plan unless there is a start; None of none."""
    try:
        if problem.objective.kind == "throughput":
            return cpsat_throughput.solve(problem, options, start, budget)
        return solve_whole(Instance(problem), options, start, budget, any_size=True)
    except SolverError:
        return None


def cluster_table(rows: Sequence[Row]) -> Table:
    """Value, bound, gap and seconds of every cluster."""
    table = Table(title="count-dp")
    for name in ("model", "platform", "objective", "tasks", "devices", "used"):
        table.add_column(name)
    for name in ("value", "bound", "gap", "seconds"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            *(str(row[name]) for name in ("model", "platform", "objective")),
            *(str(row[name]) for name in ("tasks", "devices", "used")),
            format_seconds(row["value_s"]),
            format_seconds(row["bound_s"]),
            f"{row['gap']:.2%}",
            f"{row['seconds']:.1f}",
        )
    return table


def ordering_table(rows: Sequence[Row]) -> Table:
    """Seeds closed and work by ordering."""
    table = Table(title="orderings of equal devices and nodes")
    for name in ("objective", "ordering", "closed", "mean work", "worst value"):
        table.add_column(name)
    for row in rows:
        table.add_row(
            row["objective"],
            row["ordering"],
            f"{row['closed']} of {row['seeds']}",
            f"{row['work']:.2f}",
            "none found" if row["worst_s"] is None else format_seconds(row["worst_s"]),
        )
    return table


if __name__ == "__main__":
    main()
