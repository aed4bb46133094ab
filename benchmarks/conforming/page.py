"""docs/onnx-operators.md: what is taken of each ONNX operator, out of the results alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.conforming.engines import NETWORKS, RAW, RIGHT, ROUNDING, VALUES, WRONG
from benchmarks.conforming.summary import ALL

_NAMES = 4
_HEAD = """# Which ONNX operators are supported

Made by `python -m benchmarks.conformance --page` out of `benchmarks/results/conformance.json`; not
written by hand. Tests are those of onnx {onnx}'s own backend suite, each run on two CPU devices and
compared as onnx's runner does ({date}, commit {commit}).

*Raw*: as the suite has it, with every operand handed over at run time. *With values*: inputs that
decide shapes are fixed (`values=`, `--value`), where the refusal asks for them. *As in networks*:
parameters (shapes, axes, bounds, weights, scales) are constants, as exporters write them. What is
not right is refused with a reason unless it says otherwise. *Rounding*: outside of the suite's
tolerance, but within two units in the last place of the output's greatest value.
"""


def page(document: Mapping[str, Any]) -> str:
    """Return the page."""
    rows = [row for row in document["rows"] if not row["operator"].startswith("(")]
    full = [row for row in rows if row[NETWORKS] == row["tests"]]
    partly = [row for row in rows if 0 < row[NETWORKS] < row["tests"]]
    never = [row for row in rows if not row[NETWORKS]]
    head = _HEAD.format(onnx=document["onnx"], date=document["date"], commit=document["commit"])
    parts = [
        head,
        _counts(document["counts"]),
        f"## Full: {len(full)} of {len(rows)} operators\n\nAll tests of these are right, as in "
        "networks; in brackets how many there are, and of them raw where that is fewer.\n\n"
        + ", ".join(_full(row) for row in full)
        + ".",
        f"## Partly: {len(partly)}\n\n" + _table(partly),
        f"## Not: {len(never)}\n\n" + _table(never),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _counts(counts: Mapping[str, Any]) -> str:
    lines = [
        "| tests | number | raw | with values | as in networks | wrong | rounding | "
        "exceptions, crashes | ONNX Runtime | of those, as in networks |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, row in counts.items():
        bad = [row[v].get(WRONG, 0) for v in (RAW, VALUES, NETWORKS)]
        near = [row[v].get(ROUNDING, 0) for v in (RAW, VALUES, NETWORKS)]
        other = [
            sum(row[v].get(o, 0) for o in ("exception", "crash", "timeout"))
            for v in (RAW, VALUES, NETWORKS)
        ]
        cells = [kind, row["tests"]]
        cells += [_share(row[v].get(RIGHT, 0), row["tests"]) for v in (RAW, VALUES, NETWORKS)]
        cells += [max(bad), max(near), max(other), _share(row["onnxruntime"], row["tests"])]
        cells.append(_share(row[f"{NETWORKS}_of_onnxruntime"], row["onnxruntime"]))
        bold = "**" if kind == ALL else ""
        lines.append("| " + " | ".join(f"{bold}{cell}{bold}" for cell in cells) + " |")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})" if whole else "-"


def _full(row: Mapping[str, Any]) -> str:
    raw = "" if row[RAW] == row["tests"] else f"; raw {row[RAW]}"
    return f"{row['operator']} ({row['tests']}{raw})"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| operator | tests | raw | as in networks | ONNX Runtime | what is missing |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["operator"], row["tests"], row[RAW], row[NETWORKS], row["onnxruntime"]]
        lines.append("| " + " | ".join(str(cell) for cell in [*cells, _missing(row)]) + " |")
    return "\n".join(lines)


def _missing(row: Mapping[str, Any]) -> str:
    """Return the reasons of a row, each with some of its tests (those of the node itself)."""
    found = []
    for why, tests in row.get("fails", {}).items():
        plain = [test for test in tests if "_expanded" not in test]
        if plain:
            reason = why.removeprefix("refused: ").replace("|", "\\|")
            more = f", ... ({len(plain)})" if len(plain) > _NAMES else ""
            found.append(f"{reason}: {', '.join(f'`{t}`' for t in plain[:_NAMES])}{more}")
    return "; ".join(found)
