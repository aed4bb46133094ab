"""Where memory binds: the path whose runs cost most, found piece by piece.

What `path_runs` proves depends on the path. Around a branch there are two ways: through it, which
sees its weights and small tensors, or past it, which sees the large tensor that is read behind it,
and counts the branch as what lies beside (`beside_path`). Around one branch the one proves more,
around another the other. So each *detour*, a chain beside the path from one of its tasks to a later
one, is tried in turn and kept where the bound rises, until none raises it or the work is done. Any
path is a bound, so that there is nothing to prove here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.bounds.core.time_is_up import Late, TimeIsUp, never
from tvm_hetero.bounds.memory.path_runs import Path, PathRuns, runs_of
from tvm_hetero.views.instance import Instance

# Tasks of a chain beside the path at most.
_LONGEST = 12
# What the runs of a path take, for each task and pair of kinds of devices, in numbers of a linear
# program (`bounds.core.linear.WORK_A_SECOND`); and tasks for each number that is beside it.
_NUMBERS, _BESIDE = 2, 4


@dataclass(frozen=True)
class _Detour:
    """From task `first` of the path over `tasks` beside it to `last`; the tensors of its edges."""

    first: int
    last: int
    tasks: tuple[int, ...]
    tensors: tuple[int, ...]

    def of(self, path: Path) -> Path | None:
        """The path with this piece in it; None if it does not meet the path any more."""
        if self.first not in path.tasks or self.last not in path.tasks:
            return None
        a, b = path.tasks.index(self.first), path.tasks.index(self.last)
        tasks = (*path.tasks[: a + 1], *self.tasks, *path.tasks[b:])
        return Path(tasks, (*path.tensors[:a], *self.tensors, *path.tensors[b:]))


def detour_bound(instance: Instance, work: int, late: Late = never) -> float:
    """The bound of latency, s, with about so much work; 0 where `path_runs` has nothing to say."""
    best, found = 0.0, None
    try:
        for runs in runs_of(instance, late):
            value = runs.bound(late)
            if value > best:
                best, found = value, runs
        while found is not None:
            found, best, work = _improved(instance, found, best, work, late)
    except TimeIsUp:
        pass
    return best


def _improved(
    instance: Instance, runs: PathRuns, best: float, work: int, late: Late
) -> tuple[PathRuns | None, float, int]:
    """All detours of a path tried once; no path if none raises the bound or the work is done."""
    rose = False
    for detour in _detours(instance, runs.path):
        path = detour.of(runs.path)
        if path is None or set(detour.tasks) & set(runs.path.tasks):
            continue
        work -= _NUMBERS * len(path) * len(runs.kinds.first) ** 2 + len(instance) // _BESIDE
        if work < 0:
            return None, best, work
        tried = PathRuns(instance, runs.kinds, path)
        value = tried.bound(late)
        if value > best:
            runs, best, rose = tried, value, True
    return runs if rose else None, best, work


def _detours(instance: Instance, path: Path) -> list[_Detour]:
    """Chains beside the path, each by the first reader of the first output of its tasks."""
    place = {v: i for i, v in enumerate(path.tasks)}
    found = []
    for v in path.tasks:
        for t in instance.outputs[v]:
            for reader in instance.tensors[t].readers:
                tasks: list[int] = []
                tensors, w = [t], reader
                while w not in place and len(tasks) < _LONGEST:
                    tasks.append(w)
                    further = [s for s in instance.outputs[w] if instance.tensors[s].readers]
                    if not further:
                        break
                    tensors.append(further[0])
                    w = instance.tensors[further[0]].readers[0]
                if w in place and (tasks or place[w] > place[v] + 1):
                    found.append(_Detour(v, w, tuple(tasks), tuple(tensors)))
    return found
