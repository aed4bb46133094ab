"""Plans of a built model for schedules that nobody had thought of when it was built.

An artifact that was built to be adapted keeps its module, and kernels for every device. So a plan
for another schedule takes neither a compiler nor a weight: the module is placed, cut into segments
and laid out in memory again, which `build` does before it compiles.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from copy import copy

from tvm_hetero.artifact.executable import Executable, Variant
from tvm_hetero.compiler.make_plan import make_plan
from tvm_hetero.compiler.module_text import module_from_text
from tvm_hetero.errors import UsageError
from tvm_hetero.passes.annotate_devices import place_tasks
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.problem.equivalent_devices import equivalence_classes
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.quote import quote

# TVM keeps builders of functions (relax.BlockBuilder) on one stack for all threads, and a server
# that loads two models builds in two.
_BUILDING = threading.Lock()


class PlanFactory:
    """Makes plans of a model; each schedule's plan is made once.

    Parameters
    ----------
    helping : whether equal devices run each other's steps while they have none of their own, as in
        plans that are built.

    Raises
    ------
    UsageError
        If the model was not built to be adapted.
    """

    def __init__(self, executable: Executable, *, helping: bool = True) -> None:
        if executable.module is None:
            raise UsageError(
                "the model was built to run by the plans that it has; partition it for throughput "
                "(--objective throughput; build(..., adaptable=True)) to make others while it runs"
            )
        self.problem = executable.problem
        self._module = module_from_text(executable.module, executable.weights)
        self._libraries = executable.libraries
        self._alike = equivalence_classes(self.problem) if helping else []
        self._made: dict[Hashable, Variant] = {}

    def for_problem(self, problem: Problem) -> PlanFactory:
        """Makes plans for schedules of another problem of the same tasks and devices: of another
        objective, say. The module is shared, which takes long to read."""
        other = copy(self)
        other.problem, other._made = problem, {}
        return other

    def variant(self, schedule: Schedule) -> Variant:
        """The plan of a schedule of the model's problem, with the libraries that it needs.

        Raises
        ------
        UsageError
            If it is of another problem, or computes on a device for which nothing was compiled.
        """
        key = _what_counts(schedule)
        if key not in self._made:
            self._made[key] = self._make(schedule)
        return self._made[key]

    def _make(self, schedule: Schedule) -> Variant:
        platform = self.problem.platform
        with _BUILDING:
            split = split_segments(place_tasks(self._module, self.problem, schedule))
        names = [platform.names[device] for device in split.modules]
        for name in names:
            if name not in self._libraries:
                raise UsageError(
                    f"nothing was compiled for device {quote(name)}; partition the model again "
                    "(--objective throughput) for a platform that has it"
                )
        plan = make_plan(split, platform, self._alike)
        return Variant(plan, {name: self._libraries[name] for name in names})


def _what_counts(schedule: Schedule) -> Hashable:
    """All of a schedule on which its plan depends: of times, their order."""
    starts = {e.start for e in schedule.executions} | {c.start for c in schedule.copies}
    turn = {start: number for number, start in enumerate(sorted(starts))}
    runs = frozenset((turn[e.start], e.task, e.device, e.elements) for e in schedule.executions)
    moves = frozenset((turn[c.start], c.tensor, c.elements, c.src, c.dst) for c in schedule.copies)
    return schedule.problem, schedule.kind, runs, moves
