"""One file in processes of its own: imported, partitioned by the command line, run beside another.

A file is *right*; *wrong* (an output differs from ONNX Runtime's); *refused* (an error of ours,
exit status 1 or 2 of the command line); or worse: *exception*, *crash*, *timeout*.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.file_zoo.cases import FileCase
from benchmarks.file_zoo.contest import contest

ROOT = Path(__file__).resolve().parent.parent.parent
_LINE = 500
_ROUNDS, _QUICK_ROUNDS = 8, 1
_QUICK = ["--cost-model", "analytical", "--no-measure", "--time-limit", "1"]


@dataclass
class FileRow:
    """What became of a file; times in seconds, None where it did not get so far.

    `commit` is the one on which it was tried.
    """

    name: str
    source: str
    outcome: str
    reason: str = ""
    import_s: float | None = None
    partition_s: float | None = None
    error: float | None = None
    ours_s: float | None = None
    runtime_s: float | None = None
    ours_median_s: float | None = None
    runtime_median_s: float | None = None
    others: float = field(default=0.0)
    commit: str = ""

    @property
    def ratio(self) -> float | None:
        """Our time over ONNX Runtime's, the least of each."""
        return self.ours_s / self.runtime_s if self.ours_s and self.runtime_s else None


def import_only(case: FileCase, path: Path, seconds: float) -> FileRow:
    """Import a file in a child: *imported* if that goes well."""
    given = {
        "path": str(path),
        "shapes": {k: list(v) for k, v in case.shapes.items()},
        "values": dict(case.values),
    }
    command = [sys.executable, "-m", "benchmarks.file_zoo.import_child", json.dumps(given)]
    done, _, late = _run(command, seconds)
    row = FileRow(case.name, case.source, "imported")
    lines = done.stdout.strip().splitlines()
    if late:
        row.outcome, row.reason = "timeout", f"import: not done after {seconds:g} s"
    elif done.returncode or not lines:
        row.outcome, row.reason = "crash", f"import: the process ended with {done.returncode}"
    else:
        answer = json.loads(lines[-1])
        row.outcome, row.reason = answer["outcome"], answer["reason"][:_LINE]
        row.import_s = answer["seconds"]
    return row


def whole(case: FileCase, path: Path, limit: float, quick: bool = False) -> FileRow:
    """Partition a file, run it, and time it beside ONNX Runtime; quick: by made-up costs."""
    row = FileRow(case.name, case.source, "partitioned")
    with tempfile.TemporaryDirectory(prefix="file_zoo") as folder:
        artifact = Path(folder) / "net.hetero"
        how = [*_QUICK, "--platform", str(_platform(Path(folder)))] if quick else []
        if not _partition(row, case, path, artifact, limit, how):
            return row
        found = contest(case, path, artifact, limit, _QUICK_ROUNDS if quick else _ROUNDS)
        row.outcome, row.reason = found.outcome, found.reason[:_LINE]
        row.error, row.others = found.error, found.others
        if found.ours and found.runtime:
            row.ours_s, row.runtime_s = min(found.ours), min(found.runtime)
            row.ours_median_s = float(np.median(found.ours))
            row.runtime_median_s = float(np.median(found.runtime))
    return row


def _partition(
    row: FileRow, case: FileCase, path: Path, artifact: Path, limit: float, how: list[str]
) -> bool:
    """Partition by the command line, without costs of earlier runs; say in the row how it went."""
    command = [sys.executable, "-m", "tvm_hetero", "partition", str(path), "-o", str(artifact)]
    for name, shape in case.shapes.items():
        command += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
    for name, value in case.values.items() if takes_values() else ():
        command += ["--value", f"{name}={value}"]
    with tempfile.TemporaryDirectory(prefix="file_zoo") as cache:
        done, row.partition_s, late = _run(
            [*command, "--json", *how], limit, TVM_HETERO_CACHE=cache
        )
    if late:
        row.outcome, row.reason = "timeout", f"partition: not done after {limit:g} s"
    elif done.returncode < 0:
        row.outcome, row.reason = "crash", f"partition: ended by signal {-done.returncode}"
    elif done.returncode:
        said = " " + " ".join(done.stderr.split())
        row.outcome = "exception" if "Traceback (most recent call last)" in said else "refused"
        row.reason = f"partition: {said.rpartition(' error: ')[2][-_LINE:]}"
    return not done.returncode and not late


def _platform(folder: Path) -> Path:
    """Write this machine's first two cores with made-up figures, as the analytical costs need."""
    from benchmarks.conforming.engines import two_cpus

    path = folder / "platform.yaml"
    two_cpus().save(path)
    return path


def takes_values() -> bool:
    """Return whether the command line can fix inputs by value."""
    import inspect

    from tvm_hetero.cli.verbs.partition import partition

    return "value" in inspect.signature(partition).parameters


def _run(
    command: list[str], seconds: float, **environment: str
) -> tuple[subprocess.CompletedProcess[str], float, bool]:
    """Run a command; its result, the seconds it took, and whether it was ended for being late."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    begun = time.perf_counter()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths, **environment},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        empty: Any = subprocess.CompletedProcess(command, 124, "", "")
        return empty, time.perf_counter() - begun, True
    return done, time.perf_counter() - begun, False
