"""Forms of a problem: what comes back is a schedule, what is proven is true."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import SolverError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.batches.starts import menu
from tvm_hetero.solvers.lists.partial_schedule import Solution, list_schedule
from tvm_hetero.solvers.reductions import (
    REDUCTIONS,
    RELAXATIONS,
    describe_forms,
    forms_of,
    schedule_of,
)
from tvm_hetero.solvers.reductions.__main__ import main
from tvm_hetero.solvers.reductions.placements import (
    AtomCounts,
    CutInstance,
    LineOnMachines,
    ModuleColumns,
    Modules,
    Ranges,
    Stages,
    TaskClasses,
    TaskLines,
)
from tvm_hetero.solvers.stage_dp.stage_dp import run
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.modularity import Piece
from tvm_hetero.views.reduction import Placed, Relaxation

EASY = settings(max_examples=draws(30), deadline=None, suppress_health_check=list(HealthCheck))
# All links are there and no memory is short: then every placement has a schedule.
STEADY = problems(max_tasks=8, kinds=("throughput",), batch=3, multi_hop=False)
TIMED = problems(max_tasks=8, kinds=("latency",), batch=3, multi_hop=False)
LINED = problems(max_tasks=8, kinds=("latency", "throughput"), multi_hop=False)
SPENT = problems(max_tasks=5, kinds=("latency", "energy", "cost"), batch=3, multi_hop=False)


def is_schedule(problem: Problem, placed: Placed) -> bool:
    """Whether the judge finds nothing; a latency limit is no matter of the form."""
    found = check_schedule(problem, schedule_of(placed, "test"))
    return all("the latency limit is" in violation.text for violation in found)


def atoms_anywhere(data: st.DataObject, form: LineOnMachines) -> list[int]:
    """A device for every atom, any that can run it."""
    rows = [sorted(form.kinds.seconds[k]) for k in form.kinds.of]
    assume(all(rows))
    return [data.draw(st.sampled_from(row)) for row in rows]


@EASY
@given(problem=LINED, data=st.data())
def test_atoms_placed_anywhere_are_a_schedule(problem: Problem, data: st.DataObject) -> None:
    form = TaskLines().apply(instance_of(problem))
    homes = atoms_anywhere(data, form)
    placed = TaskLines().invert(form, homes)
    assert is_schedule(problem, placed)
    for atom, home in zip(form.line.atoms, homes, strict=True):
        assert {placed.placement[v] for v in atom} == {home}


@EASY
@given(problem=LINED, data=st.data())
def test_counts_of_atoms_come_back_as_so_many_on_each_device(
    problem: Problem, data: st.DataObject
) -> None:
    form = TaskLines().apply(instance_of(problem))
    homes = atoms_anywhere(data, form)
    counts = Counter(zip(homes, form.kinds.of, strict=True))
    able = {(d, k): 0 for k, row in enumerate(form.kinds.seconds) for d in row}
    placed = AtomCounts().invert(form, able | counts)
    assert is_schedule(problem, placed)
    found = Counter(
        (placed.placement[atom[0]], k)
        for atom, k in zip(form.line.atoms, form.kinds.of, strict=True)
    )
    assert found == counts


@EASY
@given(problem=STEADY)
def test_shares_of_classes_come_back_as_a_schedule(problem: Problem) -> None:
    form = TaskClasses().apply(instance_of(problem))
    placed = TaskClasses().invert(form, form.program.shares)
    assert is_schedule(problem, placed)


@EASY
@given(problem=problems(max_tasks=8, kinds=("throughput",), multi_hop=False, contiguous=True))
def test_a_chain_of_ideals_comes_back_as_contiguous_stages(problem: Problem) -> None:
    family = Stages().apply(instance_of(problem))
    chain = run(family)
    placed = Stages().invert(family, chain)
    schedule = schedule_of(placed, "test")
    assert check_schedule(problem, schedule) == []
    assert schedule.value >= chain.bound(family)


@EASY
@given(problem=problems(max_tasks=5, max_devices=2, kinds=("throughput",), multi_hop=False))
def test_the_best_columns_of_modules_are_the_best_placement(problem: Problem) -> None:
    instance = instance_of(problem)
    chain = ModuleColumns().apply(instance)
    best = math.inf
    for rows in itertools.product(*(range(len(table)) for table in chain.tables)):
        pairs = zip(chain.tables, rows, strict=True)
        ends = [divmod(int(table.code[row]), len(instance.names)) for table, row in pairs]
        if all(a[1] == b[0] for a, b in itertools.pairwise(ends)):
            placed = ModuleColumns().invert(chain, rows)
            assert is_schedule(problem, placed)
            best = min(best, exact_value(instance, placed.placement))
    assert best == pytest.approx(brute_force(problem))


def modules_in_turn(form: CutInstance) -> list[Solution]:
    """HEFT for every module, from the device on which the one before ended."""
    found: list[Solution] = []
    for module, piece in form.modules:
        own: Piece = piece
        if module.first is not None:
            own = piece.pinned({0: found[-1].placement[-1]}, free=[0])
        found.append(list_schedule(own))
    return found


@EASY
@given(problem=TIMED)
def test_modules_solved_in_turn_come_back_as_a_schedule(problem: Problem) -> None:
    instance = instance_of(problem)
    assume(not Modules().refusal(instance))
    form = Modules().apply(instance)
    solutions = modules_in_turn(form)
    placed = Modules().invert(form, solutions)
    assert is_schedule(problem, placed)
    if not instance.contended:
        total = math.fsum(one.value for one in solutions)
        assert schedule_of(placed, "test").value <= total * (1 + 1e-9)


@EASY
@given(problem=SPENT, data=st.data())
def test_ranges_of_a_batch_come_back_as_a_schedule_or_are_refused(
    problem: Problem, data: st.DataObject
) -> None:
    form = Ranges().apply(instance_of(problem))
    answer = data.draw(st.sampled_from(menu(form, None)))
    try:
        placed = Ranges().invert(form, answer)
    except SolverError as error:
        assert "color" in str(error)
        return
    assert is_schedule(problem, placed)


@settings(EASY, max_examples=draws(40))
@given(
    problem=st.one_of(
        problems(max_tasks=4, max_devices=2, kinds=("latency",), memory=True),
        problems(max_tasks=4, max_devices=2, kinds=("throughput",), memory=True, contiguous=True),
        problems(max_tasks=3, max_devices=2, kinds=("latency", "throughput"), batch=2),
    )
)
def test_what_a_relaxation_proves_no_schedule_beats(problem: Problem) -> None:
    instance = instance_of(problem)
    best = brute_force(problem)
    for form in RELAXATIONS:
        if not form.refusal(instance):
            assert form.bound(instance) <= best * (1 + 1e-9) + 1e-12, form.name


def test_relaxations_prove_something() -> None:
    problem = topcuoglu()
    (arrays,) = (form for form in RELAXATIONS if form.name == "arrays of least times")
    assert 41.0 < arrays.bound(instance_of(problem)) <= 80.0


@EASY
@given(problem=st.one_of(STEADY, TIMED, SPENT))
def test_each_form_says_how_large_it_is_or_why_there_is_none(problem: Problem) -> None:
    for form in forms_of(instance_of(problem)):
        assert bool(form.size) != bool(form.refusal), form


def test_names_of_forms_differ_and_all_that_only_bounds_says_so() -> None:
    both = {id(form) for form in REDUCTIONS} & {id(form) for form in RELAXATIONS}
    assert both == set()  # each table makes its own; equal ones are one form
    names = [form.name for form in {*REDUCTIONS, *RELAXATIONS}]
    assert len(names) == len(set(names)) == 9
    only: list[Relaxation[object]] = [form for form in RELAXATIONS if form not in REDUCTIONS]
    assert {form.keeps for form in only} == {"bound"}


def test_a_divided_instance_is_not_divided_again() -> None:
    costs = {"a": {"p1": 1.0}, "b": {"p1": 1.0}}
    problem = problem_of(costs, [("a", "b", 0)], processors(1), Objective("latency", 2))
    divided = Instance(problem, {"a": [(0,), (1,)]})
    assert Ranges().refusal(divided) == "the batch is divided already"
    assert Ranges().refusal(instance_of(problem)) == ""


def test_the_chain_of_a_problem_prints_itself() -> None:
    text = describe_forms(topcuoglu())
    assert "instance (10 parts, 3 devices, 15 tensors, latency of 1 element)" in text
    assert "line of atoms          guide  10 atoms x 3 classes" in text
    assert "stages of ideals       bound  none: serves throughput, not latency" in text


def test_the_forms_of_a_file_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "problem.json"
    topcuoglu().save(path)
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == describe_forms(topcuoglu()) + "\n"
    assert main([str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err
