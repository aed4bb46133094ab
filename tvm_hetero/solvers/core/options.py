"""What a solver is told besides the problem, and how it wraps up its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Copy, Execution, Schedule
from tvm_hetero.solvers.core.best_so_far import BestSoFar
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.core.score import value_of
from tvm_hetero.util.search_clock import now

# The part of a time limit that goes to the ladder of lower bounds, if it is asked.
BOUND_SHARE = 0.1
# And at most, about, s.
MOST_ASIDE = 4.0
BACKENDS = ("auto", "highs", "scip", "gurobi")
# A century is enough, and the work that is counted for it is still a number of 64 bits.
MOST_SECONDS = 3e9
SYMMETRIES = ("time", "tasks", "batches", "none")


@dataclass(frozen=True)
class Options:
    """How long and from where to search.

    Attributes
    ----------
    time_limit : wall seconds that a search may take. Searches count their own work and stop
        after a fixed amount of it that fits well within the limit on an idle machine, so that
        a run can be repeated; the clock only cuts what a slow machine would drag out.
    seed : of everything random.
    start : a valid schedule to begin from.
    deadline : wall seconds after which the search is cut, where that is another than the time
        limit which its work is counted from: what is left of a larger search, or so much that
        the answer depends on the work alone, however slow the machine.
    ends : the moment at which everything is to be over, whoever is asked in turn; `solve` sets it
        where no one has. What a solver takes ends by then, whatever its own limits are.
    gap : a search may end where its best answer is proven to be within this share of the least
        value: measured costs are not known to better than a percent. Solvers that look at no
        bound on the way do not care.
    workers : cores that independent subproblems may use; the answer does not depend on it.
    backend : of solver milp: "auto", "highs", "scip" or "gurobi".
    symmetry : by what interchangeable devices and nodes are ordered in the exact models: "time"
        (time utilisation), "tasks" (number of tasks), "batches" (number of elements), or "none".
    clock : what the time is read from (s, from any moment on) between solvers that are asked in
        turn, and between the looks of a search. What runs within one of CP-SAT's or HiGHS's
        calls, a table or a native search is handed the seconds that are left, and reads the
        machine's own.
    tell : is told, in a line of words, what is being done and in the end why it stopped.
    best : is told every answer that the judge has passed, for whoever must end before it is over.
    quiet : no one is warned that another one's schedule is the answer because this solver found
        none: for callers to whom any will do, whose own users did not choose a solver. Of crashes
        and invalid answers they are told all the same.
    notes : what solvers keep by instance, to go on from when they are asked again in the same run;
        from whoever asks several in turn.
    """

    time_limit: float = 60.0
    seed: int = 0
    start: Schedule | None = None
    deadline: float | None = None
    ends: Deadline | None = None
    gap: float = OPTIMAL_GAP
    workers: int = 1
    backend: str = "auto"
    symmetry: str = "time"
    clock: Callable[[], float] = now
    tell: Callable[[str], None] | None = None
    best: BestSoFar | None = None
    quiet: bool = False
    notes: dict[object, object] | None = None

    @property
    def wall_limit(self) -> float:
        """Wall seconds from now after which a search that begins now is cut."""
        own = self.time_limit if self.deadline is None else self.deadline
        return own if self.ends is None else min(own, max(0.0, self.ends.left()))

    def say(self, text: str) -> None:
        """Tell whoever wants to be told."""
        if self.tell is not None:
            self.tell(text)

    def keep(self, found: Schedule, bound: float = 0.0) -> None:
        """Keep a schedule that the judge has passed, and a proven bound (see `best`)."""
        if self.best is not None:
            self.best.offer(found, bound)

    def until(self, began: float) -> float:
        """The moment (of `clock`) at which a search that began then is cut."""
        own = began + (self.time_limit if self.deadline is None else self.deadline)
        return own if self.ends is None else min(own, self.ends.at)

    def within_gap(self, value: float, bound: float) -> bool:
        """Whether a value is near enough to a bound for a search to end."""
        return value - bound <= max(self.gap, OPTIMAL_GAP) * value

    def __post_init__(self) -> None:
        check_seconds(self.time_limit, "time limit: ", f", got {self.time_limit}")
        if self.deadline is not None and not self.deadline >= 0:
            raise UsageError(f"deadline: expected seconds, 0 or more, got {self.deadline}")
        if not callable(self.clock):
            raise UsageError(
                f"clock: expected a function that answers seconds, got {self.clock!r}; when to "
                "cut a search is its deadline"
            )
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"seed: expected a number from 0 to 2^31 - 1, got {self.seed}")
        if not 0 <= self.gap < 1:
            raise UsageError(f"gap: expected a share from 0 to below 1, got {self.gap}")
        if self.workers < 1:
            raise UsageError(f"workers: expected at least 1, got {self.workers}")
        for what, given, known in (
            ("backend", self.backend, BACKENDS),
            ("symmetry", self.symmetry, SYMMETRIES),
        ):
            if given not in known:
                raise UsageError(f"{what}: expected one of {', '.join(known)}, got {given!r}")


def check_seconds(time_limit: float, before: str, after: str = "") -> None:
    """Refuse a time limit that is none; `before` and `after` say what was given.

    Raises
    ------
    UsageError
        It is not above 0, or beyond all that anyone can wait.
    """
    if not 0 < time_limit <= MOST_SECONDS:
        most = "" if not time_limit > 0 else f" and at most {MOST_SECONDS:g}"
        raise UsageError(f"{before}expected seconds above 0{most}{after}")


def make_schedule(
    problem: Problem,
    solver: str,
    executions: Sequence[Execution],
    copies: Sequence[Copy],
    *,
    lower_bound: float = 0.0,
    seed: int = 0,
) -> Schedule:
    """A solver's answer; `run_solver` adds best single device, final bound, status and time."""
    return Schedule(
        problem=problem.digest,
        solver=solver,
        kind=problem.objective.kind,
        executions=tuple(executions),
        copies=tuple(copies),
        value=value_of(problem, executions, copies),
        lower_bound=lower_bound,
        seed=seed,
    )
