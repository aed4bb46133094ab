"""The tables of docs/online.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.parts import Document, Row, by, table

_POLICIES = ("static", "lls", "odin-2", "odin-10", "resolve")
_PAPERS = ("lls", "odin-2", "odin-10")
# Requests that a disturbance has to last for a policy to have time for an answer.
_LONG = 100
_LEVELS = ("50", "60", "70", "75", "80", "85", "90", "95")


def tables(document: Document) -> list[str]:
    """All tables of the page, in its order."""
    rows = by(document["rows"], "measure")
    grid = rows["grid"]
    return [
        summary_table(rows),
        pipe_search_table(rows["pipe-search"]),
        shisha_table(rows["shisha"]),
        grid_table([row for row in grid if row["mode"] == "flowing"], "requests flowing"),
        grid_table([row for row in grid if row["mode"] == "paper"], "trials one at a time"),
        level_table([row for row in grid if row["mode"] == "flowing"]),
        lasting_table(rows["lasting"]),
        scaling_table(rows["scaling"]),
        recorded_table(rows),
    ]


def summary_table(rows: dict[str, list[Row]]) -> str:
    """One line for each figure that the papers name."""
    pipe, shisha, lasting = rows["pipe-search"], rows["shisha"], rows["lasting"]
    small = [row for row in shisha if row["network"] in ("resnet50", "yolov3")]
    lines = [
        ["Pipe-search: exhaustive search takes longer by", "70",
         _times(_mean(pipe, "exhaustive")), "no search"],
        ["Pipe-search: random walk takes longer by", "11",
         _times(_mean(pipe, "random")), "no search"],
        ["Pipe-search: share of trials near the best", "79 %",
         _percent(_mean(pipe, "near")), "no search"],
        ["Shisha: share of the space explored", "0.12 %",
         _small(max(row["explored"] for row in shisha)), "no search"],
        ["Shisha: others converge slower by", "35", _times(_converge(shisha)), "no search"],
        ["Shisha: of the best, ResNet-50 and YOLOv3", "100 %",
         _percent(min(row["reached"] for row in small)),
         _percent(min(row["resolve"] for row in small))],
        *_grid_lines(rows["grid"]),
        ["of the best under a lasting disturbance, worst row", "-",
         _percent(min(row["odin-10"] for row in lasting)),
         _percent(min(row["resolve"] for row in lasting))],
        ["the same after two trials at most", "-", "-",
         _percent(min(row["two_trials"] for row in lasting))],
    ]  # fmt: skip
    return table(["measure", "paper", "ours after the paper", "`resolve`"], lines)


def _grid_lines(grid: Sequence[Row]) -> list[list[str]]:
    lines = []
    for mode, name in (("paper", "trials one at a time"), ("flowing", "flowing")):
        rows = [row for row in grid if row["mode"] == mode]
        for alpha, said in (("2", "14.1 %"), ("10", "15.8 %")):
            lines.append([
                f"ODIN, alpha {alpha}: latency below that of LLS, {name}", said,
                _percent(-_against(rows, f"odin-{alpha}", "latency")),
                _percent(-_against(rows, "resolve", "latency")),
            ])  # fmt: skip
        lines.append([
            f"ODIN: throughput above that of LLS, {name}", "19 %",
            _percent(max(_against(rows, f"odin-{a}", "throughput") for a in ("2", "10"))),
            _percent(_against(rows, "resolve", "throughput")),
        ])  # fmt: skip
    return lines


def _against(rows: Sequence[Row], policy: str, key: str) -> float:
    """By how much a figure differs from that of LLS, mean over the cells of the grid."""
    return statistics.fmean(cell[policy][key] / cell["lls"][key] - 1 for cell in _cells(rows))


def _cells(rows: Sequence[Row]) -> list[dict[str, Row]]:
    groups: dict[tuple[str, str, int, int], dict[str, Row]] = {}
    for row in rows:
        key = row["network"], row["mode"], row["period"], row["duration"]
        groups.setdefault(key, {})[row["policy"]] = row
    return list(groups.values())


def recorded_table(rows: dict[str, list[Row]]) -> str:
    """What the policies reach on recorded tables, a line for each study."""
    flowing = [row for row in rows["recorded-grid"] if row["mode"] == "flowing"]
    cells = [cell for cell in _cells(flowing) if cell["static"]["duration"] >= _LONG]
    scaling = _by_places(rows["recorded-scaling"])
    lines = []
    for what, studied, key in (
        ("grid, mean, of the best", cells, "of_best"),
        ("4 to 52 places, mean, of the peak", scaling, "of_peak"),
    ):
        means = [statistics.fmean(cell[p][key] for cell in studied) for p in _POLICIES]
        lines.append([what, *map(_percent, means), ""])
    lasting = rows["recorded-lasting"]
    worst = [_percent(min(row[p] for row in lasting)) for p in _POLICIES]
    lines.append(
        ["lasting, worst, of the best", *worst, _percent(min(row["two_trials"] for row in lasting))]
    )
    means = [statistics.fmean(row[p] for row in lasting) for p in _POLICIES]
    two = statistics.fmean(row["two_trials"] for row in lasting)
    lines.append(["lasting, mean, of the best", *map(_percent, means), _percent(two)])
    return table(["recorded", *_POLICIES, "`resolve`, two trials"], lines)


def _by_places(rows: Sequence[Row]) -> list[dict[str, Row]]:
    found: dict[int, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["places"], {})[row["policy"]] = row
    return list(found.values())


def pipe_search_table(rows: Sequence[Row]) -> str:
    """Pipe-search on a Jetson TX2's cores."""
    lines = [
        [row["network"], f"{row['space']:.3g}", row["trials"], _percent(row["reached"]),
         _percent(row["near"]), _times(row["exhaustive"]), _times(row["random"]),
         _percent(row["resolve"]), _percent(row["resolve_hints"])]
        for row in rows
    ]  # fmt: skip
    heads = ["network", "configurations", "trials", "of the best", "trials near it",
             "exhaustive, times", "random, times", "`resolve`", "by hints"]  # fmt: skip
    return table(heads, lines)


