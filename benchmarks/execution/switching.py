"""A thread that switches an executor's plan again and again, whatever else is asked of it."""

from __future__ import annotations

import threading
from types import TracebackType

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.chain import chain_of, places_of, schedule_of
from tvm_hetero.online.configuration import Configuration, move
from tvm_hetero.online.optimum import find_optimum

# Seconds between two switches.
PERIOD = 0.1


class Switching:
    """While the block runs: the best contiguous stages, their neighbours, and each core alone.

    Attributes
    ----------
    switches : how many there were.
    error : what ended it before its time; None if nothing did.
    """

    def __init__(self, executor: Executor, executable: Executable) -> None:
        self.switches = 0
        self.error: Exception | None = None
        self._executor = executor
        chain, places = chain_of(executable.problem), places_of(executable.problem.platform)
        best = find_optimum(chain.seconds_on(places), places).configuration
        ways = [best, *(Configuration((len(chain),), (p,)) for p in range(len(places)))]
        ways += [move(best, a, b) for a, b in ((0, 1), (1, 0)) if len(best) > 1]
        factory = PlanFactory(executable)
        schedules = [schedule_of(chain, way, places) for way in ways]
        self._plans = [factory.variant(schedule) for schedule in schedules]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Switching:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ending.wait(PERIOD):
                self._executor.switch(self._plans[self.switches % len(self._plans)])
                self.switches += 1
        except Exception as error:
            self.error = error
