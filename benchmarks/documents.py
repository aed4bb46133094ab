"""Results as JSON with one row a line, so that a run anew is a small difference."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import tvm

from tvm_hetero.platform.host import read_processor
from tvm_hetero.util.documents import write_atomic


def write_document(path: Path, what: str, rows: Iterable[Mapping[str, Any]], **head: Any) -> None:
    """Write the head (machine, load, versions and what is given) and the rows."""
    document = {
        "what": what,
        "machine": read_processor().name,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "versions": {"tvm": tvm.__version__, "onnxruntime": onnxruntime.__version__},
        **rounded(head),
    }
    lines = ",\n".join(f"  {json.dumps(rounded(row))}" for row in rows)
    text = json.dumps(document, indent=1).removesuffix("\n}")
    write_atomic(path, f'{text},\n "rows": [\n{lines}\n ]\n}}\n')


def commit_name() -> str:
    """Return the commit's short name, with a + where files are not as it has them."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def rounded(value: Any) -> Any:
    """Four figures of every float in a document."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
