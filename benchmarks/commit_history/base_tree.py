"""Another commit, built beside this one, and measured here by its own benchmark.

Runners of a workflow are not the same machine each time, and of a machine that is new no row tells
what was quick before. So the commit before is measured there, too, in the same job.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.commit_history.rows import HistoryRow, read_history
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.util.closeable import Closeable

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = Path("tvm_hetero") / "_lib"
# What the libraries are made of: where it is the same, they are.
_NATIVE = ("src", "include", "CMakeLists.txt")


class BaseTree(Closeable):
    """The files of a commit in a temporary folder, with the libraries that belong to them.

    Raises
    ------
    UsageError
        If git knows no such commit.
    RunError
        If its libraries cannot be built.
    """

    def __init__(self, commit: str) -> None:
        told = _git("show", "--no-patch", "--format=%h %ct", f"{commit}^{{commit}}").decode()
        self.commit, seconds = told.split()
        self.date = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%MZ")
        self._place = tempfile.TemporaryDirectory(prefix="history-")
        self.folder = Path(self._place.name)
        with tarfile.open(fileobj=io.BytesIO(_git("archive", self.commit))) as files:
            files.extractall(self.folder, filter="data")
        if _is_native_alike(self.commit):
            shutil.copytree(ROOT / LIBRARIES, self.folder / LIBRARIES)
        else:
            _build(self.folder)

    def close(self) -> None:
        """Remove the folder."""
        self._place.cleanup()

    def measured(self, turns: int, *, small: bool = False) -> HistoryRow:
        """A row of the commit, here and now; its date is the commit's."""
        rows = self.folder / "build" / "measured.jsonl"
        rows.unlink(missing_ok=True)
        more = ["--small"] if small else []
        command = ["benchmarks.history", "--add", "--rows", str(rows), "--turns", str(turns), *more]
        _run([sys.executable, "-m", *command], self.folder)
        (row,) = read_history(rows)
        return replace(row, commit=self.commit, date=self.date)


def _is_native_alike(commit: str) -> bool:
    """Whether C++ is the same there as here."""
    asked = ["git", "diff", "--quiet", commit, "--", *_NATIVE]
    has_own = (ROOT / LIBRARIES).is_dir()
    return has_own and subprocess.run(asked, cwd=ROOT).returncode == 0


def _build(folder: Path) -> None:
    """As setup.py does, but without an installation."""
    objects = folder / "build" / "native"
    configure = ["cmake", "-S", ".", "-B", str(objects), "-G", "Ninja",
                 f"-DPython_EXECUTABLE={sys.executable}"]  # fmt: skip
    _run(configure, folder)
    _run(["cmake", "--build", str(objects)], folder)


def _run(command: list[str], folder: Path) -> None:
    tools = Path(sys.executable).parent  # where pip puts cmake and ninja
    path = os.pathsep.join([str(tools), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        told = (done.stderr or done.stdout)[-2000:]
        raise RunError(f"{' '.join(command)}: status {done.returncode}\n{told}")


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    if done.returncode:
        raise UsageError(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout
