"""Results with when and on what they were measured: date, commit, processor, load, versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import tvm

from benchmarks.provenance import commit_name, provenance
from benchmarks.result_rows import write_rows


def write_document(path: Path, what: str, rows: Iterable[Mapping[str, Any]], **head: Any) -> None:
    """Write the head (date, commit, machine, load, versions and what is given) and the rows."""
    document = {
        "what": what,
        **provenance(),
        "load": round(os.getloadavg()[0], 1),
        "versions": versions(),
        **rounded(head),
    }
    write_rows(path, document, map(rounded, rows))


def versions() -> dict[str, str]:
    """Return those of what is measured here: of OpenVINO too, where it is installed."""
    found = {"tvm": tvm.__version__, "onnxruntime": onnxruntime.__version__}
    if importlib.util.find_spec("openvino") is not None:
        found["openvino"] = importlib.metadata.version("openvino")
    return found


def dated(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row that says of which commit and day it is: others of its file may be older."""
    return {**row, "commit": commit_name(), "date": datetime.date.today().isoformat()}


def rounded(value: Any) -> Any:
    """Four figures of every float in a document."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
