"""A model's plans on some of the machine's cores: what a share of it is.

A share is a set of cores. On it a model runs by the best plan for the devices whose cores are among
them, teams included; two plans, for what comes alone and for what comes in numbers:

    single    least latency of one element
    stream    most elements a second: contiguous stages on single cores, which an exact solver finds
              at once

An artifact that was built to be adapted has kernels for all devices, so that a plan is found by a
solver, cut and laid out: nothing is compiled, no weight is copied. One that was not has its own
plan, which needs all of its cores.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from tvm_hetero.artifact.executable import PARTITION, Executable, Variant
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.restrict import restrict_devices
from tvm_hetero.problem.schedule import Execution, Schedule
from tvm_hetero.problem.simulate import Step, simulate
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import busy_seconds, makespan
from tvm_hetero.solvers.run_solver import solve

Shape = Literal["single", "stream"]
SHAPES: tuple[Shape, ...] = ("single", "stream")
Cores = frozenset[int]

_KINDS: dict[Shape, Literal["latency", "throughput"]] = {
    "single": "latency",
    "stream": "throughput",
}
_SOLVER_SECONDS = 1.0


@dataclass(frozen=True)
class SharePlan:
    """How a model runs on a share.

    Attributes
    ----------
    seconds : of one element alone; period : between two of many. As predicted from measured costs.
    """

    variant: Variant
    schedule: Schedule
    seconds: float
    period: float


class SharePlans:
    """The plans of a model on shares of its platform's cores; each is made once.

    Attributes
    ----------
    cores : all cores that the model's devices have.
    is_divisible : whether it runs on fewer than all.
    """

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self.cores: Cores = _cores_of(executable.problem)
        devices = executable.problem.platform.devices
        is_local = len({device.node for device in devices}) == 1
        # `build` keeps the module of a plan by estimates too, and may have compiled for its devices
        # alone.
        compiled = executable.libraries.keys()
        self.is_divisible = (
            executable.module is not None
            and is_local
            and all(device.cores and device.name in compiled for device in devices)
        )
        self._factory: PlanFactory | None = None
        self._factories: dict[Shape, PlanFactory] = {}
        self._made: dict[tuple[Cores, Shape], SharePlan] = {}
        self._lock = threading.Lock()

    def runs_on(self, cores: Cores) -> bool:
        """Whether there is a plan for these cores, or one that needs no others."""
        return self.is_divisible or cores >= self.cores

    def plan(self, cores: Cores, shape: Shape) -> SharePlan:
        """The plan on some of `cores`.

        Raises
        ------
        InfeasibleError
            If the model does not run on them.
        UsageError
            If the model cannot be divided, and they are not all.
        """
        with self._lock:
            if (cores, shape) not in self._made:
                self._made[cores, shape] = self._make(cores, shape)
            return self._made[cores, shape]

    def _make(self, cores: Cores, shape: Shape) -> SharePlan:
        own = self._executable
        problem = _aimed(own.problem, shape)
        if not self.is_divisible:
            if not cores >= self.cores:
                raise UsageError("the model was not built to be divided")
            return _described(own.problem, own.schedule, own.variants[own.default])
        if problem is own.problem and own.default == PARTITION and cores >= self.cores:
            return _described(problem, own.schedule, own.variants[PARTITION])
        if self._factory is None:
            self._factory = PlanFactory(own)
        if shape not in self._factories:
            self._factories[shape] = self._factory.for_problem(problem)
        schedule = self._solve(problem, cores)
        return _described(problem, schedule, self._factories[shape].variant(schedule))

    def _solve(self, problem: Problem, cores: Cores) -> Schedule:
        usable = [d for d in problem.platform.devices if cores.issuperset(d.cores)]
        if problem.objective.kind == "throughput":
            single = [device for device in usable if len(device.cores) == 1]
            usable = single or usable
        if not usable:
            raise InfeasibleError("no device of the model has only such cores", proven=True)
        part = restrict_devices(problem, [device.name for device in usable])
        # Whoever serves asked for no solver: where this one finds nothing, the plan of one core is
        # what this share does.
        found = solve(part, _solver(part), Options(time_limit=_SOLVER_SECONDS, quiet=True))
        timed = simulate(problem, _steps(problem, found))
        return make_schedule(problem, found.solver, timed.executions, timed.copies)


def _solver(part: Problem) -> str:
    if len(part.platform.devices) == 1:
        return "single"
    return "stages" if part.objective.kind == "throughput" else "auto"


def _aimed(problem: Problem, shape: Shape) -> Problem:
    """The problem with a shape's objective; its own if that is of this kind."""
    if problem.objective.kind == _KINDS[shape]:
        return problem
    return problem.with_objective(Objective(_KINDS[shape], batch=problem.batch))


def _steps(problem: Problem, schedule: Schedule) -> list[Step]:
    """Executions in an order that respects what they read: a period's times need not."""
    index = {task: i for i, task in enumerate(problem.graph.topological_order)}
    by_time = problem.objective.kind == "latency"

    def order(each: Execution) -> tuple[float, int]:
        return each.start if by_time else 0.0, index[each.task]

    ordered = sorted(schedule.executions, key=order)
    return [(each.task, each.device, each.elements) for each in ordered]


def _described(problem: Problem, schedule: Schedule, variant: Variant) -> SharePlan:
    """A plan with its times: alone, and the load of its busiest core."""
    alone = simulate(_aimed(problem, "single"), _steps(problem, schedule)).executions
    busy = busy_seconds(problem, schedule.executions, schedule.copies)
    seconds = makespan(alone)
    return SharePlan(variant, schedule, seconds, min(seconds, max(busy.values())))


def _cores_of(problem: Problem) -> Cores:
    return frozenset(core for device in problem.platform.devices for core in device.cores)
