"""Several models on one set of machines over a day: shared by the hour, and simpler policies.

    python -m benchmarks.share_machines [--small]     writes results/share_machines.json
    python -m benchmarks.share_machines --show        prints the table of docs/sharing.md

Each day has six models, eleven machines of three kinds, 24 hours (`benchmarks/choosing/days.py`).
All policies have the same rated plans, keep the same SLOs when they are played, and are solved by
the same program with its bound. Rating does not depend on the load and is done once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.choosing.days import DAYS, draw_day
from benchmarks.documents import write_document
from benchmarks.quoted.choosing import day_table
from benchmarks.result_rows import read_rows
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.sharing.answer import find_day
from tvm_hetero.planning.sharing.judge import judge
from tvm_hetero.planning.sharing.problem import POLICIES, DayPlan
from tvm_hetero.planning.sharing.rating import RatedSharing, needs, rate_sharing
from tvm_hetero.planning.sharing.request import SharingRequest
from tvm_hetero.solvers import Options

RESULTS = Path(__file__).resolve().parent / "results" / "share_machines.json"
SEEDS = 1
_PLAN = Options(0.1, deadline=60.0, gap=0.01)
_PROGRAM = Options(10.0, deadline=600.0)
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run and write the results, or print the table of them; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="one small day, nothing is written")
    parser.add_argument("--show", action="store_true", help="print the table of the page")
    given = parser.parse_args(arguments)
    if given.show:
        rows = read_rows(RESULTS)
        print(day_table(rows))
        return rows
    kinds, seeds = (DAYS[:1], 1) if given.small else (DAYS, SEEDS)
    asked = [(kind, seed) for seed in range(seeds) for kind in kinds]
    case = rate_sharing(draw_day(*asked[0], small=given.small), _PLAN)
    rows = []
    for kind, seed in asked:
        rows.append(day_row(case, draw_day(kind, seed, small=given.small), kind, seed))
        if not given.small:  # what is there is kept if the rest is cut off
            write_document(RESULTS, "Several models on one set of machines over a day", rows)
    return rows


def day_row(rated: RatedSharing, request: SharingRequest, kind: str, seed: int) -> Row:
    """One day by every policy: price, bound, and how hard the SLO of the hardest hour was."""
    case = replace(rated, request=request, problem=replace(rated.problem, need=needs(request)))
    row: Row = {"day": kind, "seed": seed, "policies": {}}
    for name, policy in POLICIES.items():
        began = time.process_time()
        try:
            day = find_day(case, name, policy, _PROGRAM)
        except InfeasibleError as error:
            row["policies"][name] = {"refused": str(error)}
            continue
        row["policies"][name] = {
            "price": day.price,
            "bound": day.bound,
            "gap": day.gap,
            "judged": judge(case.problem, day.plan, policy) / 1e6,
            "strain": day.strain,
            "margins": len(day.margins),
            "played": len(day.played),
            "machines": [len(hour) for hour in day.plan],
            "together": together(day.plan),
            "cpu_seconds": time.process_time() - began,
        }
    return row


def together(plan: DayPlan) -> int:
    """How many models live together at most."""
    return max(len(each.parts) for hour in plan for each in hour)


if __name__ == "__main__":
    main()
