"""Contiguous stages of MSR's throughput problems: ours beside the exact DP of their paper.

    python -m benchmarks.msr_dp               all eight; writes results/msr_dp.json
    python -m benchmarks.msr_dp --only gnmt   those whose names match; the others keep their rows
    python -m benchmarks.msr_dp --small       those of some seconds; nothing is written

Each problem of `benchmarks.msr` whose objective is throughput, with contiguous stages asked for:
what `auto` answers, and what `scheduling.ideal_partition` finds, which is written from the paper
and shares no code with a solver. Where the ideals are tens of thousands the DP takes minutes; it
leaves out stages that are longer than our answer, so it is never above what is shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.documents import write_document
from benchmarks.msr import KNOWN, ROOT, Row, ask, problem_file
from benchmarks.parts import percent, seconds, table
from benchmarks.result_rows import read_rows
from benchmarks.scheduling.ideal_partition import least_busiest
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import Options, solve

RESULTS = ROOT / "benchmarks" / "results" / "msr_dp.json"
NAMES = tuple(name for name in KNOWN if name.startswith("throughput"))
SMALL = (
    "throughput.Layer.bert24",
    "throughput.Layer.resnet50",
    "throughput.Operator.bert_l-3",
    "throughput.Operator.resnet50",
)
# Stages so much longer than our answer are looked at, so that one that is as long is found.
_EASE = 1 + 1e-6


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; the rows that were made."""
    given = ask(__doc__, arguments, NAMES, SMALL)
    rows: list[Row] = []
    for name in given.chosen:
        rows.append(compare(name, Problem.load(problem_file(given.folder, name)), given.time_limit))
        print(json.dumps(rows[-1]), flush=True)
        if not given.small:
            _write(rows)
    print(show(rows))
    return rows


def compare(name: str, problem: Problem, limit: float) -> Row:
    """What `auto` and the paper's DP say of contiguous stages."""
    staged = problem.with_objective(replace(problem.objective, contiguous=True))
    began = time.perf_counter()
    answer = solve(staged, "auto", Options(time_limit=limit))
    solved = time.perf_counter()
    exact = least_busiest(staged, answer.value * _EASE)
    return {
        "problem": name,
        "limit": limit,
        "value_us": round(1e6 * answer.value, 3),
        "bound_us": round(1e6 * answer.lower_bound, 3),
        "seconds": solved - began,
        "dp_us": round(1e6 * exact, 3),
        "dp_seconds": time.perf_counter() - solved,
        "above_dp": answer.value / exact - 1,
    }


def show(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    head = ["problem", "auto, ms", "the paper's DP, ms", "above", "s, auto", "s, DP"]
    return table(head, [_cells(row) for row in rows])


def _cells(row: Row) -> list[str]:
    return [
        row["problem"],
        f"{row['value_us'] / 1e3:.4f}",
        f"{row['dp_us'] / 1e3:.4f}",
        percent(row["above_dp"]),
        seconds(row["seconds"]),
        seconds(row["dp_seconds"]),
    ]


def _write(rows: Sequence[Row]) -> None:
    """These rows, and those of other problems from before, in the order of `NAMES`."""
    merged = {row["problem"]: row for row in [*read_rows(RESULTS), *rows]}
    ordered = [merged[name] for name in NAMES if name in merged]
    write_document(RESULTS, "MSR's workloads: contiguous stages beside the paper's DP", ordered)


if __name__ == "__main__":
    main()
