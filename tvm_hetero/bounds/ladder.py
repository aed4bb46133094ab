"""The ladder: bounds of latency and throughput from milliseconds to seconds, the quickest first.

==================  ==========================================================  ================
rung                what it knows                                               file
==================  ==========================================================  ================
diviml              best device of every task: longest path, and all work shared
                    evenly by the devices (the ingredients of DiviML's bound)   `critical_path`
critical path       devices and copies along every path                         `critical_path`
path runs           how often a path changes devices where no memory holds it   `path_runs`
detours             the same of paths that go past branches, or through them    `detours`
loads               how long each device is busy, at best                       `loads`
precedence program  paths, copies, loads and memory together                    `precedence`
module programs     the same between articulations, by ends' devices (B = 1)    `modules`
nested programs     heads and tails by programs of what is before and after     `nested`
branched programs   the same with tasks tried on every device                   `modules`
patterns            whole tasks in the memories of many alike devices           `patterns`
whole tasks         throughput: what each device can hold, below a known value   `whole_tasks`
shares              throughput: loads with copies, links and memory             `share_program`
chain               throughput of a chain, below a known value                  `chain`
==================  ==========================================================  ================

What a rung may take is counted in numbers of its linear programs (about 80,000 a second), not
in seconds, so that a run can be repeated. Rungs that are too big, and those that cannot add
anything, are left out.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.linear import ROUNDING
from tvm_hetero.bounds.core.time_is_up import Late, TimeIsUp, never
from tvm_hetero.bounds.latency.critical_path import (
    Cuts,
    articulations,
    fastest_path,
    fits,
    limit_of,
    path_of,
)
from tvm_hetero.bounds.latency.loads import group_rates, load_of, maximize_prices
from tvm_hetero.bounds.latency.modules import ModuleChain
from tvm_hetero.bounds.latency.nested import large_modules, nest
from tvm_hetero.bounds.latency.precedence import PrecedenceModel, work_of
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.bounds.memory.detours import detour_bound
from tvm_hetero.bounds.memory.path_runs import path_runs_bound
from tvm_hetero.bounds.throughput.chain import chain_bound
from tvm_hetero.bounds.throughput.patterns import pattern_bound
from tvm_hetero.bounds.throughput.share_program import rates, share_bound
from tvm_hetero.bounds.throughput.whole_tasks import WORK_A_SECOND as WORK_ON_WHOLE_TASKS
from tvm_hetero.bounds.throughput.whole_tasks import whole_task_bound
from tvm_hetero.views.arrays import Figures
from tvm_hetero.views.task_classes import shares_of

# Shares (task x kind of device) above which throughput is bounded by prices alone.
_MOST_SHARES = 60_000
# Work from which on patterns are worth the tenths of a second that they take.
_PATTERN_WORK = 8_000
# Devices up to which nested programs are solved, one for each task and device.
_MOST_NESTED = 6
# A bound this near to a known value is as good as it.
_CLOSE = 1 - 1e-9


@dataclass(frozen=True)
class Rung:
    """One bound of the ladder.

    Attributes
    ----------
    name : see the table at the head of this file.
    value : a proven lower bound: s, s per batch, J per batch, or money per batch.
    seconds : that it took, s.
    """

    name: str
    value: float
    seconds: float


def diviml(figures: Figures) -> float:
    """DiviML's ingredients: every task on its best device, by path and by evenly shared load, s."""
    devices = int(np.isfinite(figures.rate).any(axis=0).sum())
    work = math.fsum(group_rates(figures).min(axis=1).tolist())
    return max(fastest_path(figures), work / devices)


def program_of(figures: Figures, limit: float) -> float:
    """The precedence program of the whole graph, for makespans up to `limit`, s."""
    return PrecedenceModel(Subgraph.whole(figures), limit, limit / 8).build().bound()


def climb(
    figures: Figures, work: int, upper: float = math.inf, late: Late = never
) -> Iterator[Rung]:
    """The rungs for the latency of a feasible problem, quickest first.

    Parameters
    ----------
    work : numbers in linear programs that may be solved (see `bounds.core.linear.WORK_A_SECOND`).
    upper : a known value; nothing is tried any more when a bound has reached it, s.
    late : whether there is no time for another rung.
    """
    yield from _climb(_rungs(figures, work, upper, late), upper, late)


