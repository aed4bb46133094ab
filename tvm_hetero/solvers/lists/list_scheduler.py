"""A list scheduler: tasks in a given order, each on the device that scores best.

The score is by default when the task would end there (HEFT's rule, "earliest finish time"); other
methods hand in their own. What has been decided is kept by `undo_log`, which can take it back, so
that a task can be tried on every device before it is placed on one. Memory (rule 6) is in
`try_place`, colors in `candidates`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.solvers.core.deadline import Deadline, check_time
from tvm_hetero.solvers.lists.undo_log import Booking
from tvm_hetero.solvers.timing.unused_devices import UnusedDevices
from tvm_hetero.util.units import format_bytes
from tvm_hetero.views.instance import Instance

# What a device is worth to a task: (task, device, when it would end there in s); less is better.
Score = Callable[[int, int, float], float]

# Times at which a placement that overflows is tried again.
_DELAYS = 8
# Tasks that are passed over, and devices that are tried, between two looks at the clock: some tens
# of milliseconds, and small problems are not cut.
_LOOK_AT_CLOCK, _TRIES = 128, 256


def earliest_finish(task: int, device: int, end: float) -> float:
    """The rule of HEFT."""
    return end


class ListScheduler(Booking):
    """Places tasks one after the other; every placement can be taken back.

    Parameters
    ----------
    instance : the problem.
    allowed : the devices that may be used.
    score : what decides between devices; of equals, the one where the task ends first.
    name : of the method, for what it says when it gets stuck.
    apart : devices that the score treats unlike others of their kind.
    ends : when it gives up.
    """

    def __init__(
        self,
        instance: Instance,
        allowed: set[int],
        score: Score = earliest_finish,
        name: str = "heft",
        apart: Sequence[int] = (),
        ends: Deadline | None = None,
    ) -> None:
        super().__init__(instance)
        self.allowed = allowed
        self.score = score
        self.name = name
        self.ends = ends
        self._tries = self._placed = 0
        self.fresh = UnusedDevices(instance.problem, apart)

    def run(self, order: Sequence[int], *, by_space: bool) -> tuple[list[Execution], list[Copy]]:
        """Place every task, in the given (topological) order unless memory stops one of them.

        With `by_space` a task goes to the device with the most memory left, not to the fastest.

        Raises
        ------
        InfeasibleError
            If some task fits nowhere.
        SolverError
            If the time is up.
        """
        left = deque(order)
        while left:
            self._placed = len(order) - len(left)
            reasons: list[InfeasibleError] = []
            for i, v in enumerate(left):
                if i % _LOOK_AT_CLOCK == _LOOK_AT_CLOCK - 1:
                    self._look_at_clock()
                if not self.ready(v):
                    continue
                try:
                    self.place_best(v, by_space=by_space)
                except InfeasibleError as error:
                    if self._hopeless(v):
                        raise
                    # Another task may go first and give memory back.
                    reasons.append(error)
                    continue
                del left[i]
                break
            else:
                raise reasons[0]
        return self.result()

    def _look_at_clock(self) -> None:
        check_time(self.ends, self.name, self._placed, len(self.instance))

    def ready(self, v: int) -> bool:
        """Whether everything that `v` reads has a place."""
        tensors = self.instance.tensors
        return all(self.place_of[tensors[t].maker] is not None for t in self.instance.inputs[v])

    def place_best(self, v: int, *, by_space: bool) -> None:
        """Place one task for good.

        Raises
        ------
        InfeasibleError
            If it fits nowhere.
        SolverError
            If the time is up.
        """
        options = []
        short: list[tuple[int, int]] = []
        for d in self.candidates(v):
            self._tries += 1
            if self._tries % _TRIES == 0:
                self._look_at_clock()
            found = self.try_place(v, d)
            if isinstance(found, int):
                short.append((found, d))
            elif found is not None:
                wait, end = found
                first = -self.space(d) if by_space else 0.0
                options.append((first, self.score(v, d, end), end, d, wait))
        if not options:
            raise self.stuck(v, short)
        *_, device, wait = min(options)
        self.place(v, device, wait)
        self.fresh.use(self.touched)
        self.keep()

    def candidates(self, v: int) -> Sequence[int]:
        """The devices to try for `v`, given where the tasks of its color are."""
        home = self.group_home.get(self.instance.group_of[v])
        devices = self.instance.devices[v] if home is None else (home,)
        return self.fresh.representatives([d for d in devices if d in self.allowed])

    def try_place(self, v: int, device: int) -> tuple[float, float] | int | None:
        """(delay, end) of the best way to run `v` there; bytes that lack; None if unreachable."""
        if not self.watched:
            ends = self.probe(v, device)
            return None if ends is None else (0.0, ends)
        short = self.lacking(v, device)
        if short > 0:
            return short
        found, began = self._attempt(v, device, 0.0)
        if not isinstance(found, int):
            return found
        times = self.delays(device, began)
        # Who waits for all that is given back has the most room: if that is not enough, none is.
        last = self._attempt(v, device, times.pop())[0] if times else None
        if not isinstance(last, tuple):
            return found if last is None else min(found, last)
        return self._least_delay(v, device, times, last)

    def _least_delay(
        self, v: int, device: int, times: Sequence[float], last: tuple[float, float]
    ) -> tuple[float, float]:
        """The least of the rising delays that fits, or the last one, which does."""
        low, high = 0, len(times)
        while low < high:
            middle = (low + high) // 2
            found, _ = self._attempt(v, device, times[middle])
            if isinstance(found, tuple):
                last, high = found, middle
            else:
                low = middle + 1
        return last

    def _attempt(
        self, v: int, device: int, wait: float
    ) -> tuple[tuple[float, float] | int | None, float]:
        """What `try_place` says of one delay, and since when the device holds something for it."""
        end = self.place(v, device, wait)
        # Where nothing has changed, everything still fits.
        over = max((self.memory[d].overflow() for d in self.touched & self.watched), default=0)
        began = self.memory[device].since
        self.roll_back()
        if end is None:
            return None, began
        return (over if over > 0 else (wait, end)), began

    def _hopeless(self, v: int) -> bool:
        """Whether the weights of `v` alone fit nowhere any more, whatever is given back."""
        return all(self.lacking(v, d) > 0 for d in self.candidates(v))

    def lacking(self, v: int, device: int) -> int:
        """Bytes that a task's weights alone need beyond what is left; waiting frees none."""
        loaded = (self.instance.task_of[v], self.instance.memory_of[device]) in self.loaded
        if loaded or device not in self.watched:
            return 0
        return max(0, math.ceil(self.instance.weights[v] - self.space(device)))

    def delays(self, device: int, began: float) -> list[float]:
        """Times before which nothing new is begun: when memory is given back, after `began`."""
        if device not in self.watched:
            return []
        return self.memory[device].releases(began, _DELAYS)

    def stuck(self, v: int, short: Sequence[tuple[int, int]]) -> InfeasibleError:
        """Why `v` can be placed nowhere."""
        task = self.instance.tasks[v]
        if not short:
            return InfeasibleError(
                f"{self.name}: no path of links brings what task {task!r} reads to a device that "
                "can run it; add a link"
            )
        over, device = min(short)
        return InfeasibleError(
            f"{self.name}: after the tasks placed before it, task {task!r} fits on no device: "
            f"{self.instance.names[device]!r} lacks {format_bytes(over)}; add memory"
        )

    def result(self) -> tuple[list[Execution], list[Copy]]:
        """Executions and copies, each in order of start."""
        instance, names = self.instance, self.instance.names
        elements = instance.elements
        executions = []
        for v in instance.order:
            d = self.place_of[v]
            assert d is not None, "every task was placed"
            end = self.starts[v] + instance.seconds[v][d]
            execution = Execution(instance.tasks[v], names[d], elements[v], self.starts[v], end)
            executions.append(execution)
        executions.sort(key=lambda e: (e.start, e.end))
        copies = []
        for t, (a, b), start, end in self.hops:
            flow = instance.tensors[t]
            copies.append(Copy(flow.name, elements[flow.maker], names[a], names[b], start, end))
        copies.sort(key=lambda c: (c.start, c.end, c.tensor, c.elements, c.src, c.dst))
        return executions, copies
