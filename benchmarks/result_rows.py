"""Results on disk: JSON, a head and then one row a line, so that a run anew differs little."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from tvm_hetero.util.documents import write_atomic


def write_rows(path: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write head and rows, whole or not at all; a head that does not say when and where is told."""
    lines = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in rows)
    text = json.dumps({**head, **provenance(), **head}, indent=1, allow_nan=False).removesuffix(
        "\n}"
    )
    write_atomic(path, f'{text},\n "rows": [\n{lines}\n ]\n}}\n')


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of the last run; none before the first."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return rows
