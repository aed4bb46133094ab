"""The default: what suits the problem, the quickest first, each from the best that is known.

A *line-up* is a sequence of solvers, each with its share of the time limit. They run one after the
other; each is told the best schedule so far as its start. As soon as value and bound meet (within
`Options.gap`), the rest are not asked. Which line-up a problem gets depends on its features alone,
never on the clock, so that the same problem gets the same answer.

    latency         heuristics, milp-split for as long as easy problems take, hill climbing on
                    large graphs, annealing, then milp-split again; all that annealing would do
                    alone, and milp-split once more; where memory binds, count-dp
                    on many devices, segments, annealing, memory (twice where it has no prices),
                    cpsat, and segments again
    ... batches     heuristics on whole batches (of teams, on whole elements), then batches, which
                    divides them
    throughput      whole elements of a batch; throughput (all rungs of its own), then shares of
                    batches, then annealing for free placements; with many devices, count-dp before
                    all. Where modules can be listed and no memory binds, milp-split comes first,
                    shortly, and again between the two
    energy, cost    heuristics, milp-split, annealing, then one exact model
    teams           only who knows them (`registry.knows_teams`), and the rules for moldable tasks
    energies        of single tasks: only who knows them (`registry.knows_energies`)
    small problems  besides, exhaustive after what is quick, which mostly ends the matter; and,
                    where it did not, once more at the end, from the best that others found

A solver that crashes or lies is left out with a warning; one that finds nothing is left out. The
answer bears the name of the solver that found it, as ``auto:milp-split``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from tvm_hetero.bounds.memory.prices_and_labels import has_memory_chain
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError, SolverFault
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.deadline import time_is_up
from tvm_hetero.solvers.core.options import BOUND_SHARE, MOST_ASIDE, Options
from tvm_hetero.solvers.core.verified_call import drop_false_bound, solve_verified, warn
from tvm_hetero.solvers.exhaustive import solver as exhaustive
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.registry import knows_energies, knows_teams, solver_of
from tvm_hetero.solvers.search.annealing import steps_per_second
from tvm_hetero.solvers.search.load_annealing import MOST_PLACES, places
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Instance, instance_of

# Above so many tasks, only what takes near-linear time is asked.
LARGE = 20_000
# Tasks above which a climb comes before annealing.
_CLIMBED = 500
# From so many devices on, devices that are alike are counted first.
MANY = 9
# Devices above which a part of the time is kept back.
_HUNDREDS, _ASIDE = 100, 0.2
# Times its share of the wall that a stage may take: its work is counted, and a stage that is cut by
# the clock (a busy machine, libraries to be loaded first) answers otherwise than it would.
_NET = 4.0
# A heuristic takes milliseconds a thousand tasks; this share is a net, not a plan.
_QUICK = 0.1
# Seconds' worth of annealing after which splitting gains more; of large graphs it is so many steps
# for each item of the sequence. Of 1,000 tasks (layered on sched-pcie), 54 s' worth ends 2 % below
# 15 s' worth and what splitting makes of that; of 106 in modules of 35 (randwire-ba), it ends where
# 15 s' worth does, and the time is lacking for a proof.
_MOST_ALONE = 15.0
_STEPS_AN_ITEM = 2_000_000
# Each of these is sometimes the best of them (`python -m benchmarks.schedule --suite latency`);
# greedy was never the answer there.
_HEURISTICS = ("single", "heft", "peft", "cpop")
# Besides, where devices are teams of cores: how many each task gets is decided first.
_MOLDABLE = ("one-width", "work-area", "mcpa", "cpa")


@dataclass(frozen=True)
class Stage:
    """A solver and the share of the time limit that it may take."""

    solver: str
    share: float
    ignores_start: bool = False
    # Seconds' worth of work that it is given at most where it works alone.
    most: float = _MOST_ALONE
    # Added to the seed: who is asked twice does not do the same twice.
    turn: int = 0


ANNEALING_ALONE = Stage("annealing", 1.0, ignores_start=True)
# All that it would do if it alone were asked: never behind it.
_WHOLE_ANNEALING = replace(ANNEALING_ALONE, most=math.inf)


def portfolio(problem: Problem) -> list[Stage]:
    """Who is asked, in turn; where devices share cores, only who knows that."""
    quick, rest = _line_up(problem)
    asked = [*quick, *rest]
    if exhaustive.is_small(problem):
        # Modules, where there are any, are quicker still.
        first = [stage for stage in rest[:1] if stage.solver == "milp-split"]
        complete, again = Stage("exhaustive", 0.2), Stage("exhaustive", 1.0)
        asked = [*quick, *first, complete, *rest[len(first) :], again]
    able = [stage for stage in asked if knows_teams(stage.solver, problem)]
    return [stage for stage in able if knows_energies(stage.solver, problem)]


def _line_up(problem: Problem) -> tuple[list[Stage], list[Stage]]:
    """What is quickly asked, and the rest."""
    if problem.objective.kind == "throughput":
        plain = ["single", "elements"] if problem.batch > 1 else ["single"]
        return [Stage(name, _QUICK) for name in plain], _for_throughput(problem)
    if len(problem.tasks) > LARGE:
        quickest = [Stage("one-pass", _QUICK), Stage("single", _QUICK)]
        return quickest, [Stage("heft", 0.5), Stage("annealing", 0.2)]
    moldable: tuple[str, ...] = _MOLDABLE if problem.platform.cliques else ()
    # All cores for an element at a time, and one core for each element, are among its ways.
    moldable += ("elements",) if problem.platform.cliques and problem.batch > 1 else ()
    quick = [Stage(name, _QUICK) for name in (*_HEURISTICS, *moldable)]
    if len(problem.tasks) > _CLIMBED or any(instance_of(problem).memory_binds):
        quick = [Stage("one-pass", _QUICK), *quick]
    if problem.objective.kind == "latency":
        return quick, _for_latency(problem)
    if problem.platform.cliques and any(instance_of(problem).memory_binds):
        # Lists get stuck where memory binds; who does not, plans for latency. Of small ones CP-SAT
        # finds what spends least.
        return quick, [Stage("quickest", 0.4), Stage("cpsat", 0.7)]
    splits = problem.batch == 1 and split.helps(instance_of(problem))
    first = [Stage("milp-split", 0.3)] if splits else []
    return quick, [*first, Stage("annealing", 0.2), Stage("cpsat", 0.4 if splits else 0.7)]


def _for_throughput(problem: Problem) -> list[Stage]:
    if problem.objective.contiguous:
        return [Stage("throughput", 1.0)]
    if problem.platform.cliques:
        return [Stage("heft", _QUICK), ANNEALING_ALONE, Stage("cpsat", 0.7)]
    instance = instance_of(problem)
    counted = [Stage("count-dp", 0.2)] if len(problem.platform.devices) >= MANY else []
    shared = [Stage("shares", _QUICK)] if problem.batch > 1 else []
    # Of small problems the ladder leaves most to CP-SAT. Where copies are in no one's way annealing
    # is often the better one; its work takes half of the time.
    leaves = not instance.contended and places(instance) <= MOST_PLACES
    ladder = Stage("throughput", 0.5 if leaves else 0.75)
    if not split.helps(instance) or any(instance.memory_binds):
        return [*counted, ladder, *shared, _WHOLE_ANNEALING]
    # Small chains are proven at once; of others the proof is the better for a better plan.
    first, rest = Stage("milp-split", 0.1), Stage("milp-split", 0.45)
    return [*counted, first, ladder, *shared, rest, _WHOLE_ANNEALING]


def _for_latency(problem: Problem) -> list[Stage]:
    if problem.batch > 1:
        return [Stage("batches", 1.0)]
    instance = instance_of(problem)
    # Where a move is dear, climbing from the best heuristic gains more than annealing does.
    large, climb = len(problem.tasks) > _CLIMBED, Stage("hill-climbing", 1.0, ignores_start=True)
    if any(instance.memory_binds):
        counted = [Stage("count-dp", 0.2)] if _many(problem) else []
        memory, exact = Stage("memory", 0.5), Stage("cpsat", 0.5)
        first, *again = (Stage("segments", 0.6, turn=turn) for turn in range(4))
        if has_memory_chain(instance):
            # Modules with prices, or CP-SAT, close it in their time; the others have what is left.
            short = replace(first, share=0.1)
            return [*counted, short, ANNEALING_ALONE, memory, exact, _WHOLE_ANNEALING, *again]
        # Without such modules it anneals, and other starts than the best lead elsewhere (an LSTM on
        # a phone: 1.2 % lower). First it does what it does for `milp-split`, so that `auto` is not
        # behind that.
        alone = Stage("memory", split.SHARE_OF_MODULES, ignores_start=True, most=math.inf)
        return [*counted, first, _WHOLE_ANNEALING, alone, memory, again[0], exact, *again[1:]]
    if problem.platform.cliques:
        # Widths close modules that annealing, over many teams that are alike, is far from.
        short = replace(ANNEALING_ALONE, share=0.3)
        return [Stage("milp-split", 0.5), short, Stage("milp-split", 1.0)]
    # What modules close, they close at once; where they do not, annealing finds better starts. In
    # what time is left it does all that it would do alone.
    climbs = [climb] if large else []
    alone = replace(ANNEALING_ALONE, most=max(_MOST_ALONE, _seconds_to_settle(instance)))
    first, *rest = (Stage("milp-split", share, turn=t) for share, t in ((0.1, 0), (1, 0), (1, 1)))
    return [first, *climbs, alone, rest[0], _WHOLE_ANNEALING, rest[1]]


def _seconds_to_settle(instance: Instance) -> float:
    """Seconds' worth of annealing after which more of it gains little."""
    items = len(instance) + sum(len(flow.readers) for flow in instance.tensors)
    return items * _STEPS_AN_ITEM / steps_per_second(instance)


