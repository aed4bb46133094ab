"""Dividing batches: shares, the search in C++ against the decoder, limits, and small optima."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, processors
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.bounds.latency.batch import batch_bound
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import SolverError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.batches import solver as batches
from tvm_hetero.solvers.batches.range_search import Streams, StreamSearch, _copies
from tvm_hetero.solvers.batches.starts import by_speed, menu, shares, widened
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.views.instance import Instance

QUICK = counted(time_limit=0.5)
SPENT: tuple[Kind, ...] = ("latency", "energy", "cost")


def chain(
    length: int, table: tuple[tuple[int, float], ...], batch: int, memory: int | None = None
) -> Problem:
    """A chain of equal tasks on two equal devices; every task makes 8 bytes an element."""
    tasks = [Task(f"t{i}", output_bytes=8) for i in range(length)]
    edges = [Edge(f"t{i}", f"t{i + 1}", 8) for i in range(length - 1)]
    costs = {task.id: {"p1": Cost(table), "p2": Cost(table)} for task in tasks}
    devices = tuple(Device(f"p{i}", overlap=True, memory=memory) for i in (1, 2))
    platform = Platform(devices, fabrics=(Fabric("node0", bandwidth=1e9),))
    return Problem(TaskGraph(tasks, edges), costs, platform, Objective("latency", batch))


def test_equal_devices_share_a_batch_equally() -> None:
    answer = solve(chain(3, ((1, 1.0),), 8), "batches", QUICK)
    assert answer.value == pytest.approx(12.0)
    assert answer.status == "optimal"


def test_a_task_is_not_divided_where_that_costs_more() -> None:
    # One element takes as long as four: whatever is divided takes longer.
    answer = solve(chain(2, ((1, 4.0), (4, 4.0)), 4), "batches", QUICK)
    assert answer.value == pytest.approx(8.0)
    assert len(answer.executions) == 2


def test_heavy_tasks_whole_and_light_ones_shared() -> None:
    # a gains nothing from being divided, b everything: 4 s, a copy, and half of 8 s.
    tasks = [Task("a"), Task("b")]
    graph = TaskGraph(tasks, [Edge("a", "b", 0)])
    rows = {"a": Cost(((1, 4.0), (4, 4.0))), "b": Cost(((1, 2.0),))}
    costs = {name: {"p1": cost, "p2": cost} for name, cost in rows.items()}
    problem = Problem(graph, costs, processors(2), Objective("latency", 4))
    assert solve(problem, "batches", QUICK).value == pytest.approx(8.0) == brute_force(problem)


def test_a_batch_that_does_not_fit_whole_fits_divided() -> None:
    # A whole batch of 4 needs 32 bytes of input and 32 of output on one device.
    problem = chain(2, ((1, 1.0),), 4, memory=32)
    answer = solve(problem, "batches", QUICK)
    assert answer.value <= 8.0
    assert len(answer.executions) > 2


def test_throughput_is_refused() -> None:
    problem = chain(2, ((1, 1.0),), 4).with_objective(Objective("throughput", 4))
    with pytest.raises(SolverError, match="use solver throughput"):
        batches.solve(problem, QUICK)


@settings(max_examples=draws(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=3, max_devices=2, kinds=SPENT, batch=2, memory=True))
def test_between_the_optimum_and_the_heuristics(problem: Problem) -> None:
    answer = solve(problem, "batches", counted(time_limit=0.1))
    assert answer.value >= brute_force(problem) * (1 - 1e-9)
    assert answer.value <= solve(problem, "heft", QUICK).value * (1 + 1e-9)
    assert answer.lower_bound <= answer.value
    if problem.objective.kind == "latency":
        assert batch_bound(Instance(problem), 1.0) <= brute_force(problem) * (1 + 1e-9)


@settings(max_examples=draws(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=3, max_devices=2, kinds=("latency",), batch=3, overlap=False))
def test_no_division_is_below_the_bound(problem: Problem) -> None:
    assert batch_bound(Instance(problem), 1.0) <= brute_force(problem) * (1 + 1e-9)


def test_the_bound_knows_that_large_executions_make_large_copies() -> None:
    # a on p1 and b on p2 take 1 s whatever they hold, a copy 1 s an element. Whole that is 6 s;
    # in halves 5 s, the optimum. With copies of one element whole batches would take 3 s.
    once = Cost(((1, 1.0), (4, 1.0)))
    graph = TaskGraph([Task("a", output_bytes=1), Task("b")], [Edge("a", "b", 1)])
    platform = Platform(
        tuple(Device(name, overlap=True) for name in ("p1", "p2")),
        fabrics=(Fabric("node0", bandwidth=1.0),),
    )
    costs = {"a": {"p1": once}, "b": {"p2": once}}
    problem = Problem(graph, costs, platform, Objective("latency", 4))
    assert 3.9 <= batch_bound(Instance(problem), 1.0) <= 5.0
    assert solve(problem, "batches", QUICK).value == pytest.approx(5.0)


def test_the_bound_knows_that_an_element_is_in_one_execution_at_a_time() -> None:
    # Four tasks between two others on the only device that runs them: batches of any size take
    # all of their time, and so does every element.
    once = Cost(((1, 1.0), (4, 1.0)))
    names = ["a", "b", "c", "d"]
    tasks = [Task("s"), *map(Task, names), Task("e")]
    edges = [Edge("s", name, 0) for name in names] + [Edge(name, "e", 0) for name in names]
    costs = {task.id: {"p1": once, "p2": once} for task in tasks}
    costs |= {name: {"p1": once} for name in names}
    problem = Problem(TaskGraph(tasks, edges), costs, processors(2), Objective("latency", 4))
    assert batch_bound(Instance(problem), 1.0) == pytest.approx(6.0)


@settings(max_examples=draws(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    problem=problems(
        max_tasks=2, max_devices=2, batch=3, colors=False, overlap=False, exclusive=False
    )
)
def test_small_batches_are_nearly_always_optimal(problem: Problem) -> None:
    answer = solve(problem, "batches", counted(time_limit=0.2))
    # Ranges are contiguous, so now and then an optimum is out of reach.
    assert answer.value <= brute_force(problem) * 1.25 + 1e-12


@pytest.mark.parametrize("platform", ["sched-pcie", "diviml"])
def test_the_same_seed_gives_the_same_schedule_on_any_number_of_cores(
    platform: str,
) -> None:
    # The work is fixed by the time limit; on a busy machine the clock would cut one of the two.
    uncut = counted(time_limit=1.0, deadline=1000.0)
    problem = zoo.problem("light-squeezenet", platform, Objective("latency", 8))
    first = solve(problem, "batches", uncut)
    second = solve(problem, "batches", replace(uncut, workers=2))
    assert first.executions == second.executions and first.copies == second.copies
    assert first.value < 0.8 * first.best_single_device.value  # type: ignore[union-attr]


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=5, max_size=5), min_size=1, max_size=3),
    st.integers(1, 5),
)
def test_shares_balance_the_devices(steps: list[list[int]], elements: int) -> None:
    totals = np.array([[0, *itertools.accumulate(row)] for row in steps], float)
    found = shares(totals, elements)
    slowest = max(totals[d, n] for d, n in enumerate(found))
    every = itertools.product(range(elements + 1), repeat=len(steps))
    best = min(
        max(totals[d, n] for d, n in enumerate(row)) for row in every if sum(row) == elements
    )
    assert sum(found) == elements and slowest == best


def test_the_search_reckons_as_the_decoder_does() -> None:
    problem = chain(5, ((1, 1.0), (6, 3.0)), 6)
    search = StreamSearch(Instance(problem))
    start = by_speed(search, [0, 1], 2, 1)
    found = search.anneal(start, work=20_000, seed=3, heat=0.01, deadline=60.0)
    instance, placement, order = search.divided(found)
    decoded = NativeSearch(instance).decode(placement, order)
    # What the search adds to the makespan is at most 1 % of it, to tell plateaus apart.
    assert decoded.makespan <= found.value * (1 + 1e-9) <= decoded.makespan * 1.0101
    assert (found.counts.sum(axis=1) == 6).all()


@pytest.mark.parametrize("place", [0, 3, 5])
@pytest.mark.parametrize("kind", SPENT)
def test_what_was_changed_step_by_step_takes_as_long_when_it_is_decoded_afresh(
    kind: Kind, place: int
) -> None:
    # A change is decoded from where it differs, and not at all where it is late at once.
    problem = zoo.problem("light-squeezenet", "diviml", Objective(kind, 16))
    search = StreamSearch(Instance(problem))
    start = menu(search, None)[place]
    found = search.anneal(start, work=3_000_000, seed=1, heat=0.01, deadline=60.0)
    afresh = search.anneal(found, work=1, seed=1, heat=0.0, deadline=60.0)
    assert found.value == pytest.approx(afresh.value, rel=1e-9)
    assert found.value < search.anneal(start, work=1, seed=1, heat=0.0, deadline=60.0).value


def test_rounds_that_wait_for_each_other_are_interleaved_at_once() -> None:
    # Odd tasks run on p2 only, even ones on p1: one round after the other keeps one of them idle.
    # Moved one by one, hardly an execution gains anything; ordered anew, all of them do.
    problem = chain(24, ((1, 1.0),), 8)
    costs = {task.id: {f"p{1 + i % 2}": Cost(((1, 1.0),))} for i, task in enumerate(problem.tasks)}
    search = StreamSearch(Instance(replace(problem, costs=costs)))
    counts = np.ones((24, 8), np.int32)
    device = np.array([[i % 2] * 8 for i in range(24)], np.int32)
    rounds = np.arange(24 * 8, dtype=np.int32).reshape(24, 8).T.ravel()
    start = Streams(counts, device, np.ascontiguousarray(rounds))
    found = search.anneal(start, work=60_000, seed=1, heat=1e-4, deadline=60.0)
    # 8 rounds of 24 s become 12 tasks x 8 elements on each device, and a first wait.
    assert found.value < 105.0


def test_menu_goes_through_all_elements_on_able_devices() -> None:
    problem = zoo.problem("light-squeezenet", "diviml", Objective("latency", 16))
    search = StreamSearch(Instance(problem))
    for plan in menu(search, None):
        assert (plan.counts.sum(axis=1) == 16).all()
        tasks = np.arange(len(search))[:, None]
        assert np.isfinite(search.seconds[tasks, plan.device, 1]).all()
        assert sorted(plan.sequence.tolist()) == list(range(plan.counts.size))


def test_a_division_that_does_not_add_up_is_refused() -> None:
    search = StreamSearch(Instance(chain(2, ((1, 1.0),), 4)))
    start = by_speed(search, [0, 1], 1, 1)
    short = Streams(start.counts - 1, start.device, start.sequence)
    with pytest.raises(SolverError, match="failed with code 1"):
        search.anneal(short, work=10, seed=0, heat=0.0, deadline=1.0)


def layered(seed: int, batch: int, cores: int = 4) -> Problem:
    """Twelve tasks in a random graph, on teams of a node's cores."""
    rng = random.Random(seed)
    names = [f"t{i}" for i in range(12)]
    edges = [
        Edge(a, b, 8) for i, b in enumerate(names) for a in names[max(0, i - 4) : i]
        if rng.random() < 0.4
    ]  # fmt: skip
    sets = [
        tuple(range(first, first + width))
        for width in (1, 2, 4)
        for first in range(0, cores, width)
    ]
    devices = tuple(Device(f"c{own[0]}x{len(own)}", cores=own, overlap=True) for own in sets)
    costs = {}
    for name in names:
        work, serial = rng.uniform(1, 5), rng.choice([0.0, 0.1, 0.5])
        costs[name] = {
            d.name: Cost(((1, work * (serial + (1 - serial) / len(d.cores))),)) for d in devices
        }
    fabric = Fabric("node0", latency=0.01)
    graph = TaskGraph([Task(name) for name in names], edges)
    return Problem(graph, costs, Platform(devices, fabrics=(fabric,)), Objective("latency", batch))


