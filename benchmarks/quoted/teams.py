"""The tables of docs/teams.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Document, Row, by, table

_SIDES = {"teams": "teams", "all": "one device of both", "ort": "ONNX Runtime"}
_ONE, _ALL, _TEAMS = "one core", "one device of two cores", "teams of two cores"


def tables(scale: Document, decode: Document, disturbed: Sequence[Row]) -> list[str]:
    """All tables of the page, in its order."""
    return [
        disturbed_table(disturbed),
        decode_table(decode["rows"]),
        scale_table(scale["rows"]),
    ]


def disturbed_table(rows: Sequence[Row]) -> str:
    """What is left of the pace, and how long the tail is, while a program takes half of a core."""
    heads = ["half of a core taken", *(f"{side}, {what}" for side in _SIDES.values()
                                       for what in ("pace kept", "p99 / median"))]  # fmt: skip
    lines = []
    for model, sides in by(rows, "model").items():
        of = {row["side"]: row for row in sides}
        cells = []
        for side in _SIDES:
            row = of[side]
            cells.append(f"{100 * row['quiet_s'] / row['disturbed_s']:.0f} %")
            cells.append(f"{row['last_s'] / row['median_s']:.2f}")
        lines.append([model, *cells])
    return table(heads, lines)


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