def _many(problem: Problem) -> bool:
    """Whether devices that are alike are counted first."""
    return len(problem.platform.devices) >= MANY and problem.batch == 1


def solve(problem: Problem, options: Options) -> Schedule:
    """The best of the line-up within the time limit.

    Raises
    ------
    InfeasibleError
        If one of them proves that there is no schedule.
    SolverError
        If none of them finds one: what the last one says, which is the most thorough.
    """
    from tvm_hetero.bounds import first_bound, lower_bound, round_up

    began = options.clock()
    options = replace(options, notes={})
    best = options.start
    is_late, aside = partial(time_is_up, options.ends), _aside(problem, options)
    bound = max(first_bound(problem, is_late), 0.0 if best is None else best.lower_bound)
    reason: HeteroError = SolverError(f"auto found no schedule of {problem.name!r}")
    if options.ends is not None:
        options, aside = replace(options, ends=options.ends.sooner(aside)), 0.0
    # What was told to those who work alone: asked the same again, they answer the same.
    told: set[tuple[str, float, int]] = set()
    for stage in portfolio(problem):
        left = options.until(began) - aside - options.clock()
        if left <= 0 or (best is not None and options.within_gap(best.value, bound)):
            break
        share = options_for(stage, options, best, left)
        if stage.ignores_start:
            if (stage.solver, share.time_limit, share.seed) in told:
                continue
            told.add((stage.solver, share.time_limit, share.seed))
        options.say(_says(stage.solver, problem, best, bound))
        try:
            answer = run_stage(problem, stage.solver, share)
        except HeteroError as error:
            reason = error
            if best is None and isinstance(error, InfeasibleError) and error.proven:
                break
            continue
        answer = drop_false_bound(answer, [best.value] if best else [], stage.solver)
        bound = max(bound, round_up(problem, answer.lower_bound))
        if best is None or answer.value < best.value:
            best = answer
        options.keep(replace(best, solver=_by(best)), bound)
    if best is None:
        raise _nothing(problem, reason)
    if not options.within_gap(best.value, bound):
        quick = BOUND_SHARE * options.time_limit
        bound = max(bound, lower_bound(problem, best.value, quick, is_late))
    return replace(best, solver=_by(best), lower_bound=min(bound, best.value))


