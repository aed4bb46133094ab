"""An artifact of ours and ONNX Runtime on the same file: the same outputs, and how long each takes.

Each side lives in a process of its own and runs on all cores; blocks of runs in turns, with a pause
between, since ONNX Runtime's threads spin for a while after a run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.file_zoo.cases import FileCase
from benchmarks.file_zoo.inputs import inputs_of
from benchmarks.spawned_process import SpawnedProcess
from tvm_hetero.processes.torch_import import hide_torch

_PAUSE = 0.1
_BLOCK_SECONDS, _LEAST_RUNS, _MOST_RUNS = 0.2, 2, 200
# The tail of a sigmoid: ONNX Runtime with and without its optimisations differs by 6e-8 there.
_ABSOLUTE = 2e-7
Run = Callable[[], list[Any]]


@dataclass
class Contest:
    """Outcome and reason, the greatest error, and the seconds of every run."""

    outcome: str
    reason: str = ""
    error: float | None = None
    ours: list[float] = field(default_factory=list)
    runtime: list[float] = field(default_factory=list)
    others: float = 0.0


def contest(case: FileCase, path: Path, artifact: Path, limit: float, rounds: int) -> Contest:
    """Compare outputs, then time both sides in turns."""
    sides = {"runtime": (case, path), "ours": (case, path, artifact)}
    with _Side("runtime", sides["runtime"]) as runtime, _Side("ours", sides["ours"]) as ours:
        try:
            expected, found = runtime.ask("outputs", limit), ours.ask("outputs", limit)
        except _SideFailedError as failed:
            return Contest(failed.outcome, str(failed))
        result = judged(case, expected, found)
        if result.outcome == "right":
            _time(result, ours, runtime, limit, rounds)
        return result


def judged(case: FileCase, expected: list[Any], found: list[Any]) -> Contest:
    """Compare outputs one by one: shapes, types, values; errors are over the greatest value."""
    if len(expected) != len(found):
        return Contest("wrong", f"{len(found)} outputs, not {len(expected)}")
    worst = 0.0
    for i, (theirs, mine) in enumerate(zip(expected, found, strict=True)):
        theirs, mine = np.asarray(theirs), np.asarray(mine)
        if theirs.shape != mine.shape or theirs.dtype != mine.dtype:
            what = f"{mine.dtype}{mine.shape}, not {theirs.dtype}{theirs.shape}"
            return Contest("wrong", f"output {i}: {what}")
        worst = max(worst, _error(theirs, mine))
        if not worst <= case.tolerance:
            return Contest("wrong", f"output {i}: error {worst:.2g} of the greatest value", worst)
    return Contest("right", "", worst)


def _error(theirs: Any, mine: Any) -> float:
    """Return the greatest difference over the greatest value; NaN and infinities must agree."""
    if theirs.size == 0:
        return 0.0
    if theirs.dtype.kind not in "fc":
        return float(np.max(theirs != mine))
    theirs, mine = theirs.astype(np.float64), mine.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(theirs[~finite], mine[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.max(np.abs(theirs[finite]))) or 1.0
    worst = float(np.max(np.abs(theirs[finite] - mine[finite])))
    return worst / scale if worst > _ABSOLUTE else 0.0


def _time(result: Contest, ours: _Side, runtime: _Side, limit: float, rounds: int) -> None:
    """Time both sides in turns; while both rest, what is busy is others."""
    from tvm_hetero.cli.shared.background_load import Neighbours

    rests = []
    try:
        for _ in range(rounds):
            result.runtime += runtime.ask("time", limit)
            time.sleep(_PAUSE)
            result.ours += ours.ask("time", limit)
            neighbours = Neighbours()
            time.sleep(_PAUSE)
            rests.append(neighbours.busy_cores())
    except _SideFailedError as failed:
        result.outcome, result.reason = failed.outcome, str(failed)
    result.others = sum(rests) / len(rests) if rests else 0.0


class _SideFailedError(Exception):
    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class _Side(SpawnedProcess):
    """A process that holds one side, and answers *outputs* and *time*."""

    def __init__(self, kind: str, arguments: tuple[Any, ...]) -> None:
        super().__init__(_serve, kind, arguments)
        self._kind = kind

    def ask(self, what: str, limit: float) -> Any:
        """Return an answer, or raise what the side failed with."""
        where = "run" if self._kind == "ours" else "ONNX Runtime"
        try:
            self.pipe.send(what)
            if not self.pipe.poll(limit):
                raise _SideFailedError("timeout", f"{where}: not done after {limit:g} s")
            good, answer = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            ended = self.process.exitcode
            raise _SideFailedError("crash", f"{where}: the process ended with {ended}") from None
        if not good:
            refused = self._kind == "ours" and answer[0]
            kind = "unusable" if self._kind == "runtime" else "refused" if refused else "exception"
            raise _SideFailedError(kind, f"{where}: {answer[1]}")
        return answer


def _serve(pipe: Connection, kind: str, arguments: tuple[Any, ...]) -> None:
    """Set a side up at the first question, and answer until the other end is closed."""
    hide_torch()  # neither side needs it, and it takes long to load
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    run: Run | None = None
    while True:
        try:
            what = pipe.recv()
        except EOFError:
            return
        try:
            if run is None:
                run = _ours(*arguments) if kind == "ours" else _runtime(*arguments)
            pipe.send((True, run() if what == "outputs" else timed(run)))
        except Exception as error:
            from tvm_hetero.errors import HeteroError

            reason = " ".join(f"{type(error).__name__}: {error}".split())
            pipe.send((False, (isinstance(error, HeteroError), reason)))


def timed(run: Callable[[], Any]) -> list[float]:
    """Return the seconds of each run of a block."""
    found: list[float] = []
    while len(found) < _MOST_RUNS and (sum(found) < _BLOCK_SECONDS or len(found) < _LEAST_RUNS):
        begun = time.perf_counter()
        run()
        found.append(time.perf_counter() - begun)
    return found


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options)


def _runtime(case: FileCase, path: Path) -> Run:
    session = _session(path)
    inputs = inputs_of(case, path, session.get_inputs())
    return lambda: list(session.run(None, inputs))


def _ours(case: FileCase, path: Path, artifact: Path) -> Run:
    import tvm_hetero as th

    inputs = inputs_of(case, path, _session(path).get_inputs())
    executor = th.load(artifact)
    assert isinstance(executor, th.Executor)
    needed = {each.name: inputs[each.name] for each in executor.inputs}
    return lambda: [_array(output) for output in executor.run(needed)]


def _array(output: Any) -> Any:
    """Return an output as NumPy's, where it is, as ONNX Runtime gives its own."""
    try:
        return np.from_dlpack(output)
    except (BufferError, RuntimeError):  # of a type that NumPy lacks
        return output.numpy()
