"""What DiviML's paper states, on a platform like its own: docs/diviml.md sets both side by side.

    python -m benchmarks.diviml [--only PART]    writes results/diviml.json (half an hour)
    python -m benchmarks.diviml --small          seconds of it, nothing is written

DiviML (Y. Ghannane, M. S. Abdelfattah, arXiv 2308.00127) schedules onto a processor and two unlike
GPUs. Its figures as parts of this benchmark:

    latency      more than 3 times lower than on the fastest GPU, other heuristics 30 to 60 % worse:
                 whole batches and single elements, by list schedulers and by `auto`
    throughput   up to 2.9 times higher
    wirings      random wirings, whose modules nothing cuts, with a minute for each
    orderings    the case study: GPT-3 (96 layers) on six servers, the whole graph in one CP-SAT
                 model, its equal servers ordered by time used, tasks or elements, or not at all;
                 from no plan and from HEFT's

How much faster splitting is than the exact program (395 times) is a suite of its own:
``python -m benchmarks.schedule --suite splitting``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents import write_document
from benchmarks.nodes import solve_in_one_model
from benchmarks.result_rows import read_rows
from benchmarks.scheduling.runner import cut_after, describe, run, zoo_case
from tvm_hetero.problem import Kind, Objective, Problem
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import SYMMETRIES, Options

RESULTS = Path(__file__).with_name("results") / "diviml.json"
Row = dict[str, Any]
SERVER, SIX_SERVERS = "diviml", "diviml-6"
NETWORKS = ("inception-v3", "resnet50", "randwire-ws")
BATCHES = (1, 16, 64)
WIRINGS = ("randwire-ws", "randwire-er", "randwire-ba", "randwire-c109", "randwire-c154")
HEURISTICS = ("single", "greedy", "heft", "peft", "cpop")
KINDS: tuple[Kind, ...] = ("latency", "throughput")
# Seconds for each run of a part.
LIMITS = {"latency": 20.0, "throughput": 20.0, "wirings": 60.0, "orderings": 20.0}
SMALL_LIMIT, QUICK = 0.5, 1.0


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small cases, nothing is written")
    parser.add_argument("--only", choices=PARTS, help="keep the rows of the other parts")
    given = parser.parse_args(arguments)
    rows = [] if given.small or given.only is None else _kept(given.only)
    for part, measure in PARTS.items():
        if given.only not in (None, part):
            continue
        for row in measure(given.small, SMALL_LIMIT if given.small else LIMITS[part]):
            rows.append({"part": part, **row})
            print(json.dumps(rows[-1]), flush=True)
    if not given.small:
        rows.sort(key=lambda row: list(PARTS).index(row["part"]))
        write_document(RESULTS, "benchmarks/diviml.py", rows, limits=LIMITS)
    return rows


def _kept(anew: str) -> list[Row]:
    """The rows of the last run that are not made anew."""
    return [row for row in read_rows(RESULTS) if row["part"] != anew]


def latencies(small: bool, limit: float) -> Iterator[Row]:
    """Heuristics and `auto` on networks, an element and batches."""
    for name in ("light-squeezenet",) if small else NETWORKS:
        for batch in BATCHES[:2] if small else BATCHES:
            problem = zoo_case(name, SERVER, Objective("latency", batch))
            yield from _each(problem, name, limit)


def throughputs(small: bool, limit: float) -> Iterator[Row]:
    """The best single device and `auto` on networks, one element at a time."""
    for name in ("light-squeezenet",) if small else NETWORKS:
        problem = zoo_case(name, SERVER, Objective("throughput"))
        yield from _each(problem, name, limit, ("heft",))


def wirings(small: bool, limit: float) -> Iterator[Row]:
    """Heuristics and `auto` on random wirings."""
    for name, sizes in [("module", {"tasks": 8})] if small else [(name, {}) for name in WIRINGS]:
        yield from _each(zoo_case(name, SERVER, **sizes), name, limit)


def _each(
    problem: Problem, name: str, limit: float, heuristics: Sequence[str] = HEURISTICS
) -> Iterator[Row]:
    for solver in (*heuristics, "auto"):
        # A list schedule takes milliseconds; the rest of its limit goes to bounds, which auto has.
        row, _ = run(problem, solver, limit if solver == "auto" else min(limit, QUICK))
        yield describe(problem, name) | row


def orderings(small: bool, limit: float) -> Iterator[Row]:
    """GPT-3 on six servers: counted, then in one model by each ordering."""
    layers, servers = (2, "diviml:2") if small else (96, SIX_SERVERS)
    for kind in KINDS:
        problem = zoo_case("gpt3-175b", servers, Objective(kind), layers=layers)
        about = describe(problem, f"gpt3-175b, {layers} layers, on {servers}")
        row, _ = run(problem, "count-dp", limit)
        yield about | row
        # Of latency the model is so large that a minute goes into building it, start or none.
        for started in (False,) if kind == "latency" and not small else (False, True):
            for ordering in SYMMETRIES:
                yield about | ordering_row(problem, ordering, limit, started=started)


def ordering_row(problem: Problem, ordering: str, limit: float, *, started: bool) -> Row:
    """The whole graph in one model: from HEFT's plan or from none."""
    row, start = run(problem, "heft", min(limit, QUICK))
    began = time.monotonic()
    options = Options(time_limit=limit, symmetry=ordering, deadline=cut_after(limit))
    budget = CpsatBudget.of(options, began)
    found = solve_in_one_model(problem, options, budget, start if started else None)
    row = {"solver": "cpsat", "ordering": ordering, "started": started, "start": row.get("value")}
    row |= {"seconds": time.monotonic() - began, "time_limit": limit}
    if found is None:
        return row | {"error": "nothing found"}
    return row | {"value": found.value, "bound": found.lower_bound, "gap": found.gap}


PARTS: dict[str, Callable[[bool, float], Iterator[Row]]] = {
    "latency": latencies,
    "throughput": throughputs,
    "wirings": wirings,
    "orderings": orderings,
}


if __name__ == "__main__":
    main()
