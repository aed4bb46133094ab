"""`solve`: verification, the best single device, determinism, and every solver on all."""

from __future__ import annotations

import gc
import warnings
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError, SolverError, SolverWarning, UsageError
from tvm_hetero.problem import KINDS, Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, Solver, names, register, solve
from tvm_hetero.solvers import registry as registry_module

SOLVERS = ("auto", "cpsat", "heft", "single")
OTHERS = tuple(sorted(set(names()) - set(SOLVERS)))
# What each of them answers; the rest of the objectives it refuses with a reason.
_STAGES = ("elements", "ideals-dp", "linear-dp", "stages", "shares", "throughput")
QUICK = counted(time_limit=5.0)
# What is asked for the same answer twice: no clock cuts it, however busy the machine is.
UNCUT = replace(QUICK, deadline=1000.0)


@pytest.mark.parametrize(
    "bad",
    [
        {"time_limit": 0.0},
        {"seed": -1},
        {"workers": 0},
        {"backend": "x"},
        {"symmetry": "y"},
        {"gap": 1.0},
        {"deadline": -1.0},
        {"clock": 1.0},
    ],
)
def test_options_refuse_nonsense(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected"):
        Options(**bad)  # type: ignore[arg-type]


def _missing_a_task(problem: Problem, options: Options) -> Schedule:
    good = solve(problem, "single", options)
    return replace(good, executions=good.executions[1:])


def _crashing(problem: Problem, options: Options) -> Schedule:
    raise ZeroDivisionError("division by zero")


def _no_schedule(problem: Problem, options: Options) -> Schedule:
    return None  # type: ignore[return-value]


def _wrong_value(problem: Problem, options: Options) -> Schedule:
    return replace(solve(problem, "single", options), value=0.5, lower_bound=0.0)


def _impossible_bound(problem: Problem, options: Options) -> Schedule:
    good = solve(problem, "single", options)
    return replace(good, lower_bound=good.value * 2)


@pytest.mark.parametrize(
    ("solver", "says"),
    [
        (_missing_a_task, "not valid"),
        (_crashing, "crashed: ZeroDivisionError: division by zero"),
        (_no_schedule, "gave a NoneType"),
        (_wrong_value, "not valid"),
        (_impossible_bound, "not valid"),
    ],
)
def test_of_a_solver_that_fails_the_next_best_answer_is_given(
    monkeypatch: pytest.MonkeyPatch, solver: Solver, says: str
) -> None:
    monkeypatch.setattr(registry_module, "_REGISTERED", {"bad": solver})
    problem = fork_join(4)
    with pytest.warns(SolverWarning, match="'bad'.*") as caught:
        answer = solve(problem, "bad")
    assert says in str(caught[0].message) and "that of solver 'heft'" in str(caught[0].message)
    assert answer.value == solve(problem, "heft").value and answer.solver == "heft"
    assert check_schedule(problem, answer) == []


def test_a_bound_that_the_start_beats_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def liar(problem: Problem, options: Options) -> Schedule:
        single = solve(problem, "single", replace(options, start=None))
        return replace(single, lower_bound=single.value)

    monkeypatch.setattr(registry_module, "_REGISTERED", {"liar": liar})
    problem = fork_join(4)
    start = solve(problem, "heft")
    with pytest.warns(SolverWarning, match=r"'liar' stated a lower bound of 6, .* 4\.125 is valid"):
        answer = solve(problem, "liar", counted(start=start))
    assert answer.lower_bound <= start.value == answer.value


def test_what_a_solver_calls_itself_spares_it_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who was asked says whether the ladder has been climbed, not the answer's name."""
    monkeypatch.setattr(registry_module, "_REGISTERED", {})

    def mine(problem: Problem, options: Options) -> Schedule:
        answer = solve(problem, "heft", options)
        return replace(answer, solver="auto:heft", lower_bound=0.0, status="feasible")

    register("mine", mine)
    answer = solve(topcuoglu(), "mine", QUICK)
    assert answer.solver == "auto:heft"
    assert answer.lower_bound == solve(topcuoglu(), "heft", QUICK).lower_bound > 0
    begun = replace(QUICK, start=replace(answer, lower_bound=0.0, status="feasible"))
    assert solve(topcuoglu(), "greedy", begun).lower_bound > 0


def test_a_failing_solver_with_no_other_answer_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_REGISTERED", {"bad": _crashing})
    # No link: wherever b runs, it has to read or be read elsewhere; of one edge nothing shows.
    problem = problem_of(
        {"a": {"p1": 1.0}, "b": {"p1": 1.0, "p2": 1.0}, "c": {"p2": 1.0}},
        [("a", "b", 1), ("b", "c", 1)],
        replace(processors(2), fabrics=()),
    )
    with pytest.raises(SolverError, match="crashed"):
        solve(problem, "bad")


def test_who_finds_nothing_says_why_beside_the_best_single_device() -> None:
    chain = [f"t{i}" for i in range(21)]
    edges = [(a, b, 1) for a, b in pairwise(chain)]
    problem = problem_of({task: {"p1": 1.0, "p2": 2.0} for task in chain}, edges, processors(2))
    with pytest.warns(SolverWarning, match="exhaustive takes at most 20 tasks"):
        answer = solve(problem, "exhaustive")
    assert answer.solver == "exhaustive (single)"


@pytest.mark.parametrize("seconds", [60.0, 1e-9])
def test_who_is_content_with_less_is_not_warned_of_it(seconds: float) -> None:
    """Nothing found, and no time for anything: the answers are those of others all the same."""
    problem, told = replace(topcuoglu(), objective=Objective("throughput")), Options(seconds)
    with pytest.warns(SolverWarning, match="'segments'"):
        answer = solve(problem, "segments", told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = solve(problem, "segments", replace(told, quiet=True))
    assert (quiet.solver, quiet.executions) == (answer.solver, answer.executions)


def test_of_a_crash_everybody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_REGISTERED", {"bad": _crashing})
    with pytest.warns(SolverWarning, match="crashed"):
        solve(fork_join(4), "bad", Options(quiet=True))


def test_best_single_device_wins_over_a_worse_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of({"a": {"p1": 1.0, "p2": 5.0}}, [], processors(2))

    def slow(problem: Problem, options: Options) -> Schedule:
        only = problem_of({"a": {"p2": 5.0}}, [], processors(2))
        answer = solve(only, "single", options)
        return replace(answer, problem=problem.digest, lower_bound=0.0)

    monkeypatch.setattr(registry_module, "_REGISTERED", {"slow": slow})
    answer = solve(problem, "slow")
    assert (answer.solver, answer.value) == ("slow (single)", 1.0)
    assert answer.best_single_device is not None
    assert answer.best_single_device.device == "p1"


def test_best_single_device_is_none_where_no_device_can_do_it_all() -> None:
    problem = problem_of({"a": {"p1": 1.0}, "b": {"p2": 1.0}}, [("a", "b", 0)], processors(2))
    assert solve(problem, "heft").best_single_device is None


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_bytes(solver: str) -> None:
    for problem in (topcuoglu(), fork_join(7, overlap=False)):
        first, second = (solve(problem, solver, UNCUT) for _ in range(2))
        assert first.dumps(canonical=True) == second.dumps(canonical=True)


@pytest.mark.slow
@settings(max_examples=draws(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_answer_is_valid_and_not_below_its_bound(solver: str, data: st.DataObject) -> None:
    problem = data.draw(problems(max_tasks=7, kinds=KINDS, batch=3, memory=True))
    answer = solve(problem, solver, QUICK)
    assert check_schedule(problem, answer) == []
    assert answer.value >= answer.lower_bound
    single = answer.best_single_device
    assert single is not None and answer.value <= single.value


@settings(max_examples=draws(5), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("solver", OTHERS)
def test_every_other_solver_is_valid_or_says_why_not(solver: str, data: st.DataObject) -> None:
    problem = data.draw(problems(max_tasks=6, kinds=KINDS, batch=2, memory=True))
    try:
        answer = solve(problem, solver, counted(time_limit=0.3))
    except (UsageError, SolverError, InfeasibleError) as error:
        assert len(str(error)) > 20
        return
    assert check_schedule(problem, answer) == []
    assert answer.value >= answer.lower_bound


@pytest.mark.parametrize("solver", OTHERS)
def test_same_seed_same_bytes_of_the_others(solver: str) -> None:
    kind = "throughput" if solver in _STAGES else "latency"
    problem = topcuoglu().with_objective(Objective(kind))  # type: ignore[arg-type]
    first, second = (solve(problem, solver, replace(UNCUT, time_limit=0.3)) for _ in range(2))
    assert first.dumps(canonical=True) == second.dumps(canonical=True)


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=9, kinds=KINDS, exact=False))
def test_times_with_many_digits_stay_valid(problem: Problem) -> None:
    answer = solve(problem, "cpsat", QUICK)
    assert check_schedule(problem, answer) == []
    # The coefficients of energy and cost are rounded too, so only times are always proven.
    if problem.objective.kind in ("latency", "throughput"):
        assert answer.status == "optimal"


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=6, exact=False, memory=True))
def test_memory_and_times_with_many_digits(problem: Problem) -> None:
    answer = solve(problem, "cpsat", counted(time_limit=2.0))
    assert check_schedule(problem, answer) == []
    assert answer.value <= solve(problem, "heft").value


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=6, kinds=KINDS, memory=True, feasible=False))
def test_where_cpsat_finds_nothing_nobody_does(problem: Problem) -> None:
    found = {}
    for solver in SOLVERS:
        try:
            found[solver] = solve(problem, solver, QUICK).value
        except InfeasibleError as error:
            assert len(str(error)) > 30
    if "cpsat" not in found:
        assert found == {}
    else:
        assert found["auto"] == pytest.approx(found["cpsat"], rel=1e-6)
        assert all(value >= found["cpsat"] * (1 - 1e-6) for value in found.values())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_small_shapes(solver: str, kind: str) -> None:
    one = {"a": {"p1": 2.0}}
    free = {"a": {"p1": 0.0, "p2": 0.0}, "b": {"p1": 0.0, "p2": 0.0}}
    apart = {"a": {"p1": 1.0}, "b": {"p1": 1.0}, "c": {"p1": 1.0}}
    for costs, edges, devices, value in (
        (one, [], 1, 2.0),
        (free, [("a", "b", 4)], 2, 0.0),
        (apart, [], 1, 3.0),
    ):
        problem = problem_of(costs, edges, processors(devices), Objective(kind))  # type: ignore[arg-type]
        answer = solve(problem, solver, QUICK)
        assert answer.value == value
        assert answer.status == "optimal"


