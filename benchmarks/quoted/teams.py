"""The tables of docs/teams.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Document, Row, by, table

_ONE, _ALL, _TEAMS = "one core", "one device of two cores", "teams of two cores"


def tables(scale: Document, decode: Document) -> list[str]:
    """All tables of the page, in its order."""
    return [decode_table(decode["rows"]), scale_table(scale["rows"])]


def decode_table(rows: Sequence[Row]) -> str:
    """Tokens a second of one sequence, by the type of the weights."""
    heads = ["weights", "one core, tokens/s", "both cores for all", "teams", "over one core"]
    lines = []
    for weights, sides in by(rows, "weights").items():
        rate = {row["side"]: row["tokens_s"] for row in sides}
        shown = [f"{rate[side]:.1f}" for side in (_ONE, _ALL, _TEAMS)]
        lines.append([weights, *shown, f"{rate[_TEAMS] / rate[_ONE]:.2f}"])
    return table(heads, lines)


def scale_table(rows: Sequence[Row]) -> str:
    """By how much plans are ahead of the best baseline, and how much is not ruled out."""
    counts = sorted({row["cores"] for row in rows})
    heads = ["ahead of the best baseline, %", *(f"{count} cores" for count in counts)]
    lines = []
    for model, mine in by(rows, "model").items():
        cells = {row["cores"]: _percent(row["ahead"], row["most"]) for row in mine}
        lines.append([model, *(cells.get(count, "-") for count in counts)])
    return table(heads, lines)


def _percent(ahead: float, most: float) -> str:
    return f"{100 * abs(ahead):.1f} of {100 * abs(most):.1f}"
