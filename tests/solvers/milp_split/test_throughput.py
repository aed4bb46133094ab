"""MILP-SPLIT for throughput: columns, labels and prices against every placement there is."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero.bounds.throughput import module_columns
from tvm_hetero.bounds.throughput.module_columns import throughput_chain
from tvm_hetero.check import verified
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.milp_split.labels import LabelSearch, LabelStep
from tvm_hetero.solvers.milp_split.lagrangian import best_weights, probe
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.instance import Instance

QUICK = counted(time_limit=4.0)
THROUGHPUT = Objective("throughput")
many = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def forks(draw: st.DrawFn, devices: int = 2, memory: bool = False) -> Problem:
    """A chain of one to three modules with one to three branches each, some with memory limits."""
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    time = st.integers(1, 9).map(float)
    size = st.sampled_from([0, 8, 16, 40])

    def row() -> dict[str, float]:
        return {f"p{k}": draw(time) for k in range(1, devices + 1)}

    costs, edges = {"c0": row()}, []
    for m, width in enumerate(widths):
        for b in range(width):
            costs[f"m{m}b{b}"] = row()
            edges += [(f"c{m}", f"m{m}b{b}", draw(size)), (f"m{m}b{b}", f"c{m + 1}", draw(size))]
        costs[f"c{m + 1}"] = row()
    # All readers of a cut's tensor read the same one.
    sizes = {src: n for src, _, n in edges}
    edges = [(src, dst, sizes[src]) for src, dst, _ in edges]
    platform = processors(devices, overlap=draw(st.booleans()), bandwidth=16.0)
    problem = problem_of(costs, edges, platform, THROUGHPUT)
    return _tight(problem, draw(st.sampled_from([None, 2.0, 1.5]))) if memory else problem


def _tight(problem: Problem, share: float | None) -> Problem:
    """Weights of 16 bytes a task; every device holds 1 / share of all bytes at once."""
    tasks = [replace(task, weight_bytes=16) for task in problem.tasks]
    graph = type(problem.graph)(tasks, problem.graph.edges)
    total = 16 * len(tasks) + sum(t.bytes for t in graph.tensors.values())
    limit = None if share is None else int(total / share)
    devices = tuple(replace(d, memory=limit) for d in problem.platform.devices)
    platform = Platform(devices, problem.platform.links, problem.platform.fabrics)
    return replace(problem, graph=graph, platform=platform)


@pytest.mark.slow
@many
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True))
def test_any_small_problem_equals_brute_force(problem: Problem) -> None:
    answer = solve(problem, "milp-split", QUICK)
    assert answer.value == pytest.approx(brute_force(problem), rel=1e-9, abs=1e-12)
    assert answer.status == "optimal"


@pytest.mark.slow
@many
@given(problem=forks(memory=True))
def test_chains_of_modules_equal_exhaustive(problem: Problem) -> None:
    try:
        best = solve(problem, "exhaustive", QUICK)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            split.solve(problem, QUICK)
        return
    answer = verified(problem, split.solve(problem, QUICK))
    assert answer.value == pytest.approx(best.value, rel=1e-9)
    assert answer.lower_bound == pytest.approx(best.value, rel=1e-6)


@many
@given(
    problem=forks(devices=3, memory=True),
    width=st.integers(1, 4),
    part=st.sampled_from([0.5, 0.8, 0.95, 1.0, 1.1, 2.0]),
)
def test_no_bound_is_above_the_best(problem: Problem, width: int, part: float) -> None:
    """Not even with so few labels that nearly all are merged, nor for a target above the best."""
    instance = Instance(problem)
    chain = throughput_chain(instance)
    assert chain is not None
    best = min(
        exact_value(instance, plan)
        for plan in itertools.product(*(instance.devices[v] for v in range(len(instance))))
    ) if len(instance) <= 8 else math.inf  # fmt: skip
    assume(best < math.inf)
    weights = best_weights(chain)
    assert 0 < weights.bound <= best
    found = probe(chain, weights, part * best, width, 10**9)
    assert found.bound <= best * (1 + 1e-12)
    for plan in found.plans:
        assert exact_value(instance, plan) <= part * best * (1 + 1e-9)


@many
@given(problem=problems(max_tasks=6, kinds=["throughput"], memory=True), seed=st.integers(0, 99))
def test_columns_add_up_to_the_loads_of_a_placement(problem: Problem, seed: int) -> None:
    instance = Instance(problem)
    chain = throughput_chain(instance)
    assert chain is not None
    rng, rows, here = np.random.default_rng(seed), [], 0
    for table in chain.tables:
        fits = np.flatnonzero(table.code // len(instance.names) == here)
        assume(len(fits))
        rows.append(int(rng.choice(fits)))
        here = int(table.code[rows[-1]]) % len(instance.names)
    plan = chain.placement(rows)
    pairs = list(zip(chain.tables, rows, strict=True))
    load = sum(table.load[row] for table, row in pairs)
    held = sum(table.held[row] for table, row in pairs)
    value = exact_value(instance, plan)
    if (held <= chain.capacity).all():
        assert value == pytest.approx(load.max(), rel=1e-12)
    else:
        assert value == math.inf


@many
@given(data=st.data())
def test_labels_find_what_fits_or_prove_that_nothing_does(data: st.DataObject) -> None:
    devices, parts = 2, data.draw(st.integers(1, 3))
    amount, kinds = st.integers(0, 6).map(float), []
    for _ in range(2):
        rows = data.draw(
            st.lists(
                st.tuples(st.integers(0, 1), st.integers(0, 1), st.tuples(*[amount] * parts)),
                min_size=1,
                max_size=6,
            )
        )
        first, last, taken = (np.array(column) for column in zip(*rows, strict=True))
        kinds.append(LabelStep(first, last, taken))
    steps = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    room = np.array([data.draw(st.integers(1, 15).map(float)) for _ in range(parts)])
    price = np.array([data.draw(st.integers(0, 4).map(float)) for _ in range(parts)])
    width = data.draw(st.sampled_from([1, 2, 1000]))
    answer = LabelSearch(steps, devices, room, price).run(width, 10**9)
    fitting = []
    for way in itertools.product(*(range(len(step)) for step in steps)):
        chosen = list(zip(steps, way, strict=True))
        ends = [0, *(step.last[row] for step, row in chosen)]
        meet = all(step.first[row] == end for (step, row), end in zip(chosen, ends, strict=False))
        taken = sum(step.taken[row] for step, row in chosen)
        if meet and (taken <= room).all():
            fitting.append(float(taken @ price))
    assert answer.least <= min(fitting, default=math.inf)
    if width == 1000:
        assert answer.least == min(fitting, default=math.inf)
        assert bool(answer.ways) == bool(fitting)
    for found in answer.ways:
        total = sum(step.taken[row] for step, row in zip(steps, found, strict=True))
        assert (total <= room).all()


def long_chain(modules: int) -> Problem:
    """Equal modules: a cut, two branches."""
    costs, edges = {"c0": {"p1": 2.0, "p2": 3.0}}, []
    for m in range(modules):
        costs |= {f"a{m}": {"p1": 4.0, "p2": 5.0}, f"b{m}": {"p1": 3.0, "p2": 2.0}}
        costs[f"c{m + 1}"] = {"p1": 2.0, "p2": 3.0}
        for name in (f"a{m}", f"b{m}"):
            edges += [(f"c{m}", name, 16), (name, f"c{m + 1}", 8)]
    platform = processors(2, overlap=False, bandwidth=16.0)
    return problem_of(costs, edges, platform, THROUGHPUT)


def test_equal_modules_are_listed_and_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    whole = module_columns.columns_of

    def noted(*args: object) -> object:
        listed.append(args[1])
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module_columns, "columns_of", noted)
    chain = throughput_chain(Instance(long_chain(30)))
    assert chain is not None
    # The lone first task, then thirty times the same.
    assert (len(chain.tables), len(chain.distinct), len(listed)) == (31, 2, 2)


def test_what_prices_leave_open_labels_prove() -> None:
    problem = long_chain(30)
    chain = throughput_chain(Instance(problem))
    assert chain is not None
    answer = verified(problem, split.solve(problem, QUICK))
    # Prices mix a plan on p1 with one on p2, which copies nothing.
    assert best_weights(chain).bound < answer.value * 0.995
    assert answer.status == "optimal"


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two = (split.solve(long_chain(12), counted(time_limit=2.0, seed=3)) for _ in range(2))
    assert (one.executions, one.copies, one.lower_bound) == (
        two.executions,
        two.copies,
        two.lower_bound,
    )


@few
@given(problem=problems(max_tasks=2, max_devices=2, kinds=["throughput"], batch=2, memory=True))
def test_of_divided_batches_nothing_is_claimed(problem: Problem) -> None:
    answer = verified(problem, split.solve(problem, QUICK))
    assert answer.lower_bound <= brute_force(problem) * (1 + 1e-9)


def test_without_memory_for_any_placement_it_says_so() -> None:
    problem = _tight(long_chain(4), 4.0)
    with pytest.raises(InfeasibleError, match="whatever modules are put where"):
        split.solve(problem, QUICK)


@pytest.mark.parametrize("objective", [THROUGHPUT, Objective("latency")])
def test_when_the_time_is_up_the_start_is_the_answer(objective: Objective) -> None:
    problem = long_chain(12).with_objective(objective)
    start = solve(problem, "single")
    late = replace(QUICK, start=start, deadline=1e-9, ends=Deadline.after(-1.0))
    answer = verified(problem, split.solve(problem, late))
    assert (answer.solver, answer.executions) == ("milp-split", start.executions)
    with pytest.raises(SolverError, match="time is up"):
        split.solve(problem, replace(late, start=None))
