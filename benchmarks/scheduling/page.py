"""All that the suites of the scheduler measured, as one page, and the pictures of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.parts import Document, percent, seconds, table
from benchmarks.scheduling import charts
from benchmarks.scheduling.goals import goals
from benchmarks.scheduling.latency import HEURISTICS
from benchmarks.scheduling.runner import Row, geometric_mean
from tvm_hetero.problem.schedule import OPTIMAL_GAP

_HEAD = """# What the scheduler reaches

Every figure here is from `benchmarks/results/schedule_*.json`, which `benchmarks/schedule.py`
writes; `python -m benchmarks.results_page` makes this page of them. All algorithms of a case ran on
one machine with the same time limit (some again after a change: `--solver`, `--case`), and every
schedule passed `tvm_hetero.check`. A *gap* is (value - lower bound) / value with a bound that is
proven for the problem.
"""


def read_results(results: Path) -> dict[str, Document]:
    """The results of the suites, by the suite's name."""
    return {path.stem.removeprefix("schedule_"): json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(results.glob("schedule_*.json"))}  # fmt: skip


def write_page(results: Path, folder: Path) -> None:
    """Write scheduling.md and its pictures."""
    found = read_results(results)
    write_pictures(found, folder / "pictures")
    parts = [_HEAD, _goals({suite: document["rows"] for suite, document in found.items()})]
    for suite, section in _SECTIONS.items():
        if suite in found:
            document = found[suite]
            note = f"{document['machine']}, load {document['load']:.1f}, "
            note += f"{document['time_limit']:g} s for each algorithm."
            parts.append(section(document["rows"]) + f"\n{note}\n")
    (folder / "scheduling.md").write_text("\n".join(parts), encoding="utf-8")


def write_pictures(found: Mapping[str, Document], folder: Path) -> None:
    """Write the pictures of those suites that have results."""
    folder.mkdir(exist_ok=True)
    for suite, draw in _PICTURES.items():
        if suite in found:
            (folder / f"{suite}.svg").write_text(draw(found[suite]["rows"]), encoding="utf-8")


def _goals(found: dict[str, list[Row]]) -> str:
    """The table of goals; nothing where there are no results."""
    lines = [[g.text, g.wanted, g.reached, "yes" if g.met else "**no**"] for g in goals(found)]
    if not lines:
        return ""
    heads = ["goal", "wanted", "reached", "met"]
    return "\n".join(["## What was meant to be reached", "", table(heads, lines), ""])