def shisha_table(rows: Sequence[Row]) -> str:
    """Shisha on fast and slow places."""
    lines = [
        [row["network"], f"{row['fast']} + {row['slow']}", f"{row['space']:.2g}", row["trials"],
         _small(row["explored"]), _percent(row["reached"]),
         *(f"{_times(row[name])} ({_percent(row[f'{name}_reached'])})"
           for name in ("annealing", "hill-climbing", "pipe-search")),
         _percent(row["resolve"]), _percent(row["resolve_hints"])]
        for row in rows
    ]  # fmt: skip
    heads = ["network", "fast + slow", "configurations", "trials", "explored", "of the best",
             "annealing", "hill climbing", "Pipe-search", "`resolve`", "by hints"]  # fmt: skip
    return table(heads, lines)


def _converge(rows: Sequence[Row]) -> float:
    names = ("annealing", "hill-climbing", "pipe-search")
    return statistics.fmean(row[name] for row in rows for name in names)


def grid_table(rows: Sequence[Row], head: str) -> str:
    """Throughput over that of the best configurations, for each period and duration."""
    lines = []
    for (period, duration), cell in _by_cell(rows).items():
        means = [statistics.fmean(r["of_best"] for r in cell[name]) for name in _POLICIES]
        lines.append([f"{period}, {duration}", *map(_percent, means)])
    total = [statistics.fmean(r["of_best"] for r in rows if r["policy"] == p) for p in _POLICIES]
    lines.append(["mean", *map(_percent, total)])
    return table([f"period, duration ({head})", *_POLICIES], lines)


def _by_cell(rows: Sequence[Row]) -> dict[tuple[int, int], dict[str, list[Row]]]:
    found: dict[tuple[int, int], dict[str, list[Row]]] = {}
    for row in rows:
        cell = found.setdefault((row["period"], row["duration"]), {})
        cell.setdefault(row["policy"], []).append(row)
    return found


def level_table(rows: Sequence[Row]) -> str:
    """The share of requests at which the pipeline's pace was below a share of its peak."""
    lines = [
        [f"{level} %",
         *(_percent(statistics.fmean(r["requests_below"][level] for r in rows if r["policy"] == p))
           for p in _POLICIES)]
        for level in _LEVELS
    ]  # fmt: skip
    return table(["of the peak", *_POLICIES], lines)


def lasting_table(rows: Sequence[Row]) -> str:
    """What each policy settles on under a disturbance that stays: worst and mean."""
    lines = []
    for network, own in by(rows, "network").items():
        for word, pick in _PICKS:
            figures = [_percent(pick([row[p] for row in own])) for p in _POLICIES]
            two = _percent(pick([row["two_trials"] for row in own]))
            lines.append([f"{network}, {word} of {len(own)}", *figures, two])
    return table(["network", *_POLICIES, "`resolve`, two trials"], lines)


_PICKS: tuple[tuple[str, Callable[[list[float]], float]], ...] = (
    ("worst", min),
    ("mean", statistics.fmean),
)


def scaling_table(rows: Sequence[Row]) -> str:
    """Throughput and latency on more and more places."""
    lines = []
    for places, own in by(rows, "places").items():
        cell = {row["policy"]: row for row in own}
        figures = [_percent(cell[p]["of_best"]) for p in _POLICIES]
        delays = [f"{1e3 * cell[p]['latency']:.0f}" for p in ("odin-10", "resolve")]
        lines.append([places, *figures, *delays])
    heads = ["places", *_POLICIES, "odin-10, ms", "resolve, ms"]
    return table(heads, lines)


def worst_of_resolve(rows: Sequence[Row]) -> float:
    """`resolve` over the best of the papers' policies, the smallest over cells and disturbances."""
    of_best = [
        {name: row["of_best"] for name, row in cell.items()}
        for cell in _cells([row for row in rows if row["measure"] == "grid"])
    ]
    of_best += [row for row in rows if row["measure"] == "lasting"]
    return min(row["resolve"] / max(row[name] for name in _PAPERS) for row in of_best)


def _mean(rows: Sequence[Row], key: str) -> float:
    return statistics.fmean(row[key] for row in rows)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _small(share: float) -> str:
    return f"{100 * share:.2g} %"


def _times(factor: float) -> str:
    return f"{factor:.2g}" if factor < 10 else f"{factor:,.0f}"
