"""The list scheduler looks at the clock by the devices it tries, however few tasks there are."""

from __future__ import annotations

import pytest

from benchmarks.scheduling.runner import zoo_case
from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler
from tvm_hetero.views.instance import Instance


class Counted(ListScheduler):
    """Knows how many devices it has tried."""

    tried = 0

    def try_place(self, v: int, device: int) -> tuple[float, float] | int | None:
        self.tried += 1
        return super().try_place(v, device)


def scheduler(network: str, platform: str) -> Counted:
    instance = Instance(zoo_case(network, platform))
    every = range(len(instance.names))
    return Counted(instance, set(every), apart=every, ends=Deadline.after(-1.0))


def test_few_tasks_on_many_devices_are_cut() -> None:
    """On 192 devices 122 tasks were placed to the end, for seconds after the limit."""
    late = scheduler("light-squeezenet", "mixed-4")
    with pytest.raises(SolverError, match=r"the time is up after \d+ of \d+ tasks"):
        late.run(late.instance.order, by_space=False)
    assert late.tried < 300 < len(late.instance) * len(late.instance.names)


def test_small_problems_are_not_cut() -> None:
    late = scheduler("light-squeezenet", "diviml")
    executions, _ = late.run(late.instance.order, by_space=False)
    assert len(executions) == len(late.instance)
