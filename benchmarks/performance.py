"""All that was measured of kernels, models and whole plans, as one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.clusters import page as clusters
from benchmarks.decoding import page as decoding
from benchmarks.execution import page as execution
from benchmarks.parts import GOAL_HEADS, Document, Row, by, goal, machine, table
from benchmarks.scheduling.runner import geometric_mean

# What is meant to be reached: ONNX Runtime's time / ours for kernels (geometric mean, least),
# our time / ONNX Runtime's for models (geometric mean, worst), seconds of a build.
KERNEL_MEAN, KERNEL_LEAST = 1.0, 0.5
MODEL_MEAN, MODEL_WORST, BUILD_SECONDS = 1.1, 1.5, 15.0

_HEAD = """# What kernels and plans reach

Every figure here is from `benchmarks/results/NAME.json`, which `python -m benchmarks.NAME` writes
(`kernels`, `models`, `layouts`, `profiling`; `steady_state`, `disturbed`, `latency`, `big_little`,
`dispatch`, `soak`; `decode`, `decode_kernels`, `cluster`); `python -m benchmarks.results_page`
makes this page of them. Nothing was tuned.
"""


def read_results(results: Path) -> dict[str, Document]:
    """Those results that are there, by name."""
    return {
        name: json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        for name in _SECTIONS
        if (results / f"{name}.json").exists()
    }


def write_page(results: Path, folder: Path) -> None:
    """Write performance.md from those results that are there."""
    found = read_results(results)
    goals = table(GOAL_HEADS, [line for lines in goal_groups(found).values() for line in lines])
    parts = [_HEAD, "\n".join(["## What was meant to be reached", "", goals, ""])]
    parts += [section(found[name]) for name, section in _SECTIONS.items() if name in found]
    (folder / "performance.md").write_text("\n".join(parts), encoding="utf-8")


def goal_groups(found: dict[str, Document]) -> dict[str, list[list[str]]]:
    """Lines under `GOAL_HEADS`, by what they are about."""
    beyond = {**decoding.GOALS, **clusters.GOALS}
    return {
        "kernels and models": _goals(found),
        "plans and the executor": execution.goals(found),
        "decoding and clusters": [
            line for name, make in beyond.items() if name in found for line in make(found[name])
        ],
    }


def ratio(row: Row) -> float:
    """Our time over ONNX Runtime's, the least of each."""
    return float(row["ours_s"] / row["ort_s"])


def build_seconds(row: Row) -> float:
    """From the ONNX model to machine code."""
    return float(sum(row[step] for step in ("import_s", "lower_s", "schedule_s", "compile_s")))


def _goals(found: dict[str, Document]) -> list[list[str]]:
    lines: list[list[str]] = []
    if "kernels" in found:
        speeds = [1 / row["ratio"] for row in found["kernels"]["rows"]]
        mean, below = geometric_mean(speeds), sum(s < KERNEL_LEAST for s in speeds)
        rows = [row for row in found["kernels"]["rows"] if row["family"] != "lrn"]
        usual = geometric_mean([1 / row["ratio"] for row in rows])
        lines += [
            goal("kernels: ONNX Runtime's time / ours, geometric mean", f"≥ {KERNEL_MEAN}",
                 f"{mean:.2f}", mean >= KERNEL_MEAN),
            goal("the same without LRN, where ONNX Runtime is very slow", f"≥ {KERNEL_MEAN}",
                 f"{usual:.2f}", usual >= KERNEL_MEAN),
            goal("kernels: the least of them", f"≥ {KERNEL_LEAST}",
                 f"{min(speeds):.2f} ({below} of {len(speeds)} below)", not below),
        ]  # fmt: skip
    for cores, rows in by(found.get("models", {"rows": []})["rows"], "cores").items():
        what = f"models on {cores} core{'s' * (cores > 1)}: our time / ONNX Runtime's"
        mean, worst = geometric_mean([ratio(row) for row in rows]), max(rows, key=ratio)
        what += " (others kept the cores busy)" if _disturbed(rows) else ""
        lines += [
            goal(f"{what}, geometric mean", f"≤ {MODEL_MEAN}", f"{mean:.2f}", mean <= MODEL_MEAN),
            goal(f"{what}, worst", f"≤ {MODEL_WORST}", f"{ratio(worst):.2f} ({worst['model']})",
                  ratio(worst) <= MODEL_WORST),
        ]  # fmt: skip
    if "models" in found:
        slow = max(found["models"]["rows"], key=build_seconds)
        seconds = build_seconds(slow)
        lines.append(
            goal("models: import, lowering, schedules and compilation", f"≤ {BUILD_SECONDS:g} s",
                 f"{seconds:.1f} s ({slow['model']})", seconds <= BUILD_SECONDS)
        )  # fmt: skip
    for row in found.get("profiling", {"rows": []})["rows"]:
        if row["model"] == "resnet50":
            limit, seconds = found["profiling"]["goal_s"], row["profile_s"]
            lines.append(goal("profiling: all kernels of resnet50 on one target", f"≤ {limit:g} s",
                              f"{seconds:.1f} s", seconds <= limit))  # fmt: skip
    return lines


