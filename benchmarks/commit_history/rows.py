"""Rows of the history: a line of JSON for each commit and machine, oldest first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.commit_history.turns import Figure, as_document
from benchmarks.provenance import commit_name
from tvm_hetero.errors import FormatError
from tvm_hetero.platform.host import read_processor
from tvm_hetero.util.documents import write_atomic


@dataclass(frozen=True)
class HistoryRow:
    """What was measured of a commit on a machine.

    ``others`` is how many cores other programs kept busy meanwhile.
    """

    commit: str
    date: str
    machine: str
    others: float
    figures: Mapping[str, Figure]


def this_machine() -> str:
    """Processor and cores: what two rows must have in common to be compared."""
    return f"{read_processor().name}, {os.cpu_count()} cores"


def make_row(figures: Mapping[str, Figure], others: float) -> HistoryRow:
    """A row of this commit, here and now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    return HistoryRow(commit_name(), now, this_machine(), round(others, 2), figures)


def read_history(path: Path) -> list[HistoryRow]:
    """All rows; none where there is no file.

    Raises
    ------
    FormatError
        If a line is no row.
    """
    found = []
    for number, line in enumerate(_text_of(path).splitlines(), start=1):
        try:
            row = json.loads(line)
            row["figures"] = {name: Figure(**each) for name, each in row["figures"].items()}
            found.append(HistoryRow(**row))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise FormatError(
                f"{path}, line {number}: expected a row as --add writes it; mend or remove it"
            ) from None
    return found


def append_row(path: Path, row: HistoryRow) -> None:
    """Add a row at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**asdict(row), "figures": as_document(row.figures)}, allow_nan=False)
    write_atomic(path, f"{_text_of(path)}{text}\n")


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read: {error}") from None
