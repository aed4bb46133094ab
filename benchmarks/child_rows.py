"""Measurements in a process of their own, with its own cores and threads: the child prints rows.

A line of JSON a row; whatever else the child prints is let pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm

ROOT = Path(__file__).resolve().parent.parent
# It would take longer to load than all the rest, for nothing.
_WITHOUT_TORCH = "tvm_hetero.processes.child_main"


def rows_of_child(module: str, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows that ``python -m module --child ...`` prints.

    Raises
    ------
    SystemExit
        The child ends with an error.
    """
    command = [sys.executable, "-m", _WITHOUT_TORCH, module, "--child", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                yield json.loads(line)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")


def keep_to_cores(count: int) -> None:
    """Pin this process, and TVM's threads, to so many cores; before any kernel runs."""
    mine = sorted(os.sched_getaffinity(0))[:count]
    os.sched_setaffinity(0, mine)
    tvm.get_global_func("runtime.config_threadpool")(-2, count, [str(core) for core in mine])