def _models(document: Document) -> str:
    sections = [
        "## Whole models", "",
        "Light models of the onnx wheel, random weights, batch 1, on as many threads as cores; the "
        "least of many runs in turns, in ms (one core: CPU time of the thread; more: wall clock), "
        "and in brackets the median. *Build* is CPU time: import, lowering, schedules, "
        "compilation. *Error* is the largest difference from ONNX Runtime's logits over their "
        "deviation. *Others* says how many cores other programs kept busy meanwhile: with two "
        "threads on two cores they cost both sides much.", "", machine(document), "",
    ]  # fmt: skip
    heads = ["model", "ours", "ONNX Runtime", "ours / ONNX Runtime's"]
    heads += ["build, s", "error", "others"]
    for cores, rows in by(document["rows"], "cores").items():
        lines = [
            [row["model"], *(_ms(row, side) for side in ("ours", "ort")), f"{ratio(row):.2f}",
             f"{build_seconds(row):.1f}", f"{row['error']:.0e}", f"{row['others']:.1f}"]
            for row in rows
        ]  # fmt: skip
        sections += [f"### {cores} core{'s' * (cores > 1)}", "", table(heads, lines), ""]
        if _disturbed(rows):
            sections += ["Not to be relied upon: others kept the cores busy (last column).", ""]
    return "\n".join([*sections, *_misses(document["rows"])])


_MOST_OTHERS = 0.3  # cores that others may keep busy while two are measured


def _disturbed(rows: list[Row]) -> bool:
    """Whether times of several threads were taken while other programs ran."""
    busy = sum(float(row["others"]) for row in rows) / len(rows)
    return all(row["cores"] > 1 for row in rows) and busy > _MOST_OTHERS


def _ms(row: Row, side: str) -> str:
    return f"{1e3 * row[f'{side}_s']:.2f} ({1e3 * row[f'{side}_median_s']:.2f})"


# Why a model takes longer than ONNX Runtime, as far as it is known.
_REASONS = {
    "resnet50": "its 3x3 convolutions take as long; what is left is 1x1 with stride 2 (every "
    "second column is gathered first) and 1x1 of 512 channels and more on 7x7 and 14x14 (a page "
    "of memory for each channel, presumably), where ONNX Runtime's activations are blocked",
    "squeezenet": "a network of 3 ms: the 1x1 of 512 to 1000 channels and the 3x3 on 55x55 are "
    "10 % slower than blocked ones, and each of 26 kernels stores to NCHW",
}


def _misses(rows: list[Row]) -> list[str]:
    missed = by([row for row in rows if ratio(row) > MODEL_MEAN], "model")
    if not missed:
        return []
    lines = [f"Above {MODEL_MEAN} of ONNX Runtime's time:", ""]
    for model, found in missed.items():
        where = ", ".join(f"{ratio(r):.2f} on {r['cores']}" for r in found)
        lines.append(f"- {model} ({where}): {_reason(model, found)}.")
    return [*lines, ""]


def _reason(model: str, missed: list[Row]) -> str:
    if _disturbed(missed):
        return "only where others kept the cores busy; to be measured on an idle machine"
    return _REASONS.get(model, "not looked into yet")


def _profiling(document: Document) -> str:
    heads = ["model", "kernels", "lower", "schedule", "compile", "measure", "compare", "all", "CPU",
             "spread, median", "largest", "not by rule"]  # fmt: skip
    steps = ("lower_s", "schedule_s", "compile_s", "measure_s", "compare_s", "profile_s", "cpu_s")
    rows = [
        [row["model"], row["kernels"], *(f"{row[step]:.1f}" for step in steps),
         f"{100 * row['spread_median']:.1f} %", f"{100 * row['spread_largest']:.0f} %",
         row["kernels"] - row["implementations"].get("rule", 0)]
        for row in document["rows"]
    ]  # fmt: skip
    return "\n".join([
        "## What it takes to know the costs", "",
        "Profiling every kernel of a model from nothing, on one core, with a helping child that "
        "compiles beside it; in s. *Compare* is what contests between implementations took; a "
        "spread is the lower quartile of the repeats over the smallest, less one.", "",
        machine(document), "", table(heads, rows), "",
    ])  # fmt: skip