def ways_of_a_pool(problem: Problem, cores: int = 4) -> tuple[float, float]:
    """All cores for every task, element after element; and each element on a core, dealt out."""
    alone = {
        width: sum(problem.seconds(task.id, f"c0x{width}", 1) for task in problem.tasks)
        for width in (1, cores)
    }
    return problem.batch * alone[cores], math.ceil(problem.batch / cores) * alone[1]


@pytest.mark.parametrize(("seed", "batch"), [(1, 2), (2, 3), (3, 4), (4, 6)])
def test_on_teams_auto_is_behind_no_pool_of_threads_and_no_core_an_element(
    seed: int, batch: int
) -> None:
    problem = layered(seed, batch)
    found = solve(problem, "auto", counted(time_limit=1.0))
    assert check_schedule(problem, found) == []
    assert found.value <= min(ways_of_a_pool(problem)) * (1 + 1e-9)
    own = solve(problem, "batches", counted(time_limit=1.0))
    assert check_schedule(problem, own) == []
    # From its own starts, which copy what need not be copied: as good but for that.
    assert own.value <= min(ways_of_a_pool(problem)) * 1.02


def test_the_search_of_divisions_keeps_all_cores_of_a_team_busy() -> None:
    search = StreamSearch(Instance(layered(1, 2)))
    wide, narrow = (search.instance.names.index(name) for name in ("c0x4", "c0x1"))
    pair = by_speed(search, [wide, narrow], 1, 1)
    found = search.anneal(pair, work=1, seed=0, heat=0.0, deadline=1.0)
    instance, placement, _ = search.divided(pair)
    load = sum(instance.seconds[v][d] for v, d in enumerate(placement))
    # Every team here is on core 0: nothing runs beside anything.
    assert {wide, narrow} >= set(placement) and found.value >= load


