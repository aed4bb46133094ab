"""A signal at a random moment of a random verb: it ends at once and leaves nothing behind.

    python -m tests.fuzz.signals [--count N] [--seconds S] [--first SEED] [--verb NAME]

A *trial* is a verb of `interrupted_verbs` in an empty folder, with a folder for temporary files of
its own, and SIGINT, SIGTERM or SIGHUP to it or (as a terminal's Ctrl-C) to its group. The moment is
counted from when it has taken its signals: the interpreter's own start is not ours. Then must hold:

    status     130, 143 or 129; or that of an ordinary end which came first
    time       `LIMIT` from the signal to the end: a second, and what a busy machine adds to it
    words      no traceback, and no last words of C++
    files      no temporary ones; results whole or not there; the cache without unfinished files,
               its database sound
    processes  none of the trial's is left
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.interrupted_verbs import ROOT, VERBS, Verb, is_whole, prepare
from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.waiting import eventually

LIMIT = 10.0
# Processes may end a little later than the one that ended them, s.
PATIENCE = 5.0
_TURN = 0.05
_MARK = "TVM_HETERO_TRIAL"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BAD_WORDS = ("Traceback", "terminate called", "Exception ignored", "Segmentation", "Fatal Python")
# ONNX Runtime's telemetry leaves this however a process ends.
_OTHERS = {".ses"}
# How names of what is not finished begin.
_UNFINISHED = (".", "compile.", "objects.", "tvm")


@dataclass(frozen=True)
class Trial:
    """What is done, all of it drawn from the seed."""

    seed: int
    verb: Verb
    number: signal.Signals
    moment: float
    to_group: bool

    @classmethod
    def draw(cls, seed: int, only: str | None = None) -> Trial:
        rng = random.Random(seed)
        verbs = [verb for verb in VERBS if only is None or verb.name == only]
        verb = rng.choice(verbs)
        moment = rng.uniform(0.0, 1.5 * verb.seconds) * rng.choice((0.1, 1.0, 1.0))
        number = rng.choices(_SIGNALS, (4, 4, 1))[0]
        return cls(seed, verb, number, moment, rng.random() < 0.5)

    def __str__(self) -> str:
        whom = "its group" if self.to_group else "it"
        return f"seed {self.seed}: {self.verb.name!r}, {self.number.name} to {whom} at " \
               f"{self.moment:.2f} s"  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How it ended: `took` seconds after the signal; `faults` is empty where all is well."""

    status: int
    took: float
    faults: tuple[str, ...]


def run_trial(trial: Trial, inputs: Path, port: int = 0) -> Outcome:
    """Do it, and look at what is left."""
    with tempfile.TemporaryDirectory(prefix="signals.") as name:
        place = Path(name)
        work, temporary = place / "work", place / "tmp"
        work.mkdir()
        temporary.mkdir()
        # One cache for all trials: whatever one leaves there the next ones meet.
        cache = inputs / "cache"
        if random.Random(trial.seed).random() < 0.2:
            shutil.rmtree(cache, ignore_errors=True)
        given = {"in": inputs, "port": port, "relay": ROOT / "tests" / "data" / "relay"}
        command = trial.verb.arguments.format(**given).split()
        mark = f"{os.getpid()}-{trial.seed}"
        environment = os.environ | {
            "TMPDIR": str(temporary), "TVM_HETERO_CACHE": str(cache), _MARK: mark,
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        with (place / "err").open("w+b") as err, (place / "out").open("w+b") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tvm_hetero", *command], cwd=work, env=environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
            took = _signal(process, trial)
        status = process.returncode
        said = (place / "err").read_text(errors="replace")
        faults = [*_status_faults(trial, status, took), *bad_words(said)]
        faults += left_behind(work, temporary, cache)
        if not eventually(lambda: not _processes(mark), PATIENCE):
            faults.append(f"left: {_processes(mark)}")
            _kill(mark)
        if faults:
            faults.append(said[-1500:])
        return Outcome(status, took, tuple(faults))


def _signal(process: subprocess.Popen[bytes], trial: Trial) -> float:
    """Send it at its moment; the seconds until the end."""
    eventually(lambda: process.poll() is not None or _has_taken_signals(process.pid))
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(trial.moment)
    if process.poll() is None:
        send = os.killpg if trial.to_group else os.kill
        send(process.pid, trial.number)
    # In turns, not by the clock: who stops all of this machine's programs stops us too.
    turns = 0
    while process.poll() is None and turns < 4 * LIMIT / _TURN:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TURN)
        turns += 1
    took = turns * _TURN
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return took


def _has_taken_signals(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGHUP - 1) & 1)
    return False


def _status_faults(trial: Trial, status: int, took: float) -> Iterator[str]:
    expected = {0, 128 + trial.number}
    if trial.number == signal.SIGTERM:
        expected |= set(trial.verb.terminated)
    if status not in expected:
        yield f"status {status}"
    if took > LIMIT:
        yield f"it ended {took:.1f} s after the signal"


def bad_words(said: str) -> Iterator[str]:
    for words in _BAD_WORDS:
        if words in said:
            yield f"it said {words!r}"


def left_behind(work: Path, temporary: Path, cache: Path) -> Iterator[str]:
    if left := sorted({path.name for path in temporary.iterdir()} - _OTHERS):
        yield f"temporary files: {left}"
    for path in work.iterdir():
        try:
            whole = not path.name.startswith(_UNFINISHED) and is_whole(path)
        except Exception as error:
            whole = False
            yield f"{type(error).__name__}: {error}"
        if not whole:
            yield f"half-written: {path.name}"
    for path in cache.rglob("*"):
        if path.name.startswith(_UNFINISHED):
            yield f"in the cache: {path.relative_to(cache)}"
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in cache.glob("*.sqlite"):
        with contextlib.closing(sqlite3.connect(path)) as database:
            if database.execute("pragma integrity_check").fetchall() != [("ok",)]:
                yield f"damaged: {path.name}"


def _processes(mark: str) -> list[tuple[int, str]]:
    """Those that carry the mark of a trial."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{_MARK}={mark}\0".encode() in path.read_bytes():
                line = path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append((int(path.parent.name), line[:80]))
    return found


def _kill(mark: str) -> None:
    for pid, _ in _processes(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def server(inputs: Path) -> Iterator[int]:
    """A server for `load-test`; its port."""
    from tests.serve.server_process import ServerProcess

    with ServerProcess([str(inputs / "net.hetero")]) as running:
        yield int(running.url.rpartition(":")[2])


def _hear_signals() -> None:
    """Children inherit what we ignore, as a shell lets those in the background."""
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main(arguments: list[str] | None = None) -> int:
    """Run trials; the status says whether all went well."""
    parser = harness_parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--verb", choices=[verb.name for verb in VERBS])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz" / "signals")
    given = parser.parse_args(arguments)
    _hear_signals()
    prepare(given.folder)
    outcomes, failed, times = Counter[str](), 0, []
    with server(given.folder) as port:
        for seed in seeds(given):
            trial = Trial.draw(seed, given.verb)
            outcome = run_trial(trial, given.folder, port)
            times.append(outcome.took)
            failed += bool(outcome.faults)
            outcomes[f"status {outcome.status}"] += 1
            print(f"{trial}: {outcome.status} after {outcome.took:.2f} s", *outcome.faults,
                  sep="\n    ", flush=True)  # fmt: skip
    times.sort()
    print(f"from signal to end: median {times[len(times) // 2]:.2f} s, worst {times[-1]:.2f} s")
    return conclude(__file__, given.first, outcomes, failed)


if __name__ == "__main__":
    sys.exit(main())
