"""The tables of docs/performance.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.execution.page import RIVALS, error, over_rivals, over_single
from benchmarks.parts import Document, Row, by
from benchmarks.performance import family_table, goal_groups, ratio


def tables(found: Mapping[str, Document]) -> list[str]:
    """All tables of the page, in its order."""
    rows = {name: document["rows"] for name, document in found.items()}
    goals = [
        table([about, "wanted", "reached", "met"], lines)
        for about, lines in goal_groups(dict(found)).items()
    ]
    return [
        *goals,
        latency_table(rows["latency"]),
        steady_table(rows["steady_state"]),
        big_little_table(rows["big_little"]),
        decoding_table(rows["decode"]),
        models_table(rows["models"]),
        family_table(rows["kernels"]),
        machines_table(found),
    ]


def machines_table(found: Mapping[str, Document]) -> str:
    """Where and with what each file was measured."""
    lines = []
    for name, document in found.items():
        target = document["target"]
        versions = ", ".join(f"{what} {which}" for what, which in document["versions"].items())
        lines.append([
            f"`{name}`", document["machine"], document["cores"],
            target["mcpu"] if isinstance(target, dict) else target, f"{document['load']:.1f}",
            versions,
        ])  # fmt: skip
    return table(["file", "machine", "cores", "target", "load", "versions"], lines)


def latency_table(rows: Sequence[Row]) -> str:
    """Plans for latency, ms."""
    heads = ["model", "batch", "one device", "plan", "predicted", "error", "bound", "speed-up",
             "ONNX Runtime, 2 threads"]  # fmt: skip
    lines = []
    for row in rows:
        times = [row[key] for key in ("single_median_s", "plan_median_s", "predicted_s")]
        lines.append([
            row["model"], row["batch"], *(f"{1e3 * t:.2f}" for t in times),
            f"{100 * error(row):+.1f} %", f"{1e3 * row['bound_s']:.2f}",
            f"{row['single_median_s'] / row['plan_median_s']:.2f}",
            f"{1e3 * row['ort_median_s']:.2f}",
        ])  # fmt: skip
    return table(heads, lines)


def steady_table(rows: Sequence[Row]) -> str:
    """Plans for throughput, images per second."""
    heads = ["model", "one device", "plan", "predicted", "plan / one device", "best rival",
             "plan / rival"]  # fmt: skip
    lines = []
    for row in rows:
        rates = row["median"]
        best = max(RIVALS, key=lambda rival: rates[rival])
        lines.append([
            row["model"], f"{rates['single']:.1f}", f"{rates['plan']:.1f}",
            f"{row['predicted']:.1f}", f"{over_single(row):.2f}",
            f"{rates[best]:.1f} ({_NAMES[best]})", f"{over_rivals(row):.2f}",
        ])  # fmt: skip
    return table(heads, lines)


def decoding_table(rows: Sequence[Row]) -> str:
    """Decoders, tokens per second."""
    heads = ["weights", "batch", "one core", "two devices", "predicted", "two devices / one core",
             "best of PyTorch", "two devices / PyTorch"]  # fmt: skip
    by_case: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_case.setdefault((row["weights"], row["batch"]), {})[row["side"]] = row
    lines = []
    for (weights, batch), sides in by_case.items():
        one, two = sides["one core"]["tokens_s"], sides["two devices, three groups"]
        peers = [row["tokens_s"] for side, row in sides.items() if side.startswith("PyTorch")]
        both = two["tokens_s"]
        beside = [f"{max(peers):.0f}", f"{both / max(peers):.1f}"] if peers else ["", ""]
        lines.append([
            weights, batch, f"{one:.0f}", f"{both:.0f}", f"{two['predicted_s']:.0f}",
            f"{both / one:.2f}", *beside,
        ])  # fmt: skip
    return table(heads, lines)


def big_little_table(rows: Sequence[Row]) -> str:
    """Two unlike cores, ms a batch."""
    heads = ["model", "objective", "batch", "fast core alone", "plan", "speed-up",
             "bound on the speed-up", "ONNX Runtime, both cores"]  # fmt: skip
    lines = []
    for row in rows:
        one, both = row["single_median_s"], row["plan_median_s"]
        lines.append([
            row["model"], row["objective"], row["batch"], f"{1e3 * one:.2f}", f"{1e3 * both:.2f}",
            f"{one / both:.2f}", f"{one / row['bound_s']:.2f}", f"{1e3 * row['ort_median_s']:.2f}",
        ])  # fmt: skip
    return table(heads, lines)


def models_table(rows: Sequence[Row]) -> str:
    """Whole models without any partition, ms an image."""
    cores = list(by(rows, "cores"))
    heads = ["model"]
    for count in cores:
        where = f"{count} core{'s' * (count > 1)}"
        heads += [f"ours, {where}", f"ONNX Runtime, {where}", f"ours / ONNX Runtime's, {where}"]
    lines = []
    for model, mine in by(rows, "model").items():
        cells = [model]
        for row in sorted(mine, key=lambda row: cores.index(row["cores"])):
            times = [f"{1e3 * row[key]:.2f}" for key in ("ours_s", "ort_s")]
            cells += [*times, f"{ratio(row):.2f}"]
        lines.append(cells)
    return table(heads, lines)


_NAMES = {
    "threads": "our build, 2 threads",
    "ort_threads": "ONNX Runtime, 2 threads",
    "ort_batches": "ONNX Runtime, batches",
    "ort_processes": "ONNX Runtime, 2 processes",
    "ort_process_batches": "ONNX Runtime, 2 processes with batches",
}


def table(heads: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """A Markdown table with everything to the left."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
