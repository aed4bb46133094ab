"""The tables of the README, from benchmarks/results.

    python -m benchmarks.readme             # prints them
    python -m benchmarks.readme --write     # puts them there, and writes docs/performance.md

The tests see to it that README and page hold what the results do: after a benchmark has been run
anew, ``--write`` is what makes that so again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.execution.page import RIVALS, error, over_rivals, over_single
from benchmarks.performance import write_page
from tvm_hetero.util.documents import write_atomic

ROOT = Path(__file__).resolve().parent.parent
README, RESULTS = ROOT / "README.md", ROOT / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or put them where they are quoted."""
    given = sys.argv[1:] if arguments is None else arguments
    tables = (latency_table(), steady_table(), decoding_table())
    if given == ["--write"]:
        write_atomic(README, with_tables(README.read_text(encoding="utf-8"), tables))
        write_page(RESULTS, ROOT / "docs")
    elif given:
        raise SystemExit(f"benchmarks.readme takes nothing or --write, not {' '.join(given)!r}")
    else:
        print(*tables, sep="\n\n")


def with_tables(text: str, tables: Sequence[str]) -> str:
    """The text with each table in the place of the one that has the same head."""
    blocks = text.split("\n\n")
    for table in tables:
        head = table.partition("\n")[0]
        places = [i for i, block in enumerate(blocks) if block.partition("\n")[0] == head]
        if len(places) != 1:
            raise ValueError(f"expected one table {head!r} in the README, found {len(places)}")
        blocks[places[0]] = table
    return "\n\n".join(blocks)


def latency_table() -> str:
    """Plans for latency, ms."""
    heads = ["model", "batch", "one device", "plan", "predicted", "error", "bound", "speed-up",
             "ONNX Runtime, 2 threads"]  # fmt: skip
    lines = []
    for row in _rows("latency"):
        times = [row[key] for key in ("single_median_s", "plan_median_s", "predicted_s")]
        lines.append([
            row["model"], row["batch"], *(f"{1e3 * t:.2f}" for t in times),
            f"{100 * error(row):+.1f} %", f"{1e3 * row['bound_s']:.2f}",
            f"{row['single_median_s'] / row['plan_median_s']:.2f}",
            f"{1e3 * row['ort_median_s']:.2f}",
        ])  # fmt: skip
    return _table(heads, lines)


def steady_table() -> str:
    """Plans for throughput, images per second."""
    heads = ["model", "one device", "plan", "predicted", "plan / one device", "best rival",
             "plan / rival"]  # fmt: skip
    lines = []
    for row in _rows("steady_state"):
        rates = row["median"]
        best = max(RIVALS, key=lambda rival: rates[rival])
        lines.append([
            row["model"], f"{rates['single']:.1f}", f"{rates['plan']:.1f}",
            f"{row['predicted']:.1f}", f"{over_single(row):.2f}",
            f"{rates[best]:.1f} ({_NAMES[best]})", f"{over_rivals(row):.2f}",
        ])  # fmt: skip
    return _table(heads, lines)


def decoding_table() -> str:
    """Decoders, tokens per second."""
    heads = ["weights", "batch", "one core", "two devices", "predicted", "two devices / one core",
             "best of PyTorch", "two devices / PyTorch"]  # fmt: skip
    by_case: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in _rows("decode"):
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
    return _table(heads, lines)


_NAMES = {
    "threads": "our build, 2 threads",
    "ort_threads": "ONNX Runtime, 2 threads",
    "ort_batches": "ONNX Runtime, batches",
    "ort_processes": "ONNX Runtime, 2 processes",
    "ort_process_batches": "ONNX Runtime, 2 processes with batches",
}


def _rows(name: str) -> list[dict[str, Any]]:
    document = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = document["rows"]
    return rows


def _table(heads: list[str], lines: list[list[Any]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


if __name__ == "__main__":
    main()
