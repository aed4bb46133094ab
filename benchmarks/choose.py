"""What to run a model on: our choice beside the rules that others follow, on drawn loads.

    python -m benchmarks.choose [--small]     writes results/choose.json
    python -m benchmarks.choose --more        only what has no row yet
    python -m benchmarks.choose --show        prints the tables of docs/choosing-compared.md

Each question has 8 kinds of machines, 6 variants and 3 classes with SLOs of their own
(`benchmarks/choosing/cases.py`); half of the loads are Poisson, half of the shape of a public trace
(`benchmarks/choosing/traces.py`). All contenders choose among the same rated options and are played
by the same simulator; what breaks an SLO is asked for more, as ours is. Plans do not depend on the
load and are made once; `seconds` of a row has their time in it, as if they had been made for it.

Each question is asked twice: for the least price, and for the least energy. Energy is counted in
two ways: `value`, as the program and its bound do, in watts of replicas with their full shares, and
`watts`, what the simulation of the answer draws in the mean. Beside ours stand the rules by watts,
and as their papers have them, by price (`priced`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.choosing.cases import question
from benchmarks.choosing.divided import divided_bound
from benchmarks.choosing.rules import COSTS, RULES, follow_rule
from benchmarks.choosing.traces import LOADS
from benchmarks.documents import dated, write_document
from benchmarks.quoted.choosing import choice_tables
from benchmarks.result_rows import read_rows
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.binding import binding_limits
from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest
from tvm_hetero.planning.choosing.front import best_choice, find_front
from tvm_hetero.planning.choosing.neighbours import settle
from tvm_hetero.planning.choosing.options import plan_options, rate_options
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.program import MILLIWATT, milliwatts
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
    parser.add_argument("--more", action="store_true", help="only what lacks a row")
    parser.add_argument("--show", action="store_true", help="print the table of the page")
    given = parser.parse_args(arguments)
    if given.show:
        rows = read_rows(RESULTS)
        print("\n\n".join(choice_tables(rows)))
        return rows
    seeds = 1 if given.small else SEEDS
    asked = [
        question(kind, seed, 1.0 if given.small else SECONDS, small=given.small, goal=goal)
        for goal in COSTS
        for seed in range(seeds)
        for kind in LOADS
    ]
    began = _clocks()
    planned = plan_options(asked[0], _PLAN)
    planning = _since(began)
    rows = [] if given.small else read_rows(RESULTS)
    known = {key_of(row) for row in rows}
    for request in asked:
        if given.more and (request.goal, *named(request)) in known:
            continue
        rows = replaced(rows, dated(choice_row(request, planned, planning)))
        if not given.small:  # what is there is kept if the rest is cut off
            write_document(RESULTS, "What to run on: ours beside others' rules", rows)
    return rows


def key_of(row: Row) -> tuple[str, str, int]:
    """What tells a row from the others; the first rows were all of prices."""
    return row.get("goal", "price"), row["load"], row["seed"]


def named(request: ChoiceRequest) -> tuple[str, int]:
    """The load and the seed of a question."""
    load, _, seed = request.name.rpartition(" ")
    return load, int(seed)


def replaced(rows: Sequence[Row], row: Row) -> list[Row]:
    """Rows with that of a question that is asked again in the place of the one before, or last."""
    if key_of(row) not in map(key_of, rows):
        return [*rows, row]
    return [row if key_of(own) == key_of(row) else own for own in rows]


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    wall, processor = _clocks()
    return wall - began[0], processor - began[1]


def choice_row(
    request: ChoiceRequest, planned: Sequence[ReplicaOption], planning: tuple[float, float]
) -> Row:
    """One question: ours with its bound, what the rules say, and how long the answer took."""
    began, goal = _clocks(), request.goal
    case = rated_case(request, planned)
    load, seed = named(request)
    row: Row = {"goal": goal, "load": load, "seed": seed, "requests": request.count}
    try:
        ours = best_choice(case, goal)
    except InfeasibleError as error:
        return row | {"refused": str(error)}
    front, _ = find_front(case, goal)
    ours, _ = settle(case, ours, front)
    binding, _ = binding_limits(case, ours, goal)
    wall, processor = _since(began)
    rules = {name: _followed(case, name, goal) for name in RULES}
    row |= {
        "price": ours.price,
        "value": ours.value,
        "bound": ours.bound,
        "gap": ours.gap,
        "divided": divided_bound(case, goal),
        "accuracy": ours.accuracy,
        "watts": ours.watts,
        "machines": _machines(ours),
        "front": len(front),
        "binding": [each.what for each in binding],
        "options": len(case.rated),
        "dominated": len(case.cut),
        "strain": max(each.strain for each in ours.played),
        "rules": {name: each and each.value for name, each in rules.items()},
        "seconds": wall + planning[0],
        "cpu_seconds": processor + planning[1],
    }
    if goal == "energy":
        priced = {name: _followed(case, name, "price") for name in RULES}
        row["rules_watts"] = {name: each and each.watts for name, each in rules.items()}
        row["priced"] = {name: each and full_watts(each) for name, each in priced.items()}
        row["priced_watts"] = {name: each and each.watts for name, each in priced.items()}
    print(f"{goal}, {request.name}: {ours.value:.4g} of at least {ours.bound:.4g}, rules "
          f"{row['rules']}", flush=True)  # fmt: skip
    return row


def full_watts(choice: MachineChoice) -> float:
    """What a choice draws as the program counts it: each replica with its full share."""
    return sum(milliwatts(rated) * count for rated, count in choice.replicas) / MILLIWATT


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


def _followed(case: RatedRequest, name: str, goal: str) -> MachineChoice | None:
    """A rule's choice by price or watts; None where it finds none."""
    try:
        return follow_rule(case, name, goal)
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
