"""When, on what and of which sources something was measured."""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

from tvm_hetero.platform.host import read_processor


def provenance() -> dict[str, str | int]:
    """Date, commit, processor and its cores, as heads of results have them."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit_name(),
        "machine": read_processor().name,
        "cores": os.cpu_count() or 1,
    }


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
