"""The part of build/results/performance.md that tells how plans run, and the goals of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.parts import Document, Row, goal, machine, table
from benchmarks.scheduling.runner import geometric_mean

# What is meant to be reached: the plan's rate over one device's; shares by which a prediction may
# be off; microseconds of a segment on one worker and on two; growth of the soak's resident memory,
# and what a request of it leaves behind: bytes in use, blocks of Python's.
STEADY_GOAL = 1.9
ERROR_MEDIAN, ERROR_WORST = 0.05, 0.10
SEGMENT_GOALS = {1: 2.0, 2: 5.0}
GROWTH, LEFT_BYTES, LEFT_BLOCKS = 0.01, 1.0, 0.01
COPIES = "copies"
_UNREST = (
    "*Unrest* says by how much medians stand above the fastest runs; while that is more than 5 % a "
    "case is measured again, up to four times: then other machines on the host are busy."
)
RIVALS = ("threads", "ort_threads", "ort_batches", "ort_processes", "ort_process_batches")


def over_single(row: Row) -> float:
    """The plan's images per second over one device's."""
    return float(row["median"]["plan"] / row["median"]["single"])


def over_rivals(row: Row) -> float:
    """The plan's images per second over the best rival's."""
    return float(row["median"]["plan"] / max(row["median"][rival] for rival in RIVALS))


def over_copies(row: Row) -> float | None:
    """The plan's images per second over those of one device's build on each core.

    None of a row that is older than this side.
    """
    copies = row["median"].get(COPIES)
    return None if copies is None else float(row["median"]["plan"] / copies)


def error(row: Row) -> float:
    """By which share the measured median is above the prediction."""
    return float(row["plan_median_s"] / row["predicted_s"] - 1)


def goals(found: Mapping[str, Document]) -> list[list[str]]:
    """Lines for the table of goals, of those benchmarks that have results."""
    lines: list[list[str]] = []
    for name, make in _GOALS.items():
        if name in found:
            lines += make(found[name])
    return lines


def _steady_goals(document: Document) -> list[list[str]]:
    rows = document["rows"]
    lines = []
    for what, ratio, wanted in (
        ("one device's", over_single, STEADY_GOAL),
        ("the best rival's", over_rivals, 1.0),
    ):
        least, mean = min(rows, key=ratio), geometric_mean([ratio(row) for row in rows])
        text = f"{ratio(least):.2f} ({least['model']}), mean {mean:.2f}"
        lines.append(
            goal(f"steady state of two cores: images/s over {what}, least", f"≥ {wanted:g}",
                 text, ratio(least) >= wanted)
        )  # fmt: skip
    return lines


def _latency_goals(document: Document) -> list[list[str]]:
    errors = [abs(error(row)) for row in document["rows"]]
    return [
        goal(f"latency of plans, measured against predicted: {which} error",
             f"≤ {100 * limit:g} %", f"{100 * reached:.1f} %", reached <= limit)
        for which, reached, limit in (
            ("median", statistics.median(errors), ERROR_MEDIAN),
            ("worst", max(errors), ERROR_WORST),
        )
    ]  # fmt: skip


def _dispatch_goals(document: Document) -> list[list[str]]:
    lines = []
    for workers, limit in SEGMENT_GOALS.items():
        ours = [row["best"] for row in document["rows"]
                if row["runner"] == "executor" and row["workers"] == workers
                and row["what"].startswith("segment")]  # fmt: skip
        where = "on one worker" if workers == 1 else "that changes workers"
        lines.append(goal(f"an empty segment {where}", f"< {limit:g} µs",
                          f"{max(ours):.2f} µs", max(ours) < limit))  # fmt: skip
    return lines


def _soak_goals(document: Document) -> list[list[str]]:
    wrong, growth = document["wrong"] + document["lost"], document["growth"]
    return [
        goal("soak: requests lost, wrong or out of order", "0", str(wrong), wrong == 0),
        goal("soak: tensors allocated after the warm-up", "0", str(document["allocations"]),
             document["allocations"] == 0),
        *_leak_goals(document),
        goal("soak: growth of resident memory, last third over first", f"≤ {100 * GROWTH:g} %",
             f"{100 * growth:+.2f} %", growth <= GROWTH),
    ]  # fmt: skip


def _leak_goals(document: Document) -> list[list[str]]:
    heap, blocks = document["heap_growth"], document["block_growth"]
    return [
        goal("soak: bytes that a request leaves in use", f"< {LEFT_BYTES:g}", f"{heap:+.2f}",
             heap < LEFT_BYTES),
        goal("soak: blocks of Python's that a request leaves in use", f"< {LEFT_BLOCKS:g}",
             f"{blocks:+.4f}", blocks < LEFT_BLOCKS),
    ]  # fmt: skip


def _steady(document: Document) -> str:
    heads = ["model", "one device", "**plan**", "predicted", "two copies", "two threads",
             "ORT, 2 threads", "ORT, batches", "ORT, 2 processes", "ORT, 2 pr., batches",
             "plan / one device", "plan / two copies", "plan / best rival", "others",
             "link, µs"]  # fmt: skip
    lines = []
    for row in document["rows"]:
        rates = row["median"]
        sides = ("single", "plan", None, COPIES, *RIVALS)
        figures = [rates.get(side) if side else row["predicted"] for side in sides]
        lines.append([
            row["model"], *(_or_none(figure, 1) for figure in figures),
            f"{over_single(row):.2f}", _or_none(over_copies(row), 2), f"{over_rivals(row):.2f}",
            *_circumstances(row),
        ])  # fmt: skip
    return "\n".join([
        "## Two cores in the steady state", "",
        "Images per second, the median of "
        f"{document['rounds']} rounds of {document['seconds']:g} s in which all sides took turns. "
        "*One device* is one core alone, batches in a stream; the *plan* has two devices of a core "
        f"each, {document['batch']} images in a batch; *two copies* is what one device runs, on "
        "each core, with streams of their own: what the cores leave of twice one device; "
        "*two threads* is our build for one device "
        "of both cores; *ORT, batches* is ONNX Runtime with two threads that takes a whole batch "
        "at once, *ORT, 2 processes* in two processes of one thread, each pinned to a core, image "
        "by image or with half a batch at once. *Others* "
        "says how many cores other programs kept busy, *link* what a hand-over between the two "
        "cores took: one figure or another, as the processors of this virtual machine share a "
        "cache of their host or not.", "",
        machine(document), "", table(heads, lines), "",
    ])  # fmt: skip


def _disturbed(document: Document) -> str:
    sides = ("plan", "apart", "ort_process_batches")
    lines = [
        [row["model"]]
        + [
            f"{row['quiet'][side]:.1f} → {row['disturbed'][side]:.1f} "
            f"({100 * row['disturbed'][side] / row['quiet'][side]:.0f} %)"
            for side in sides
        ]
        for row in document["rows"]
    ]
    return "\n".join([
        "## When another program takes half of a core", "",
        f"Images per second of a stream on two cores, {document['batch']} images in a batch, "
        f"medians of {document['rounds']} rounds of {document['seconds']:g} s in turns; then while "
        "another program wants one of the cores all the time and gets half of it, which leaves "
        "75 % of both. In the *plan* workers that are alike run each other's steps; *apart* is the "
        "same plan with each for itself. ONNX Runtime has two processes of one thread, each "
        "pinned to a core, which do not wait for each other.", "",
        machine(document), "",
        table(["model", "**plan**", "apart", "ORT, 2 processes, batches"], lines), "",
    ])  # fmt: skip


def _latency(document: Document) -> str:
    return "\n".join([
        "## Predicted and measured", "",
        "Latency of plans for two equal devices of a core each, in ms: the proven bound of the "
        "problem, the plan's predicted and its measured makespan (median), the best single device "
        "and ONNX Runtime with two threads (the elements of a batch one after another or all at "
        "once, whichever is quicker). " + _UNREST, "",
        machine(document), "",
        table(["model", "batch", "bound", "predicted", "**measured**", "error",
               "measured / bound", "one device", "speed-up", "ONNX Runtime", "others",
               "unrest", "link, µs"],
              [[row["model"], row["batch"], *_times(row), f"{100 * error(row):+.1f} %",
                _over(row, "plan_median_s", "bound_s"), _ms(row["single_median_s"]),
                _over(row, "single_median_s", "plan_median_s"), _ms(row["ort_median_s"]),
                *_with_unrest(row)] for row in document["rows"]]), "",
    ])  # fmt: skip


def _big_little(document: Document) -> str:
    return "\n".join([
        "## A big core and a little one", "",
        f"Core 0 runs all that it can, core 1 code for {document['little']}. Times per batch in "
        "ms, medians: of one run for latency, between two batches of a stream for throughput. "
        "*Possible* is the fast core's measured time over the bound: the largest speed-up that the "
        "costs leave. ONNX Runtime has two threads at full width on both cores. " + _UNREST, "",
        machine(document), "",
        table(["model", "objective", "batch", "fast core", "bound", "predicted", "**measured**",
               "**speed-up**", "possible", "ONNX Runtime", "others", "unrest",
               "link, µs"],
              [[row["model"], row["objective"], row["batch"], _ms(row["single_median_s"]),
                *_times(row), _over(row, "single_median_s", "plan_median_s"),
                _over(row, "single_median_s", "bound_s"), _ms(row["ort_median_s"]),
                *_with_unrest(row)] for row in document["rows"]]), "",
    ])  # fmt: skip


def _or_none(figure: float | None, digits: int) -> str:
    return "–" if figure is None else f"{figure:.{digits}f}"


def _circumstances(row: Row) -> list[str]:
    """Cores that others kept busy, and how long a hand-over took (`execution.mode`)."""
    mark = " (changed)" if row["mode"]["moved"] else ""
    return [f"{row['others']:.1f}", f"{1e6 * row['mode']['handover_s']:.2f}{mark}"]


def _with_unrest(row: Row) -> list[str]:
    """The same, and how calm the host was (`execution.unrest`); a dash of a row older than that."""
    others, link = _circumstances(row)
    return [others, f"{100 * row['unrest']:.0f} %" if "unrest" in row else "–", link]


def _times(row: Row) -> list[str]:
    return [_ms(row[key]) for key in ("bound_s", "predicted_s", "plan_median_s")]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"


def _over(row: Row, above: str, below: str) -> str:
    return f"{row[above] / row[below]:.2f}"


def _dispatch(document: Document) -> str:
    return "\n".join([
        "## What the executor costs", "",
        f"Microseconds, over {document['runs']} runs; in chains of {document['segments']} segments "
        "those of one segment. The kernel copies 16 numbers and is part of every figure in which "
        "it occurs. What each line means stands in `benchmarks/dispatch.py`.", "",
        machine(document), "",
        table(["what", "by", "workers", "best", "median", "p99"],
              [[row["what"], row["runner"], row["workers"],
                *(f"{row[key]:.2f}" for key in ("best", "median", "p99"))]
               for row in document["rows"]]), "",
    ])  # fmt: skip


def _soak(document: Document) -> str:
    counts: dict[str, Any] = document["counts"]
    threads = statistics.median(row["threads"] for row in document["rows"])
    memory = [row["rss_bytes"] / 2**20 for row in document["rows"]]
    return "\n".join([
        "## A soak", "",
        f"{document['callers']} threads submitted to one executor ({document['model']} on two "
        f"devices) for {document['seconds']:.0f} s, and cancelled some or gave them too little "
        f"time: {document['submitted']} requests, of which "
        + ", ".join(f"{count} {what}" for what, count in counts.items())
        + f"; {document['wrong']} wrong or out of order, {document['lost']} lost. Resident memory "
        f"{min(memory):.0f} to {max(memory):.0f} MiB, growth from the first third to the last "
        f"{100 * document['growth']:+.2f} %"
        + _left_behind(document)
        + f"; threads of the process: {threads:g}, "
        f"{document['more_threads']:+g} at the end; tensors allocated after the warm-up: "
        f"{document['allocations']}.", "",
        machine(document), "",
    ])  # fmt: skip


def _left_behind(document: Document) -> str:
    """What was in use between requests; glibc's arenas are what else is resident."""
    heap = [rest["heap_bytes"] / 2**20 for rest in document["rests"]]
    return (
        f" (freed memory stays in glibc's arenas, whose records make it grow); in use while no "
        f"request was in flight: {min(heap):.2f} to {max(heap):.2f} MiB of the heap, "
        f"{document['heap_growth']:+.2f} bytes a request"
    )


_GOALS: dict[str, Callable[[Document], list[list[str]]]] = {
    "steady_state": _steady_goals,
    "latency": _latency_goals,
    "dispatch": _dispatch_goals,
    "soak": _soak_goals,
}

SECTIONS: dict[str, Callable[[Document], str]] = {
    "steady_state": _steady,
    "disturbed": _disturbed,
    "latency": _latency,
    "big_little": _big_little,
    "dispatch": _dispatch,
    "soak": _soak,
}