def climb_throughput(
    figures: Figures, seconds: float, upper: float = math.inf, late: Late = never
) -> Iterator[Rung]:
    """The rungs for the throughput of a feasible problem (see `climb`).

    `seconds` are what whole tasks may take, counted as work.
    """
    yield from _climb(_throughput_rungs(figures, seconds, upper, late), upper, late)


def _climb(
    rungs: Iterable[tuple[str, Callable[[], float]]], upper: float, late: Late
) -> Iterator[Rung]:
    try:
        yield from _each_rung(rungs, upper, late)
    except TimeIsUp:
        return  # what is below stands


def _each_rung(
    rungs: Iterable[tuple[str, Callable[[], float]]], upper: float, late: Late
) -> Iterator[Rung]:
    best = 0.0
    for i, (name, bound) in enumerate(rungs):
        if best >= upper * _CLOSE or (i > 0 and late()):
            return
        began = time.perf_counter()
        value = max(0.0, bound()) * ROUNDING
        best = max(best, value)
        yield Rung(name, value, time.perf_counter() - began)


def _rungs(
    figures: Figures, work: int, upper: float, late: Late
) -> Iterator[tuple[str, Callable[[], float]]]:
    yield "diviml", lambda: diviml(figures)
    path = functools.cache(lambda: path_of(figures, late))
    yield "critical path", path
    if any(figures.instance.memory_binds):
        yield "path runs", lambda: path_runs_bound(figures.instance, late)
        yield "detours", lambda: detour_bound(figures.instance, work, late)
    yield "loads", lambda: load_of(figures)
    if any(figures.instance.memory_binds) and work >= _PATTERN_WORK:
        yield "patterns", lambda: pattern_bound(figures.instance, late)
    limit = limit_of(figures, path())
    chain = chain_of(figures, limit, late)
    whole = chain is None or chain.cuts.count == 1 or any(figures.instance.memory_binds)
    if whole and work_of(figures, len(figures), len(figures.src)) <= work:
        yield "precedence program", lambda: program_of(figures, limit)
    if chain is None:
        return
    few = figures.rate.shape[1] <= _MOST_NESTED
    nested = few and bool(large_modules(chain, 2 * work))
    if chain.cuts.count > 1:
        # Half of the entries raised bound little, so this may take twice what was planned; not
        # where nested programs know more.
        yield "module programs", lambda: chain.close(work // 2 if nested else 2 * work)
    if nested:
        yield "nested programs", lambda: nest(chain, 2 * work, upper)
    yield "branched programs", lambda: chain.branch(work)


def _throughput_rungs(
    figures: Figures, seconds: float, upper: float, late: Late
) -> Iterator[tuple[str, Callable[[], float]]]:
    instance = figures.instance
    classes = functools.cache(lambda: shares_of(instance, rates(instance)))
    yield "classes", lambda: classes().value
    if instance.teams:
        yield "loads", lambda: load_of(figures)
    elif classes().value == 0:
        # Too many classes. Copies are left to the shares, which know equal devices: `load_of` takes
        # seconds there. Where there are classes they say the same in a hundredth of the time.
        yield "loads", lambda: maximize_prices(group_rates(figures.merged))
    if not instance.contended and not instance.teams and upper < math.inf:
        work = seconds * WORK_ON_WHOLE_TASKS
        yield "whole tasks", lambda: whole_task_bound(instance, classes(), upper, work, late)
    if not instance.contended or figures.merged.rate.size > _MOST_SHARES:
        return
    shares = functools.cache(lambda: share_bound(instance))
    yield "shares", lambda: shares()[0]
    if any(instance.memory_binds):
        yield "patterns", lambda: pattern_bound(instance, late)
    if upper < math.inf:
        yield "chain", lambda: chain_bound(instance, upper, shares()[1])


def chain_of(figures: Figures, limit: float, late: Late = never) -> ModuleChain | None:
    """The modules, unless a divided batch joins them, or their tables would be too big."""
    if figures.batch > 1 or not fits(figures):
        return None
    return ModuleChain(figures, Cuts.of(figures, articulations(figures)), limit, late)
