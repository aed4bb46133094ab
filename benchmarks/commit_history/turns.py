"""Both sides of each subject, in turns; a process each.

A turn is a block of runs of the peer, a pause (ONNX Runtime's threads spin for a while after a
run), and a block of ours; the least of a block counts, since others on the machine only add. The
machine's drift meets both alike, so that the ratio of a turn says more than either time; the median
of the turns' ratios is the figure, and their quartiles are its noise.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.commit_history.subjects import Run, Side, keep_to_first_core, subjects
from benchmarks.spawned_process import SpawnedProcess
from tvm_hetero.errors import RunError
from tvm_hetero.processes.torch_import import hide_torch
from tvm_hetero.util.statistics import quantile

_PAUSE = 0.05
_BLOCK_SECONDS, _LEAST_RUNS = 0.15, 3
_PATIENCE = 600.0  # seconds for a side to build and run


@dataclass(frozen=True)
class Figure:
    """Ours over the peer's: the median of the turns and their quartiles, and each side's seconds.

    Of a quality, which has no peer: the figure thrice, and no seconds.
    """

    ratio: float
    low: float
    high: float
    ours_s: float = 0.0
    peer_s: float = 0.0


def measure(
    turns: int, only: Collection[str] | None = None, *, small: bool = False
) -> dict[str, Figure]:
    """Measure subjects, all of them or those that are named, anew."""
    names = [each.name for each in subjects(small=small)]
    asked = [name for name in names if only is None or name in only or quality_of(name) in only]
    found: dict[str, Figure] = {}
    with _SideProcess("ours") as ours, _SideProcess("peer") as peer:
        for name in asked:
            what = "run" if small else "block"
            times = [(_after_a_pause(peer, what, name), _after_a_pause(ours, what, name))
                     for _ in range(turns)]  # fmt: skip
            found[name] = summarize_turns([(mine, other) for other, mine in times])
            if (quality := ours.ask("quality", name)) is not None:
                found[quality_of(name)] = Figure(quality, quality, quality)
    return found


def quality_of(name: str) -> str:
    """The name of the figure that says how good the answers of a subject are."""
    return f"{name}: value over bound"


def summarize_turns(times: list[tuple[float, float]]) -> Figure:
    """The figure of turns, each with seconds of ours and of the peer."""
    ratios = sorted(mine / other for mine, other in times)
    middle = [sorted(side)[len(times) // 2] for side in zip(*times, strict=True)]
    return Figure(*(quantile(ratios, part) for part in (0.5, 0.25, 0.75)), *middle)


def _after_a_pause(side: _SideProcess, what: str, name: str) -> float:
    time.sleep(_PAUSE)
    return float(side.ask(what, name))


class _SideProcess(SpawnedProcess):
    """A process that holds one side, makes a subject when it is first asked, and times blocks."""

    def __init__(self, side: Side) -> None:
        super().__init__(_answer, side)
        self._side = side

    def ask(self, what: str, name: str) -> Any:
        """Return an answer.

        Raises
        ------
        RunError
            The side failed, ended, or took too long.
        """
        try:
            self.pipe.send((what, name))
            if not self.pipe.poll(_PATIENCE):
                raise RunError(f"{name}, {self._side}: not done after {_PATIENCE:g} s")
            is_right, answer = self.pipe.recv()
        except (EOFError, OSError):
            raise RunError(f"{name}, {self._side}: the process has ended") from None
        if not is_right:
            raise RunError(f"{name}, {self._side}: {answer}")
        return answer


def _answer(pipe: Connection, side: Side) -> None:
    """In the process of a side: answer until the other end is closed."""
    hide_torch()
    keep_to_first_core()
    known = {each.name: each for each in subjects()}
    made: dict[str, Run] = {}
    while True:
        try:
            what, name = pipe.recv()
        except EOFError:
            return
        try:
            subject = known[name]
            if what == "quality":
                pipe.send((True, subject.quality and subject.quality()))
                continue
            if name not in made:
                made[name] = subject.makes[side]()
                if what == "block":
                    made[name]()  # the first run is not like the others
            run = made[name]
            pipe.send((True, run() if what == "run" else least_of_a_block(run)))
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"))


def least_of_a_block(run: Run) -> float:
    """The least seconds of some runs."""
    found: list[float] = []
    while sum(found) < _BLOCK_SECONDS or len(found) < _LEAST_RUNS:
        found.append(run())
    return min(found)


def as_document(figures: Mapping[str, Figure]) -> dict[str, dict[str, float]]:
    """Figures as a row has them: four digits."""
    return {
        name: {key: float(f"{value:.4g}") for key, value in vars(figure).items()}
        for name, figure in figures.items()
    }