def test_start_is_verified_and_never_made_worse() -> None:
    problem = topcuoglu()
    start = solve(problem, "heft")
    assert solve(problem, "cpsat", replace(QUICK, start=start)).value <= start.value
    with pytest.raises(SolverError, match="not valid"):
        solve(problem, "cpsat", replace(QUICK, start=replace(start, executions=())))


def test_weights_larger_than_all_memory_say_by_how_much() -> None:
    platform = processors(2)
    platform = replace(platform, devices=tuple(replace(d, memory=2**20) for d in platform.devices))
    costs = {"a": {"p1": 1.0, "p2": 1.0}, "b": {"p1": 1.0}, "c": {"p2": 1.0}}
    weights = {"a": 2**20, "b": 2**20, "c": 2**20}
    problem = problem_of(costs, [], platform, weight_bytes=weights)
    for solver in SOLVERS:
        with pytest.raises(InfeasibleError, match=r"1\.00 MiB too little"):
            solve(problem, solver)


def test_task_larger_than_its_best_device_says_by_how_much() -> None:
    platform = processors(2)
    platform = replace(platform, devices=tuple(replace(d, memory=2**20) for d in platform.devices))
    problem = problem_of({"a": {"p1": 1.0}}, [], platform, output_bytes={"a": 3 * 2**19})
    with pytest.raises(InfeasibleError, match=r"task 'a' needs 1\.50 MiB .* 512 KiB too little"):
        solve(problem)


def test_latency_limit_below_the_bound_says_by_how_much() -> None:
    platform = processors(1)
    platform = replace(platform, devices=(replace(platform.devices[0], watts=5.0),))
    problem = problem_of({"a": {"p1": 2.0}}, [], platform, Objective("energy", 1, 1.5))
    with pytest.raises(InfeasibleError, match=r"raise the limit by at least 500 ms"):
        solve(problem)


def test_the_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold()
    solve(fork_join(2), "heft")
    with pytest.raises(UsageError):
        solve(fork_join(2), "nobody")
    assert gc.get_threshold() == before
