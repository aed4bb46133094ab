"""Building C++ in the tests: CMake and Ninja of this environment, in folders that are kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def tool(name: str) -> str:
    """A program on the PATH, or beside this Python."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    assert found, f"{name} is not there: pip install '.[build]'"
    return found


def cmake_build(source: Path, folder: Path, targets: list[str], **variables: str) -> None:
    """Configure and build; what has not changed since the last time is not built again.

    Several processes may build in one folder, one after the other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(
            tool("cmake"), "-S", str(source), "-B", str(folder), "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DPython_EXECUTABLE={sys.executable}",
            *(f"-D{name}={value}" for name, value in variables.items()),
        )  # fmt: skip
        run(tool("cmake"), "--build", str(folder), "--target", *targets)


def run(*command: str, **environment: str) -> str:
    """Run a program that has to succeed; its output."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


@cache
def example_program() -> Path:
    """`examples/cpp`, which runs an artifact without Python, built (once: CMake is slow)."""
    folder = ROOT / "build" / "example"
    cmake_build(ROOT / "examples" / "cpp", folder, ["run_artifact"])
    return folder / "run_artifact"


def call(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program with nothing of Python's in its environment."""
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, env={}, capture_output=True, text=True, timeout=60)