@pytest.mark.filterwarnings("error:solver 'batches' found nothing")
def test_a_task_that_is_alone_in_its_color_is_not_divided() -> None:
    given_ = chain(1, ((1, 1.0),), 2)
    task = replace(given_.tasks[0], color="red")
    problem = replace(given_, graph=TaskGraph([task], []))
    found = solve(problem, "batches", QUICK)
    assert check_schedule(problem, found) == []
    assert found.value == 2.0
    instance, placement, _ = (search := StreamSearch(Instance(problem))).divided(
        by_speed(search, [0, 1], 1, 1)
    )
    assert len(instance) == len(set(placement)) == 1


@pytest.mark.parametrize("place", [0, 3, 5])
def test_a_widened_division_is_the_same_and_can_be_divided_further(place: int) -> None:
    search = StreamSearch(Instance(zoo.problem("light-squeezenet", "diviml", Objective(batch=16))))
    own = search.anneal(menu(search, None)[place], work=200_000, seed=1, heat=0.01, deadline=60.0)
    wide = widened(own)
    assert wide.counts.shape[1] == 2 * own.counts.shape[1]
    assert sorted(wide.sequence.tolist()) == list(range(wide.counts.size))
    (first, homes, order), (second, others, again) = search.divided(own), search.divided(wide)
    assert first.elements == second.elements and homes == others and order == again
    afresh = search.anneal(wide, work=1, seed=1, heat=0.0, deadline=60.0)
    assert afresh.value == pytest.approx(own.value, rel=1e-9)
    more = search.anneal(wide, work=2_000_000, seed=1, heat=0.01, deadline=60.0)
    assert (more.counts > 0).sum(axis=1).max() > own.counts.shape[1] or more.value < own.value


