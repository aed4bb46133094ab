"""The tables of docs/method/documents.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Document, Row, by
from benchmarks.quoted.performance import table

# A reader's name in the results: what its import is called there.
_READERS = {
    "yaml": "yaml",
    "json.loads": None,
    "parse_document": None,
    "ours": "ours",
    "msgspec": "msgspec",
    "json, msgspec.convert": None,
    "json, cattrs": "cattrs",
}
_SHOWN = 90


def tables(document: Document) -> list[str]:
    """All tables of the page, in its order."""
    rows = by(document["rows"], "measure")
    return [machine_table(document), times_table(document["rows"]), cases_table(rows["case"])]


def machine_table(document: Document) -> str:
    """Where, with what and on what was measured."""
    size = next(row["file_mb"] for row in document["rows"] if row["measure"] == "problem")
    versions = ", ".join(f"{name} {version}" for name, version in document["libraries"].items())
    heads = ["measured on", "cores", "load", "with", "problem"]
    line = [document["machine"], document["cores"], f"{document['load']:.1f}", versions]
    return table(heads, [[*line, f"{document['tasks']} tasks, {size:.1f} MB"]])


def times_table(rows: Sequence[Row]) -> str:
    """Import, large problem and small platform of each reader."""
    found = {(row["measure"], row["reader"]): row for row in rows if row["measure"] != "case"}
    heads = ["reader", "import, ms", "MB", "problem, s", "peak, MB", "platform, ms"]
    lines = []
    for reader, library in _READERS.items():
        imported, problem = found.get(("import", library), {}), found.get(("problem", reader), {})
        platform = found.get(("platform", reader), {})
        lines.append([
            f"`{reader}`" if reader != "ours" else reader,
            _figure(imported, "seconds", 1e3, ".1f"), _figure(imported, "mb", 1, ".1f"),
            _figure(problem, "seconds", 1, ".2f"), _figure(problem, "mb", 1, ".0f"),
            _figure(platform, "seconds", 1e3, ".3f"),
        ])  # fmt: skip
    return table(heads, lines)


def _figure(row: Row, key: str, unit: float, form: str) -> str:
    return format(unit * row[key], form) if key in row else row.get("says", "-")


def cases_table(rows: Sequence[Row]) -> str:
    """What each reader says; of msgspec also what `convert` says where that is something else."""
    lines = []
    for case, answers in by(rows, "case").items():
        said = {row["reader"]: _said(row) for row in answers}
        decoded, converted = said["msgspec"], said["json, msgspec.convert"]
        if converted != decoded:
            decoded += f"; `convert`: {converted}"
        lines.append([case, said["ours"], decoded, said["json, cattrs"]])
    return table(["case", "ours", "msgspec", "cattrs"], lines)


def _said(row: Row) -> str:
    """What is refused as the error's text, what is read in bold."""
    text = row["says"]
    if "refused" not in row:
        return text
    text = text.removeprefix("refused: ").removeprefix("read as ")
    shown = (text[:_SHOWN] + "..." if len(text) > _SHOWN else text).replace("|", "\\|")
    if not row["refused"]:
        return f"**read as** `` {shown} ``"
    raw = "" if row["printable"] else ", not printable"
    end = f" ({row['characters']} characters{raw})" if len(text) > _SHOWN or raw else ""
    return f"`` {shown} ``{end}"
