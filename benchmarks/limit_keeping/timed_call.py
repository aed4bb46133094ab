"""One call of ``tvm-hetero schedule`` in a process of its own, and how long it took.

A child is an interpreter of its own, which loads modules within the limit as the command does
(`exec_call`), or a fork with all of them loaded (`fork_call`). Nobody cuts it short, as the command
itself would half a second after the limit (`cli.shared.interrupt`); one that hangs is killed.

With `processor_clock.c` preloaded (`preload`), the child's clock is the processor time that it has
used: it then keeps, or does not keep, its limit as on a machine that does nothing else.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tvm_hetero.problem import Problem

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
# A child ends after so many times its limit, and so many seconds: of its processor, and of ours.
_PATIENCE, _WAIT = (5.0, 30.0), (50.0, 300.0)
# Processor seconds between two looks at where a child is.
_LOOK = 0.05
# What the preload calls the function that turns the clock on.
_USE = "use_processor_clock"


def is_kept(seconds: float, limit: float) -> bool:
    """Within 10 % or 1 s."""
    return seconds <= limit + max(1.0, 0.1 * limit)


def preload(folder: Path) -> dict[str, str]:
    """The environment in which a Python has the processor's clock; compiles that first.

    Raises
    ------
    OSError, subprocess.CalledProcessError
        If there is no C compiler, or it fails.
    """
    library = folder / "processor_clock.so"
    source = Path(__file__).with_name("processor_clock.c")
    command = ["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}


def has_processor_clock() -> bool:
    """Whether this process was started with `preload`."""
    return hasattr(ctypes.CDLL(None), _USE)


def start_again(module: str, arguments: Sequence[str]) -> NoReturn:
    """Become a Python that has the processor's clock, and runs a module with these arguments."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", module, *arguments]
        sys.exit(os.spawnve(os.P_WAIT, sys.executable, command, preload(Path(folder))))


def turn_clock_on() -> None:
    """From now on clocks of this process go by the processor time that it has used."""
    ctypes.CDLL(None)[_USE]()


def exec_call(problem: Problem, limit: float, environment: Mapping[str, str] | None = None) -> Row:
    """The call in an interpreter of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problem.save(folder / "problem.json")
        module = "benchmarks.limit_keeping.timed_call"
        command = [sys.executable, "-m", module, str(folder), str(limit)]
        with open(folder / "said", "w") as said:
            subprocess.run(
                command, stdout=said, stderr=said, cwd=ROOT, env=environment, check=False
            )
        return _row(folder, limit)


def fork_call(problem: Problem, limit: float) -> Row:
    """The call in a fork of this process, which must have one thread and all modules loaded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problem.save(folder / "problem.json")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if (child := os.fork()) == 0:
            _be_child(folder, limit)
        os.waitpid(child, 0)
        return _row(folder, limit)


def _be_child(folder: Path, limit: float) -> None:
    """Make the call with its words in a file, and end the process."""
    try:
        said = open(folder / "said", "w")  # noqa: SIM115
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
        # New ones: those of the parent remember where in which file they were.
        sys.stdout = sys.stderr = said
        call(folder, limit)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def call(folder: Path, limit: float) -> None:
    """The command, in this process; what it took is written beside its answer."""
    from tvm_hetero.cli.main import app

    files = [str(folder / "problem.json"), "-o", str(folder / "schedule.json")]
    _end_in_time(limit)
    with open(folder / "places", "w") as places:
        faulthandler.register(signal.SIGPROF, file=places, all_threads=False)
        signal.setitimer(signal.ITIMER_PROF, limit, _LOOK)
        if has_processor_clock():
            turn_clock_on()
        used, began, wall = time.process_time(), time.monotonic(), _wall()
        system = os.times().system
        status = app(["schedule", *files, "--time-limit", str(limit)], standalone_mode=False)
        taken = {
            "seconds": time.monotonic() - began,
            "cpu_seconds": time.process_time() - used,
            "system_seconds": round(os.times().system - system, 2),
            "wall_seconds": _wall() - wall,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "status": status or 0,
        }
        signal.setitimer(signal.ITIMER_PROF, 0)
    (folder / "taken.json").write_text(json.dumps(taken))


def _wall() -> float:
    """A clock that is not preloaded, s."""
    return time.clock_gettime(time.CLOCK_TAI)


def _end_in_time(limit: float) -> None:
    """Let the system end this process where it does not end itself."""
    seconds = int(time.process_time() + _PATIENCE[0] * limit + _PATIENCE[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.alarm(int(_WAIT[0] * limit + _WAIT[1]))


def _row(folder: Path, limit: float) -> Row:
    """The measurements with the answer: its gap, its solver and why it stopped; or the error."""
    lines = [line.strip() for line in (folder / "said").read_text().splitlines() if line.strip()]
    row: Row = {"limit": limit, "load": round(os.getloadavg()[0], 1)}
    if not (folder / "taken.json").exists():
        error = ": ".join(["died", *lines[-1:]])
        return row | {"kept": False, **seen_late(folder / "places"), "error": error}
    row |= json.loads((folder / "taken.json").read_text())
    row["kept"] = is_kept(row["seconds"], limit)
    if not row["kept"]:
        row |= seen_late(folder / "places")
    if row.pop("status"):
        return row | {"error": lines[-1] if lines else "no word"}
    found = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
    row |= {"value": found["objective"]["value"], "gap": found["gap"], "by": found["solver"]}
    return row | {"why": [line for line in lines if "stopped:" in line][-1:]}


def seen_late(places: Path) -> Row:
    """Which of our functions was at work most often after the limit, innermost first, and for how
    many seconds somebody was.
    """
    looks = re.split(r"(?:Current thread|Stack) ", places.read_text())[1:]
    ours = [re.findall(r"/tvm_hetero/.*/(\w+)\.py\", line \d+ in (\w+)", look) for look in looks]
    found = Counter(" < ".join(f"{file}.{name}" for file, name in row[:4]) for row in ours)
    most = found.most_common(1)[0][0] if found else ""
    return {"late_in": most, "late_seen": round(_LOOK * len(looks), 2)}


if __name__ == "__main__":
    call(Path(sys.argv[1]), float(sys.argv[2]))
