"""What the project means to reach, and what the committed results say: the first table of the page.

Each goal is a sentence, the figure that was wanted, the figure that was reached (computed from the
rows of the suites, never typed), and whether the one keeps the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from benchmarks.scheduling.latency import HEURISTICS
from benchmarks.scheduling.runner import Row, geometric_mean
from tvm_hetero.problem.schedule import OPTIMAL_GAP

Rows = Mapping[str, list[Row]]
_PROVEN = 1e-6


@dataclass(frozen=True)
class Goal:
    """A goal and what became of it; `reached` is text for people, `met` the verdict."""

    text: str
    wanted: str
    reached: str
    met: bool


def goals(found: Rows) -> list[Goal]:
    """The goals of the suites that have results."""
    result = []
    for suites, judge in _JUDGES:
        if all(found.get(suite) for suite in suites):
            result += judge(found)
    return result


def _solved(rows: Iterable[Row], solver: str = "auto") -> list[Row]:
    return [row for row in rows if row.get("solver") == solver and "value" in row]


def _worst(rows: Iterable[Row]) -> float:
    return max((row["gap"] for row in rows), default=math.nan)


def _per_cent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _proofs(found: Rows) -> list[Goal]:
    # Latency where memory binds has a goal of its own.
    rows = [row for row in _solved(found["proofs"]) if not row.get("memory_binds")]
    proven = [row for row in rows if row["gap"] <= _PROVEN]
    slowest = max(row["seconds"] for row in proven)
    large = max(row["seconds"] for row in rows if row["case"].startswith("gpt-96 on sched-nvl"))
    return [
        Goal("latency, CNNs and GPTs with modules of at most 30 tasks that fit into the memories of"
             " ten platforms: proven, in s",
             "all, 10 s", f"{len(proven)} of {len(rows)}, {slowest:.2f} s",
             len(proven) == len(rows) and slowest < 10),
        Goal("GPT-96, s", "1 s", f"{large:.2f} s", large < 1),
    ]  # fmt: skip


def _quality(found: Rows) -> list[Goal]:
    by: dict[str, dict[str, float]] = {}
    for row in found["latency"]:
        if "value" in row:
            by.setdefault(row["case"], {})[row["solver"]] = row["value"]
    best = [(min(v[h] for h in HEURISTICS if h in v), v["auto"], v["heft"]) for v in by.values()]
    above = max(auto / heuristic - 1 for heuristic, auto, _ in best)
    heft = [heft / auto for _, auto, heft in best]
    mean, worst = geometric_mean(heft) - 1, max(heft) - 1
    return [
        Goal("latency: auto above the best heuristic, worst case", "0 %",
             _per_cent(max(0.0, above)), above <= OPTIMAL_GAP),
        Goal("HEFT above auto: mean, worst case", "5 %, 30 %",
             f"{_per_cent(mean)}, {_per_cent(worst)}", mean >= 0.05 and worst >= 0.3),
    ]  # fmt: skip


def _hard(found: Rows) -> list[Goal]:
    rows = _solved(found["hard"])
    worst = max(rows, key=lambda row: row["gap"])
    return [
        Goal("random wirings of 32 nodes and modules of 50 tasks: gap in 60 s", "3 %",
             f"{_per_cent(worst['gap'])} ({worst['case']})", worst["gap"] <= 0.03),
    ]  # fmt: skip


def _splitting(found: Rows) -> list[Goal]:
    pairs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in found["splitting"]:
        if "value" in row and row["started"]:
            pairs.setdefault((row["against"], row["case"].strip()), {})[row["solver"]] = row
    closed = [
        (pair["milp"]["tasks"], name, pair)
        for (whole, name), pair in pairs.items()
        if whole == "milp" and len(pair) == 2 and pair["milp"]["gap"] <= _PROVEN
    ]
    result = []
    if closed:
        _, name, pair = max(closed, key=lambda one: (one[0], one[1]))
        factor = pair["milp"]["seconds"] / pair["milp-split"]["seconds"]
        result.append(Goal(f"MILP-SPLIT against the exact MILP on {name}, times faster", "400",
                           f"{factor:.0f}", factor >= 400))  # fmt: skip
        worse = max(p["milp-split"]["value"] / p["milp"]["value"] - 1 for _, _, p in closed)
        result.append(Goal("MILP-SPLIT above the exact MILP, at most", "1 %",
                           _per_cent(max(0.0, worse)), worse <= 0.01))  # fmt: skip
    for family, wanted in (("inception", 4.0), ("gpt-24", 50.0), ("gpt-96", 200.0)):
        factors = [
            (pair["cpsat"]["seconds"] / pair["milp-split"]["seconds"], pair["cpsat"]["gap"])
            for (whole, name), pair in pairs.items()
            if whole == "cpsat" and family in name and len(pair) == 2
        ]
        if factors:
            factor, gap = min(factors)
            sign = "" if gap <= _PROVEN else "> "
            text = f"MILP-SPLIT against CP-SAT on all of {family}, times faster"
            reached = f"{sign}{factor:.1f}"
            result.append(Goal(text, f"{wanted:.0f}", reached, factor >= wanted))
    return result


def _batches(found: Rows) -> list[Goal]:
    rows = _solved(found["batches"])
    inception = _worst(row for row in rows if "inception" in row["case"])
    others = _worst(row for row in rows if "inception" not in row["case"])
    return [
        Goal("batches of 16 and 64, GPT and ResNet: gap", "5 %", _per_cent(others),
             others <= 0.05),
        Goal("batches of 16 and 64, Inception: gap", "5 %", _per_cent(inception),
             inception <= 0.05),
    ]  # fmt: skip


def _memory(found: Rows) -> list[Goal]:
    worst = _worst(_solved(found["memory"]))
    text = "latency where memory binds: gap"
    return [Goal(text, "5 %", _per_cent(worst), worst <= 0.05)]


def _throughput(found: Rows) -> list[Goal]:
    auto = _solved(found["throughput"])
    large = [row for row in auto if row["tasks"] >= 2000 and not row["stages"]]
    three = _worst(row for row in large if row["devices"] == 3)
    more = _worst(row for row in large if row["devices"] > 3)
    least: dict[str, float] = {}
    for row in found["throughput"]:
        if row["solver"] != "auto" and "value" in row:
            least[row["case"]] = min(row["value"], least.get(row["case"], math.inf))
    above = max(row["value"] / least[row["case"]] - 1 for row in auto)
    stages = [row for row in auto if row["stages"] and row["tasks"] <= 500]
    proven = sum(row["gap"] <= _PROVEN for row in stages)
    slowest = max(row["seconds"] for row in stages)
    return [
        Goal("throughput, 2,000 tasks on 3 devices: gap", "1 %", _per_cent(three), three <= 0.01),
        Goal("throughput, 2,000 tasks on 8 devices and more: gap", "2 %", _per_cent(more),
             more <= 0.02),
        Goal("throughput: auto above the best heuristic, worst case", "0 %",
             _per_cent(max(0.0, above)), above <= OPTIMAL_GAP),
        Goal("contiguous stages, up to 500 tasks: proven, in s", "all, 10 s",
             f"{proven} of {len(stages)}, {slowest:.1f} s",
             proven == len(stages) and slowest <= 10),
    ]  # fmt: skip


def _nodes(found: Rows) -> list[Goal]:
    rows = _solved(found["nodes"], "count-dp")
    case = [row for row in rows if row["case"].startswith("gpt3-175b on sched-6")]
    gap, slowest = _worst(case), max(row["seconds"] for row in case)
    # The later row of a case is auto's, where there is one.
    rows += _solved(found["nodes"])
    largest = list(
        {row["case"]: row for row in rows if row["case"].startswith("kimi-k2 on mixed-64")}.values()
    )
    return [
        Goal("GPT-3 on 6 servers: gap, s", "1 %, 5 s", f"{_per_cent(gap)}, {slowest:.2f} s",
             gap <= 0.01 and slowest <= 5),
        Goal("1T mixture of experts on 64 nodes: s (gap)", "60 s",
             ", ".join(f"{row['seconds']:.1f} s ({_per_cent(row['gap'])})" for row in largest),
             bool(largest) and all(row["seconds"] <= 60 for row in largest)),
    ]  # fmt: skip


def _scaling(found: Rows) -> list[Goal]:
    rows = sorted(_solved(found["scaling"]), key=lambda row: row["tasks"])
    last = rows[-1]
    memory = last["peak_bytes"] / 2**30
    return [
        Goal(f"{last['tasks']:,} tasks: s, GiB", "60 s, 4 GiB",
             f"{last['seconds']:.0f} s, {memory:.2f} GiB", last["seconds"] <= 60 and memory <= 4),
    ]  # fmt: skip


def _bounds(found: Rows) -> list[Goal]:
    best: dict[str, float] = {}
    for row in found["bounds"]:
        best[row["case"]] = max(best.get(row["case"], 0.0), row["share"])
    mean, worst = math.fsum(best.values()) / len(best), min(best.values())
    return [
        Goal("bounds before exact solving, of the best known value: mean, worst", "97 %, 85 %",
             f"{_per_cent(mean)}, {_per_cent(worst)}", mean >= 0.97 and worst >= 0.85),
    ]  # fmt: skip


_JUDGES: tuple[tuple[tuple[str, ...], Callable[[Rows], list[Goal]]], ...] = (
    (("proofs",), _proofs),
    (("hard",), _hard),
    (("splitting",), _splitting),
    (("latency",), _quality),
    (("batches",), _batches),
    (("memory",), _memory),
    (("throughput",), _throughput),
    (("nodes",), _nodes),
    (("scaling",), _scaling),
    (("bounds",), _bounds),
)
