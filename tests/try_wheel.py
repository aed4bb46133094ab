"""Install a wheel into an empty environment, and use it as somebody would who has nothing else.

    python tests/try_wheel.py dist/tvm_hetero-0.1.0-py3-none-manylinux_2_34_x86_64.whl

`make package` calls this. It needs the network (or pip's own settings) for what the wheel requires,
and no package of this environment. Verbs that need no compiler run where there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from page_commands import (
    FIRST_TEN_MINUTES,
    MADE,
    commands_of,
    free_port,
    run_in_one_shell,
    with_port,
)

# Any Python 3, no interpreter's ABI, a Linux of a known age.
TAG = re.compile(r"-py3-none-manylinux_2_\d+(\.manylinux\w+)*_x86_64\.whl$")
_LIMIT = 900.0
# Around a command of bash: the last line that it prints is how long it took.
_BEGIN = "began=${EPOCHREALTIME/[.,]/}"
_END = 'status=$?; echo "$(((${EPOCHREALTIME/[.,]/} - began) / 1000)) ms"; (exit $status)'
_SETTINGS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TVM_HETERO_CACHE")


def main() -> int:
    """Try the wheel that the command line names."""
    parser = argparse.ArgumentParser(description="Try a wheel in an empty environment.")
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel.resolve()
    if not TAG.search(wheel.name):
        print(f"{wheel.name}: expected a name like ...-py3-none-manylinux_2_34_x86_64.whl")
        return 1
    with tempfile.TemporaryDirectory(prefix="tvm-hetero-wheel-") as folder:
        trial = Trial(Path(folder))
        trial.install(wheel)
        trial.schedule()
        trial.look_around()
        trial.demonstrate()
        trial.spend_ten_minutes(wheel)
    print(f"{wheel.name} works")
    return 0


class Trial:
    """An empty environment, a folder to work in, and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.work = folder / "venv" / "bin", folder / "work"
        self.work.mkdir()
        venv.create(folder / "venv", with_pip=True)
        kept = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
        self.environment = {**kept, "TVM_HETERO_CACHE": str(folder / "cache"), "NO_COLOR": "1"}

    def run(self, *command: str, compiler: bool = False, status: int = 0) -> str:
        """What a command prints; without `compiler` none is found."""
        environment = dict(self.environment)
        if not compiler:
            environment["PATH"] = str(self.bin)
        began = time.monotonic()
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.work, env=environment, capture_output=True, text=True, timeout=_LIMIT,
        )  # fmt: skip
        print(f"{time.monotonic() - began:6.1f} s  {' '.join(command)[:90]}", flush=True)
        if done.returncode != status:
            sys.exit(f"status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def install(self, wheel: Path) -> None:
        """With pip, and nothing but the wheel and what it asks for."""
        self.run("python", "-m", "pip", "install", "--quiet", str(wheel))
        where = self.run("python", "-c", "import tvm_hetero; print(tvm_hetero.__file__)")
        assert str(self.bin.parent) in where, where

    def schedule(self) -> None:
        """The scheduling half: no compiler, no TVM."""
        assert "Commands:" in self.run("tvm-hetero", "--help")
        self.run("tvm-hetero", "--version")
        self.run("tvm-hetero", "zoo", "inception-v3", "--platform", "sched-nvl", "-o", "p.json")
        self.run("tvm-hetero", "zoo", "layers-yolov3")
        self.run("tvm-hetero", "schedule", "p.json", "--time-limit", "5", "-o", "s.json")
        assert "valid" in self.run("tvm-hetero", "check", "p.json", "s.json")
        self.run("tvm-hetero", "show", "s.json", "--problem", "p.json", "--html", "plan.html")
        assert 'id="explorer"' in (self.work / "plan.html").read_text(encoding="utf-8")
        # Of the C++ search, whose library is in the wheel.
        native = "from tvm_hetero.solvers.native.library import available; assert available()"
        self.run("python", "-c", native)

    def look_around(self) -> None:
        """What the doctor says where no compiler is, and where there is one."""
        told = json.loads(self.run("tvm-hetero", "doctor", "--json", status=1))
        faults = [row["about"] for row in told["findings"] if row["is_fault"]]
        assert faults == ["compiler"], faults
        told = json.loads(self.run("tvm-hetero", "doctor", "--json", compiler=True))
        assert told["faults"] == 0

    def demonstrate(self) -> None:
        """A real model, partitioned, compiled and run."""
        self.run("tvm-hetero", "demo", compiler=True)
        assert (self.work / "demo" / "report.html").is_file()

    def spend_ten_minutes(self, wheel: Path) -> None:
        """What docs/first-ten-minutes.md says, in order, in a new environment that it makes."""
        if shutil.which("curl") is None:
            sys.exit("the first ten minutes need curl: apt-get install curl")
        folder, port, began = self.work.parent / "first", free_port(), time.monotonic()
        folder.mkdir()
        commands = [
            with_port(each.text, port).replace("'tvm_hetero[", f"'{wheel}[")
            for each in commands_of(FIRST_TEN_MINUTES.read_text(encoding="utf-8"))
        ]
        timed = [f"{_BEGIN}\n{command}\n{_END}" for command in commands]
        told = run_in_one_shell(timed, folder, self.environment, 2 * _LIMIT)
        for command, text in zip(commands, told, strict=True):
            print(f"\n$ {command}\n{text.strip()[-600:]}")
        assert [name for name in MADE if not (folder / name).is_file()] == []
        print(f"{time.monotonic() - began:6.1f} s  the first ten minutes")


if __name__ == "__main__":
    raise SystemExit(main())
