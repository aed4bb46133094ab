"""What a plain plan loses when costs are off, and what a robust one gains back.

    python -m benchmarks.robust                 writes results/robust.json
    python -m benchmarks.robust --small         seconds, nothing is written
    python -m benchmarks.robust --processor     seconds are those of the processor, beside others
    python -m benchmarks.robust --show          the table of the results that are there

For problems of the zoo and costs off by up to 10 % and 30 %, over fresh samples: mean and worst
value of the plain plan, of the plan fitted to the mean and of that fitted to the worst, all as
multiples of the plain plan's value for the costs as they are. Beside them, over the first few
samples: the plain plan's mean loss against solving each sample anew (*regret*: what knowing the
costs would give), and against the proven lower bound of each (no plan can do better than that).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.limit_keeping.timed_call import (
    has_processor_clock,
    start_again,
    turn_clock_on,
)
from benchmarks.result_rows import read_rows, write_rows
from tvm_hetero import zoo
from tvm_hetero.bounds import lower_bound
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Robustness, Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.robust import solver as robust
from tvm_hetero.solvers.robust.local_search import GOALS

RESULTS = Path(__file__).with_name("results") / "robust.json"
Row = dict[str, Any]
CASES = ("inception-v1", "inception-v3", "randwire-ws", "module", "gpt-24", "lstm")
SHARES = (0.1, 0.3)
# Seconds for a plan, and for one sample solved anew.
LIMIT, AGAIN = 4.0, 0.5
SAMPLES, SOLVED = 200, 4
SOLVER = "annealing"


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; returns them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one problem, one share, 1 s a plan")
    parser.add_argument("--processor", action="store_true", help="go by the processor's clock")
    parser.add_argument("--show", action="store_true", help="print the committed results")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS.name})")
    given = parser.parse_args(arguments)
    if given.processor and not has_processor_clock():
        start_again("benchmarks.robust", sys.argv[1:] if arguments is None else arguments)
    if given.processor:
        turn_clock_on()
    if given.show:
        rows = read_rows(RESULTS)
    elif given.small:
        rows = case("module", SHARES[-1:], 1.0, solved=1)
    else:
        rows = [row for name in CASES for row in case(name, SHARES, LIMIT, SOLVED)]
        _write(given.output or RESULTS, rows)
    Console(width=110).print(results_table(rows))
    return rows


def _write(output: Path, rows: Sequence[Row]) -> None:
    head = {
        "what": "python -m benchmarks.robust",
        "clock": "processor" if has_processor_clock() else "wall",
        "load": round(os.getloadavg()[0], 1),
        "limit": LIMIT,
        "samples": SAMPLES,
    }
    write_rows(output, head, rows)


def case(name: str, shares: Sequence[float], limit: float, solved: int) -> list[Row]:
    """One problem: a row for every share."""
    problem = zoo.problem(name)
    plain = solve(problem, SOLVER, Options(time_limit=limit))
    return [_row(name, problem, plain, share, limit, solved) for share in shares]


def _row(
    name: str, problem: Problem, plain: Schedule, share: float, limit: float, solved: int
) -> Row:
    row: Row = {"case": name, "tasks": len(problem.tasks), "share": share, "value": plain.value}
    request = robust.RobustRequest(share, samples=SAMPLES)
    row["plain"] = _figures(problem, plain, request, plain.value)
    for goal in GOALS:
        fitting = robust.RobustRequest(share, goal, SAMPLES)
        plan = robust.fit(problem, plain, fitting, Options(time_limit=limit))
        row[goal] = _figures(problem, plan, request, plain.value)
    return row | _regret(problem, plain, request, solved)


def _figures(problem: Problem, plan: Schedule, request: robust.RobustRequest, unit: float) -> Row:
    found = robust.assess(problem, plan, request.fresh(0)).robust
    assert isinstance(found, Robustness)
    return {
        "value": plan.value / unit,
        "mean": found.mean / unit,
        "worst": found.worst / unit,
    }


def _regret(problem: Problem, plain: Schedule, request: robust.RobustRequest, solved: int) -> Row:
    """Mean loss of the plain plan against solving each sample anew, and against its bound."""
    anew, bounds = [], []
    for sample in islice(request.fresh(0).problems(problem), solved):
        start = robust.retime_for(problem, plain, sample)
        best = solve(sample, SOLVER, Options(time_limit=AGAIN, start=start))
        anew.append(start.value / best.value - 1)
        bounds.append(start.value / max(best.lower_bound, lower_bound(sample, best.value)) - 1)
    return {
        "solved": solved,
        "regret": math.fsum(anew) / solved,
        "regret_at_most": math.fsum(bounds) / solved,
    }


def results_table(rows: Sequence[Row]) -> Table:
    """Every case and share as a line."""
    table = Table(title="values over costs that are off / plain plan's value for right costs")
    for head in ("case", "off by", "plain mean", "worst", "for mean", "worst", "for worst",
                 "worst", "regret", "at most"):  # fmt: skip
        table.add_column(head, justify="left" if head == "case" else "right")
    for row in rows:
        plans = [row[plan] for plan in ("plain", "mean", "worst")]
        figures = [f"{plan[key]:.4f}" for plan in plans for key in ("mean", "worst")]
        regrets = (f"{row['regret']:.2%}", f"{row['regret_at_most']:.2%}")
        table.add_row(row["case"], f"{row['share']:.0%}", *figures, *regrets)
    return table


if __name__ == "__main__":
    main()
