"""The table of docs/pim.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Row, percent, table


def pim_table(rows: Sequence[Row]) -> str:
    """A line for each case: GPU alone, with the memory that computes, and what a paper reports."""
    lines = []
    for row in rows:
        there = ", ".join(
            op if share > 0.995 else f"{op} {percent(share)}"
            for op, share in row["on_pim"].items()
            if share > 0.02
        )
        lines.append([
            row["system"], f"{row['model']}, {row['context']}",
            str(row["batch"]), f"{row['alone']:.4g}", f"{row['both']:.4g}",
            percent(row["gap"]), f"{row['times']:.2f}", f"{row['at_most']:.2f}",
            row["reported"], there or "nothing",
        ])  # fmt: skip
    heads = ["system", "model, context", "batch", "alone, tokens/s", "with it",
             "gap", "times", "at most", "reported, times", "computed in memory"]  # fmt: skip
    return table(heads, lines)