def test_no_more_streams_than_the_search_can_bear() -> None:
    counts = np.ones((2, 64), np.int32)
    many = Streams(counts, counts * 0, np.arange(128, dtype=np.int32))
    assert widened(many) is many


def test_copies_of_the_search_are_those_of_the_rules() -> None:
    # Nodes without a link take a detour, and one device is reached by nobody.
    problem = zoo.problem("light-squeezenet", "gpt3-4node", Objective("latency", 2))
    instance = Instance(problem)
    latency, inverse = _copies(instance)
    large = max(flow.nbytes for flow in instance.tensors)
    k = len(instance.names)
    for j, d in itertools.product(range(k), repeat=2):
        assert latency[j, d] == instance.copy_seconds(j, d, 0)
        seconds = latency[j, d] + large * inverse[j, d]
        assert seconds == pytest.approx(instance.copy_seconds(j, d, large), rel=1e-12)


def test_nothing_is_begun_when_the_time_is_up() -> None:
    problem = zoo.problem("light-squeezenet", "sched-pcie", Objective("latency", 4))
    start = solve(problem, "heft", QUICK)
    told = Options(time_limit=60.0, deadline=1e-9, start=start)
    answer = batches.solve(problem, told)
    assert answer.value <= start.value
    assert answer.solver != "batches"
