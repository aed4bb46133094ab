"""What to run a model on: our choice beside the rules that others follow, on drawn loads.

    python -m benchmarks.choose [--small]     writes results/choose.json
    python -m benchmarks.choose --show        prints the table of docs/choosing.md

Each question has 8 kinds of machines, 6 variants and 3 classes with SLOs of their own
(`benchmarks/choosing/cases.py`); half of the loads are Poisson, half of the shape of a public trace
(`benchmarks/choosing/traces.py`). All contenders choose among the same rated options and are played
by the same simulator; what breaks an SLO is asked for more, as ours is. Plans do not depend on the
load and are made once; `seconds` of a row has their time in it, as if they had been made for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.choosing.cases import question
from benchmarks.choosing.divided import divided_bound
from benchmarks.choosing.rules import RULES, follow_rule
from benchmarks.choosing.traces import LOADS
from benchmarks.documents import dated, write_document
from benchmarks.quoted.choosing import room_table, rule_table
from benchmarks.result_rows import read_rows
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.binding import binding_limits
from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest
from tvm_hetero.planning.choosing.front import best_choice, find_front
from tvm_hetero.planning.choosing.neighbours import settle
from tvm_hetero.planning.choosing.options import plan_options, rate_options
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.choosing.request import ChoiceRequest
from tvm_hetero.solvers import Options

RESULTS = Path(__file__).resolve().parent / "results" / "choose.json"
SEEDS, SECONDS = 4, 2.0
_PLAN = Options(0.1, deadline=60.0, gap=0.01)
_PROGRAM = Options(10.0, deadline=600.0)
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run and write the results, or print the table of them; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="one small case, nothing is written")
    parser.add_argument("--more", action="store_true", help="only what lacks a row or its bound")
    parser.add_argument("--show", action="store_true", help="print the table of the page")
    given = parser.parse_args(arguments)
    if given.show:
        rows = read_rows(RESULTS)
        print(rule_table(rows), room_table(rows), sep="\n\n")
        return rows
    seeds = 1 if given.small else SEEDS
    asked = [
        question(kind, seed, 1.0 if given.small else SECONDS, small=given.small)
        for seed in range(seeds)
        for kind in LOADS
    ]
    began = _clocks()
    planned = plan_options(asked[0], _PLAN)
    planning = _since(began)
    rows = [] if given.small else read_rows(RESULTS)
    whole = {f"{row['load']} {row['seed']}" for row in rows if "divided" in row}
    for request in asked:
        if given.more and request.name in whole:
            continue
        rows = replaced(rows, dated(choice_row(request, planned, planning)))
        if not given.small:  # what is there is kept if the rest is cut off
            write_document(RESULTS, "What to run on: ours beside others' rules", rows)
    return rows


def replaced(rows: Sequence[Row], row: Row) -> list[Row]:
    """Rows with that of a question that is asked again in the place of the one before, or last."""
    keys = [(each["load"], each["seed"]) for each in rows]
    key = (row["load"], row["seed"])
    if key not in keys:
        return [*rows, row]
    return [row if own == key else each for own, each in zip(keys, rows, strict=True)]


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    wall, processor = _clocks()
    return wall - began[0], processor - began[1]


def choice_row(
    request: ChoiceRequest, planned: Sequence[ReplicaOption], planning: tuple[float, float]
) -> Row:
    """One question: ours with its bound, what the rules say, and how long the answer took."""
    began = _clocks()
    case = rated_case(request, planned)
    load, _, seed = request.name.rpartition(" ")
    row: Row = {"load": load, "seed": int(seed), "requests": request.count}
    try:
        ours = best_choice(case, "price")
    except InfeasibleError as error:
        return row | {"refused": str(error)}
    front, _ = find_front(case, "price")
    ours, _ = settle(case, ours, front)
    binding, _ = binding_limits(case, ours, "price")
    wall, processor = _since(began)
    return row | {
        "price": ours.price,
        "bound": ours.bound,
        "gap": ours.gap,
        "divided": divided_bound(case),
        "accuracy": ours.accuracy,
        "watts": ours.watts,
        "machines": _machines(ours),
        "front": len(front),
        "binding": [each.what for each in binding],
        "options": len(case.rated),
        "dominated": len(case.cut),
        "strain": max(each.strain for each in ours.played),
        "rules": {name: _followed(case, name) for name in RULES},
        "seconds": wall + planning[0],
        "cpu_seconds": processor + planning[1],
    }


def rated_case(request: ChoiceRequest, planned: Sequence[ReplicaOption]) -> RatedRequest:
    """A question with the plans that were made for another load and other numbers of machines."""
    names = {machine.name: machine for machine in request.machines}
    own = tuple(
        ReplicaOption(each.variant, names[each.machine.name], each.batch, each.service, each.plan,
                      each.seconds, each.joules)
        for each in planned
    )  # fmt: skip
    rated, cut = rate_options(request, own)
    return RatedRequest(request, own, rated, cut, ChoicePlayer(request), _PROGRAM)


def _followed(case: RatedRequest, name: str) -> float | None:
    """The price of a rule's choice; None where it finds none."""
    try:
        return follow_rule(case, name).price
    except InfeasibleError:
        return None


def _machines(choice: MachineChoice) -> dict[str, int]:
    """How many of each kind."""
    counts: dict[str, int] = {}
    for rated, count in choice.replicas:
        name = rated.option.machine.name
        counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items()))


if __name__ == "__main__":
    main()