def grouped(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """Rows that have a value: by case (and batch), then by solver."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if "value" in row:
            batch = f", batch {row['batch']}" if row["batch"] > 1 else ""
            found.setdefault(row["case"] + batch, {})[row["solver"]] = row
    return found


def quality(rows: list[Row]) -> list[tuple[str, float, float, int, int]]:
    """Of each algorithm: mean and worst in units of auto's, how often better, of how many."""
    cases = grouped(rows)
    lines = []
    for other in [*HEURISTICS, "cpsat", "milp", "milp-split"]:
        ratios = [by[other]["value"] / by["auto"]["value"] for by in cases.values() if other in by]
        if ratios:
            better = sum(1 for ratio in ratios if ratio < 1 - 1e-9)
            lines.append((other, geometric_mean(ratios), max(ratios), better, len(ratios)))
    return lines


def quality_table(rows: list[Row]) -> str:
    """The same as a table."""
    return table(["algorithm", "mean", "worst", "better than auto", "cases"],
                 [[name, f"{mean:.3f}", f"{worst:.3f}", better, count]
                  for name, mean, worst, better, count in quality(rows)])  # fmt: skip


def _latency_picture(rows: list[Row]) -> str:
    return charts.bars(
        "Latency above that of auto, worst case",
        [(name, worst - 1, f"mean {mean:.3f}, worst {worst:.3f}")
         for name, mean, worst, _, _ in quality(rows)],
    )  # fmt: skip


def _latency(rows: list[Row]) -> str:
    cases = grouped(rows)
    lines = []
    for case, by in cases.items():
        auto, split = by["auto"], by.get("milp-split", by["auto"])
        cells = [case, auto["tasks"], percent(auto["gap"]), seconds(auto["seconds"])]
        cells += [seconds(split["seconds"])]
        for other in ("single", "heft", "annealing"):
            known = by[other]["value"] if other in by else math.nan
            cells.append(f"{known / auto['value']:.3f}")
        lines.append(cells)
    proven = sum(1 for by in cases.values() if by["auto"]["status"] == "optimal")
    return "\n".join([
        "## Latency, one element", "",
        f"`auto` proves {proven} of {len(cases)} plans optimal. Values of the others are in units"
        " of its own: 1.05 is 5 % slower.", "",
        "![Latency of each algorithm in units of auto's](pictures/latency.svg)", "",
        quality_table(rows), "",
        table(["case", "tasks", "gap", "s", "s, milp-split", "best single", "HEFT", "annealing"],
              lines), "",
    ])  # fmt: skip


def _proofs(rows: list[Row]) -> str:
    platforms: dict[str, list[Row]] = {}
    for row in rows:
        platforms.setdefault(row["case"].split(" on ")[1], []).append(row)
    lines = []
    for name, mine in platforms.items():
        proven = [row for row in mine if row.get("gap", 1.0) <= OPTIMAL_GAP]
        slowest = max(row["seconds"] for row in proven)
        middle = sorted(row["seconds"] for row in proven)[len(proven) // 2]
        open_ = [f"{row['case'].split(' on ')[0]} {percent(row['gap'])}"
                 + (" (memory binds)" if row.get("memory_binds") else "")
                 for row in mine if row not in proven]  # fmt: skip
        lines.append([name, mine[0]["devices"], f"{len(proven)} of {len(mine)}", seconds(middle),
                      seconds(slowest), ", ".join(open_)])  # fmt: skip
    heads = ["platform", "devices", "proven", "s, median", "s, slowest", "gaps of the others"]
    return "\n".join([
        "## Proofs", "",
        "`auto` on every CNN and transformer of the zoo whose modules have at most 30 tasks, on"
        " every platform of one machine.", "", table(heads, lines), "",
    ])  # fmt: skip


def _pairs(rows: list[Row]) -> Iterable[tuple[str, str, bool, Row, Row]]:
    """Whom splitting is compared with, on what, from the same start or not; its row, theirs."""
    cases: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cases.setdefault((row["against"], row["case"]), []).append(row)
    for (whole, case), mine in cases.items():
        for started in (True, False):
            split, other = (
                next(r for r in mine if r["solver"] == s and r["started"] == started)
                for s in ("milp-split", whole)
            )
            yield whole, case, started, split, other


def _factor(split: Row, other: Row) -> tuple[str, float]:
    """How many times faster splitting was; with ``>`` where the other was not done."""
    return "" if other["gap"] <= 1e-6 else "> ", other["seconds"] / split["seconds"]


def _splitting_picture(rows: list[Row]) -> str:
    shown = []
    for whole, case, started, split, other in _pairs(rows):
        if started and "value" in split and "value" in other:
            sign, factor = _factor(split, other)
            shown.append((f"{case} / {whole}", math.log10(max(1.01, factor)),
                          f"{sign}{factor:,.0f} times"))  # fmt: skip
    return charts.bars("Times faster than the whole graph, same start (log)", shown)


def splitting_table(rows: list[Row], starts: Sequence[bool] = (True, False)) -> str:
    """Splitting beside whole graphs, from the same start, or each from its own."""
    lines = []
    for whole, case, started, split, other in _pairs(rows):
        if started not in starts:
            continue
        words = [case, whole, "yes" if started else "no"]
        if "value" not in split or "value" not in other:
            failed = "nothing found" if "value" not in other else "-"
            lines.append([*words, "", "", failed, "", ""])
            continue
        sign, factor = _factor(split, other)
        lines.append([*words, seconds(split["seconds"]), percent(split["gap"]),
                      seconds(other["seconds"]), percent(other["gap"]),
                      f"{sign}{factor:,.0f}"])  # fmt: skip
    heads = ["network", "against", "same start", "s, split", "gap", "s, whole", "gap", "factor"]
    return table(heads, lines)


def _splitting(rows: list[Row]) -> str:
    return "\n".join([
        "## What splitting gives", "",
        "MILP-SPLIT against the exact MILP (HiGHS) and against CP-SAT on the whole graph. A factor"
        " with > is a floor: the whole graph was not closed within its time.", "",
        "![Factors](pictures/splitting.svg)", "", splitting_table(rows), "",
    ])  # fmt: skip


def _plain(title: str, text: str, rows: list[Row]) -> str:
    """A table of every row: value, gap, seconds."""
    lines = []
    for row in rows:
        case = row["case"] + (f", batch {row['batch']}" if row["batch"] > 1 else "")
        name = row["solver"] + (f" ({row['symmetry']})" if "symmetry" in row else "")
        if "value" not in row:
            lines.append([case, row["tasks"], row["devices"], name, "none", "", "", ""])
            continue
        single = row["single"] / row["value"] if row.get("single") else math.nan
        lines.append([case, row["tasks"], row["devices"], name, f"{row['value']:.5g}",
                      percent(row["gap"]), seconds(row["seconds"]),
                      "" if math.isnan(single) else f"{single:.2f}"])  # fmt: skip
    heads = ["case", "tasks", "devices", "algorithm", "value", "gap", "s", "times best single"]
    return "\n".join([f"## {title}", "", text, "", table(heads, lines), ""])


def _hard(rows: list[Row]) -> str:
    return _plain("Modules that nothing cuts", "Random wirings and modules of 50 tasks.", rows)


def _throughput(rows: list[Row]) -> str:
    text = "Seconds per batch of the busiest device. *Stages*: every device holds one contiguous"
    text += " part of the pipeline (`objective.contiguous`). The graphs of 2,000 tasks have three"
    return _plain("Throughput", text + " times the time that is given below.", rows)


def _batches(rows: list[Row]) -> str:
    text = "Latency of whole batches. The bound holds for every division of a batch."
    return _plain("Batches", text, rows)


def _memory(rows: list[Row]) -> str:
    text = "Latency where the accelerators hold only a part of the weights."
    return _plain("Memory limits", text, rows)


def _nodes(rows: list[Row]) -> str:
    text = "One decoding step of large models; then DiviML's comparison of orderings that break"
    return _plain("Many nodes", text + " the symmetry of equal devices and nodes.", rows)


def _scaling_picture(rows: list[Row]) -> str:
    lists = {
        solver: [(float(row["tasks"]), row["seconds"]) for row in rows if row["solver"] == solver]
        for solver in ("heft", "auto")
    }
    return charts.log_lines(
        "Seconds over tasks; dashed: growth in proportion",
        [("heft and its bound", lists["heft"]), ("auto", lists["auto"])],
        ("tasks", "seconds"),
    )


def _scaling(rows: list[Row]) -> str:
    lines = [[f"{row['tasks']:,}", row["solver"], seconds(row["seconds"]), percent(row["gap"]),
              f"{row['peak_bytes'] / 2**30:.2f}"] for row in rows if "value" in row]  # fmt: skip
    heads = ["tasks", "algorithm", "s", "gap", "peak GiB"]
    text = "Random layered graphs. auto ends early where it closes the problem, and else uses its"
    text += " time; above 20,000 tasks it asks only what takes near-linear time."
    picture = "![Seconds over tasks](pictures/scaling.svg)"
    return "\n".join(["## Large graphs", "", text, "", picture, "", table(heads, lines), ""])


def bounds_table(rows: list[Row]) -> str:
    """How near each bound comes to the best known value."""
    rungs: dict[str, list[Row]] = {}
    for row in rows:
        rungs.setdefault(row["rung"], []).append(row)
    lines = []
    for name, mine in rungs.items():
        slowest = seconds(max(row["seconds"] for row in mine))
        lines.append([name, *_shares([row["share"] for row in mine]), slowest, len(mine)])
    best: dict[str, float] = {}
    for row in rows:
        best[row["case"]] = max(best.get(row["case"], 0.0), row["share"])
    lines.append(["the best of them", *_shares(list(best.values())), "", len(best)])
    platforms: dict[str, list[float]] = {}
    for case, share in best.items():
        platforms.setdefault(case.split(" on ")[1], []).append(share)
    for name, shares in platforms.items():
        lines.append([f"... on {name}", *_shares(shares), "", len(shares)])
    return table(["bound", "mean", "worst", "s, at most", "cases"], lines)


def _bounds(rows: list[Row]) -> str:
    text = "In per cent of the best known value, before any exact solving."
    return "\n".join(["## Lower bounds", "", text, "", bounds_table(rows), ""])


def _shares(shares: Sequence[float]) -> tuple[str, str]:
    """Mean and worst."""
    return percent(math.fsum(shares) / len(shares)), percent(min(shares))


_PICTURES: dict[str, Callable[[list[Row]], str]] = {
    "latency": _latency_picture,
    "splitting": _splitting_picture,
    "scaling": _scaling_picture,
}

_SECTIONS: dict[str, Callable[[list[Row]], str]] = {
    "latency": _latency,
    "proofs": _proofs,
    "hard": _hard,
    "splitting": _splitting,
    "batches": _batches,
    "memory": _memory,
    "throughput": _throughput,
    "nodes": _nodes,
    "scaling": _scaling,
    "bounds": _bounds,
}