def _kernels(document: Document) -> str:
    families = by(document["rows"], "family")
    sections = [
        "## Kernel by kernel", "",
        "One operator as a model of its own; one thread, readings in turns, the least; what a call "
        "costs is subtracted. *Default* is TVM's own loop nest with no schedule. *Peak* is that of "
        "a loop in C on the same core: multiply-adds "
        f"({document['peak_gflops']:.0f} GFLOP/s), or copying or reading as many bytes as the "
        "case does. ONNX Runtime computes convolutions blocked (NCHWc): its time has the "
        "reordering in and out, which a whole model does only at the edges.", "",
        machine(document), "",
        "ONNX Runtime's time over ours (above 1: ours is quicker):", "",
        family_table(document["rows"]), "",
    ]  # fmt: skip
    for name, rows in families.items():
        sections += [f"### {name}", "", table(_CASE_HEADS, map(_case, rows)), ""]
    return "\n".join(sections)


def family_table(rows: list[Row]) -> str:
    """Kernels by family, beside ONNX Runtime."""
    heads = ["family", "cases", "geometric mean", "least", f"below {KERNEL_LEAST}",
             "share of peak", "default's time / ours"]  # fmt: skip
    return table(heads, [_family(name, mine) for name, mine in by(rows, "family").items()])


def _family(name: str, rows: list[Row]) -> list[Any]:
    speeds = [1 / row["ratio"] for row in rows]
    shares = sorted(row["ours"] / row["peak"] for row in rows)
    over_default = [row["default_us"] / row["ours_us"] for row in rows if row["default_us"]]
    return [
        name, len(rows), f"{geometric_mean(speeds):.2f}", f"{min(speeds):.2f}",
        sum(s < KERNEL_LEAST for s in speeds), f"{100 * shares[len(shares) // 2]:.0f} %",
        f"{geometric_mean(over_default):.1f}",
    ]  # fmt: skip


_CASE_HEADS = [
    "case", "from", "rule", "unit", "ours", "default", "ONNX Runtime", "peak",
    "ONNX Runtime's time / ours",
]  # fmt: skip


def _case(row: Row) -> list[Any]:
    default = "" if row["default"] is None else f"{row['default']:.1f}"
    return [
        row["case"], row["where"], row["rule"], row["unit"], f"{row['ours']:.1f}", default,
        f"{row['ort']:.1f}", f"{row['peak']:.0f}", f"{1 / row['ratio']:.2f}",
    ]  # fmt: skip


def totals(rows: list[Row]) -> tuple[float, float, float]:
    """Milliseconds of all convolutions of a network: our rule, lanes channels, and blocked."""
    nchw, channels, blocked = (
        sum(row["times"] * row[key] for row in rows) / 1e3
        for key in ("nchw_us", "channels_us", "blocked_us")
    )
    return nchw, channels, blocked


def _layouts(document: Document) -> str:
    lines, ratios = [], []
    for network, rows in by(document["rows"], "network").items():
        nchw, channels, blocked = totals(rows)
        either = sum(r["times"] * min(r["nchw_us"], r["channels_us"]) for r in rows) / 1e3
        ratios.append((blocked / nchw, blocked / either))
        figures = [f"{value:.2f}" for value in (nchw, channels, either, blocked)]
        lines.append([network, *figures, f"{blocked / nchw:.2f}", f"{blocked / either:.2f}"])
    heads = ["network", "our rule", "lanes channels", "better of both", "NCHW16c"]
    heads += ["NCHW16c / our rule", "NCHW16c / better of both"]
    return "\n".join([
        "## Should activations stay blocked between convolutions?", "",
        "All convolutions of a network, each times how often it occurs, in ms on one core: by our "
        "rule, which reads and writes NCHW; by a kernel that has output channels as lanes always, "
        "on NCHW too; and by that kernel on NCHW16c (activations in blocks of 16 channels). It has "
        "the best of several register tiles for each convolution. Without epilogues, and without "
        "the transformations at the edges of the network.", "",
        machine(document), "",
        table(heads, lines), "",
        _verdict([geometric_mean(list(column)) for column in zip(*ratios, strict=True)]), "",
    ])  # fmt: skip


def _verdict(means: list[float]) -> str:
    over_rule, over_both = (100 * (1 - mean) for mean in means)
    decision = "not worth it" if means[1] > _WORTH_IT else "worth it, but not built yet"
    return (
        f"Blocked activations take {over_rule:.0f} % less time than our rule (geometric mean), and "
        f"{over_both:.0f} % less than the better of the two kernels on NCHW: that is what the "
        f"layout itself brings. {100 * (1 - _WORTH_IT):.0f} % were to decide: {decision}."
    )


# A layout for whole chains is worth its trouble where it takes less than this share of the time.
_WORTH_IT = 0.9


_SECTIONS = {
    "models": _models,
    **execution.SECTIONS,
    **decoding.SECTIONS,
    **clusters.SECTIONS,
    "layouts": _layouts,
    "profiling": _profiling,
    "kernels": _kernels,
}
