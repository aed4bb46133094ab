"""The part of build/results/performance.md that tells how near kernels are to the memory's pace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.parts import Document, Row, by, goal, machine, table

# Share of the core's copy bandwidth that one token is to reach.
SHARE_GOAL = 0.8
_HEADS = ["kernel", "of", "type", "rows", "MB", "µs", "GB/s", "of copying", "GFLOP/s", "error"]


def one_token(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The kernels that read weights or caches for one token, by kind and type."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["rows"] == 1:
            found.setdefault(f"{row['kind']}, {row['dtype']}", []).append(row)
    return found


def _goals(document: Document) -> list[list[str]]:
    lines = []
    for name, rows in one_token(document["rows"]).items():
        least = min(rows, key=lambda row: float(row["share"]))
        reached = f"{100 * least['share']:.1f} % ({least['case']}, {least['where']})"
        lines.append(
            goal(f"one token's {name} ({document['target']}): share of what the core copies, least",
                 f"≥ {100 * SHARE_GOAL:.0f} %", reached, least["share"] >= SHARE_GOAL)
        )  # fmt: skip
    return lines


def _kernels(document: Document) -> str:
    sections = [
        f"## Kernels of a decoding step ({document['target']})", "",
        "Bytes that a kernel must read from memory (weights with their scales, the rows of a "
        "cache), and how fast it reads them, beside what the core copies in turns with it, bytes "
        "read and written counted. Rows are sequences that are computed together, or tokens of a "
        "prompt (*chunk*): with more of them the arithmetic takes longer than the memory. The "
        "error is that beside float64 with weights of before they were rounded, which were "
        f"normally distributed. The core computes {document['peak_gflops']:.0f} GFLOP/s at most.",
        "", machine(document), "",
    ]  # fmt: skip
    for kind, rows in by(document["rows"], "kind").items():
        sections += [f"### {kind}", "", table(_HEADS, [_line(row) for row in rows]), ""]
    return "\n".join(sections)


def _line(row: Row) -> list[str]:
    return [
        row["case"], row["where"], row["dtype"], str(row["rows"]), f"{row['bytes'] / 1e6:.1f}",
        f"{row['us']:.0f}", f"{row['gbs']:.1f}", f"{100 * row['share']:.0f} %",
        f"{row['gflops']:.0f}", f"{row['error']:.0e}",
    ]  # fmt: skip


GOALS: dict[str, Callable[[Document], list[list[str]]]] = {"decode_kernels": _goals}
SECTIONS: dict[str, Callable[[Document], str]] = {"decode_kernels": _kernels}
