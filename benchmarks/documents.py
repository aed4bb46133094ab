"""Results with when and on what they were measured: date, commit, processor, load, versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import tvm

from benchmarks.result_rows import write_rows
from tvm_hetero.platform.host import read_processor


def write_document(path: Path, what: str, rows: Iterable[Mapping[str, Any]], **head: Any) -> None:
    """Write the head (date, commit, machine, load, versions and what is given) and the rows."""
    document = {
        "what": what,
        "date": datetime.date.today().isoformat(),
        "commit": commit_name(),
        "machine": read_processor().name,
        "cores": os.cpu_count(),
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


def commit_name() -> str:
    """Return the commit's short name, with a + where files are not as it has them.

    Results are no matter: of several rows the first one's changes them.
    """
    here = Path(__file__).parent
    name = _git("-C", str(here), "describe", "--always")
    changed = _git("-C", str(here.parent), "status", "--porcelain", "-uno", ":!benchmarks/results")
    return f"{name or 'unknown'}{'+' if changed else ''}"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout.strip()


def rounded(value: Any) -> Any:
    """Four figures of every float in a document."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