def _by(best: Schedule) -> str:
    """Who found it, and that `auto` asked them."""
    return f"auto:{best.solver.removeprefix('auto:')}"


def _aside(problem: Problem, options: Options) -> float:
    """Seconds that are kept back for the bound at the end."""
    # On hundreds of devices a stage takes seconds before it has begun, and a bound some more.
    many = len(problem.platform.devices) > _HUNDREDS
    aside = _ASIDE * options.wall_limit if many else 0.0
    if options.ends is None:
        return aside
    return max(aside, min(BOUND_SHARE * options.time_limit, MOST_ASIDE))


def _nothing(problem: Problem, reason: HeteroError) -> HeteroError:
    """What to say where nothing was found: that there is nothing only if that is proven."""
    if isinstance(reason, InfeasibleError) and reason.proven:
        return reason
    return SolverError(
        f"auto found no schedule of {problem.name!r} in its time, which does not mean that there "
        f"is none; give it more time, or relax a limit. The last solver says: {reason}"
    )


def _says(name: str, problem: Problem, best: Schedule | None, bound: float) -> str:
    """Who is asked, and what is known before."""
    if best is None:
        return f"asking {name}"
    timed = problem.objective.kind in ("latency", "throughput")
    value, low = (format_seconds(v) if timed else f"{v:.4g}" for v in (best.value, bound))
    return f"asking {name}; so far {value} by {best.solver}, at least {low}"


def options_for(stage: Stage, options: Options, best: Schedule | None, left: float) -> Options:
    """What a stage is told. One that works alone does what it would do if it were the only one."""
    limit = stage.share * options.time_limit
    if stage.ignores_start:
        return replace(options, time_limit=min(limit, stage.most), deadline=left)
    net = min(left, _NET * stage.share * options.wall_limit)
    seed = (options.seed + stage.turn) % 2**31
    return replace(options, start=best, time_limit=limit, deadline=net, seed=seed)


def run_stage(problem: Problem, name: str, options: Options) -> Schedule:
    """A solver's verified answer; of its faults the user is told."""
    try:
        return solve_verified(problem, name, solver_of(name), options)
    except SolverFault as fault:
        warn(f"auto goes on without {name!r}: {fault}")
        raise
