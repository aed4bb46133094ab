"""The judge: every rule broken on purpose, and agreement with the simulator and brute force."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.brute_force import brute_force, optimal_schedule
from tests.strategies import orders, problems
from tvm_hetero.check import check_schedule, verified
from tvm_hetero.check.parsed_schedule import MAX_LISTED
from tvm_hetero.check.value import objective_value
from tvm_hetero.errors import SolverError
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import KINDS, Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.schedule import Copy, Execution, Schedule, SingleDevice
from tvm_hetero.problem.simulate import Timed, simulate


def problem(**changes: object) -> Problem:
    """x feeds y and z; no copy engines; a -> b takes 1 s and 8 bytes a second, b -> c no time."""
    devices = (
        Device("a", watts=10.0, idle_watts=1.0),
        Device("b", watts=4.0),
        Device("c", watts=1.0),
    )
    tasks = [Task("x", weight_bytes=3, output_bytes=16), Task("y"), Task("z", output_bytes=5)]
    graph = TaskGraph(tasks, [Edge("x", "y", 16), Edge("x", "z", 16)])
    costs = {
        "x": {"a": Cost(((1, 2.0),)), "b": Cost(((1, 3.0),))},
        "y": {"b": Cost(((1, 1.0),)), "c": Cost(((1, 1.0),))},
        "z": {"a": Cost(((1, 4.0),))},
    }
    platform = Platform(devices, (Link("a", "b", 8.0, 1.0), Link("b", "c")))
    made = Problem(graph, costs, platform)
    return replace(made, **changes) if changes else made  # type: ignore[arg-type]


def with_device(given_: Problem, name: str, **changes: object) -> Problem:
    devices = tuple(
        replace(device, **changes) if device.name == name else device  # type: ignore[arg-type]
        for device in given_.platform.devices
    )
    return replace(given_, platform=replace(given_.platform, devices=devices))


def stated(given_: Problem, timed: Timed) -> Schedule:
    """The schedule that says what is true of `timed`."""
    value = objective_value(given_, timed.executions, timed.copies)
    kind = given_.objective.kind
    return Schedule(given_.digest, "test", kind, timed.executions, timed.copies, value, 0.0)


X = Execution("x", "a", (0,), 0.0, 2.0)
Y = Execution("y", "b", (0,), 5.0, 6.0)
Z = Execution("z", "a", (0,), 5.0, 9.0)
HOP = Copy("x", (0,), "a", "b", 2.0, 5.0)


def good(given_: Problem | None = None) -> Schedule:
    return stated(given_ or problem(), Timed((X, Y, Z), (HOP,)))


def found(given_: Problem, schedule: Schedule) -> list[str]:
    return [str(violation) for violation in check_schedule(given_, schedule)]


def test_a_valid_schedule() -> None:
    assert found(problem(), good()) == []
    assert good().value == 9.0


@pytest.mark.parametrize(
    ("executions", "copies", "expected"),
    [
        # Rule 1: names, elements, durations.
        ((X, Y), (HOP,), "rule 1: task 'z': not executed"),
        (
            (X, Y, Z, replace(Z, start=9.0, end=13.0)),
            (HOP,),
            "rule 1: task 'z', element 0: executed more",
        ),
        (
            (X, Y, Z, replace(Z, task="zz")),
            (HOP,),
            "rule 1: task 'zz' on 'a': there is no such task",
        ),
        (
            (X, Y, replace(Z, device="b", start=6.0, end=9.0)),
            (HOP,),
            "rule 1: task 'z' on 'b': the device cannot run it; it can run on a",
        ),
        (
            (X, Y, replace(Z, device="q")),
            (HOP,),
            "rule 1: task 'z' on 'q': the device cannot run it",
        ),
        ((X, Y, replace(Z, elements=(1,))), (HOP,), "are no part of the batch of 1"),
        (
            (X, Y, replace(Z, elements=())),
            (HOP,),
            "rule 1: task 'z' [] on 'a': elements [] are no part",
        ),
        ((X, Y, replace(Z, elements=(0, 0))), (HOP,), "elements [0, 0] name one element twice"),
        ((X, Y, replace(Z, start=math.nan)), (HOP,), "expected times from 0 on, got nan to 9.0"),
        ((replace(X, start=-1.0, end=1.0), Y, Z), (HOP,), "expected times from 0 on, got -1.0"),
        (
            (X, Y, replace(Z, end=8.0)),
            (HOP,),
            "rule 1: task 'z' on 'a': takes 3.00 s instead of 4.00 s",
        ),
        ((X, Y, replace(Z, end=10.0)), (HOP,), "takes 5.00 s instead of 4.00 s"),
        # Rule 2 and 4: one thing at a time.
        (
            (X, Y, replace(Z, start=1.0, end=5.0)),
            (HOP,),
            "rule 2: device 'a' does two things at once: task 'x' on 'a' (0 s to 2 s) and task 'z'",
        ),
        (
            (X, Y, replace(Z, start=4.0, end=8.0)),
            (HOP,),
            "rule 4: device 'a' does two things at once: copy of 'x' from 'a' to 'b' (2 s to 5 s)",
        ),
        (
            (X, replace(Y, start=3.0, end=4.0), Z),
            (HOP,),
            "rule 4: device 'b' does two things at once",
        ),
        # Rule 3: copies.
        (
            (X, Y, Z),
            (),
            "tensor 'x' of task 'x' on 'a' is not copied from 'a' to 'b' for its reader on 'b'",
        ),
        (
            (X, Y, Z),
            (replace(HOP, start=3.0),),
            "rule 3: copy of 'x' from 'a' to 'b': takes 2.00 s instead of 3.00 s",
        ),
        (
            (X, Y, Z),
            (replace(HOP, start=1.0, end=4.0),),
            "starts at 1 s; the tensor is whole at 2 s",
        ),
        ((X, Y, Z), (HOP, HOP), "rule 3: copy of 'x' from 'a' to 'b': made more than once"),
        (
            (X, Y, Z),
            (HOP, Copy("x", (0,), "b", "c", 9.0, 9.0)),
            "rule 3: copy of 'x' from 'b' to 'c': no reader needs this hop",
        ),
        (
            (X, Y, Z),
            (HOP, Copy("x", (0,), "a", "c", 9.0, 9.0)),
            "from 'a' to 'c': there is no direct link",
        ),
        (
            (X, Y, Z),
            (HOP, Copy("x", (0,), "a", "q", 9.0, 9.0)),
            "from 'a' to 'q': there is no direct link",
        ),
        ((X, Y, Z), (HOP, replace(HOP, tensor="w")), "there is no such tensor; known: x"),
        ((X, Y, Z), (replace(HOP, elements=(3,)),), "elements [3] are no part of the batch"),
        (
            (X, Y, Z),
            (replace(HOP, end=math.inf),),
            "rule 3: copy of 'x' from 'a' to 'b': expected times from 0",
        ),
        # Rule 5: inputs.
        (
            (X, replace(Y, start=1.0, end=2.0), Z),
            (HOP,),
            "rule 5: task 'y' on 'b' starts at 1 s; tensor 'x' is there only at 5 s",
        ),
    ],
)
def test_broken(executions: tuple[Execution, ...], copies: tuple[Copy, ...], expected: str) -> None:
    texts = found(problem(), replace(good(), executions=executions, copies=copies))
    assert any(expected in text for text in texts), texts


def test_a_reader_behind_two_hops() -> None:
    on_c = replace(Y, device="c")
    second = Copy("x", (0,), "b", "c", 5.0, 5.0)
    valid = stated(problem(), Timed((X, on_c, Z), (HOP, second)))
    assert found(problem(), valid) == []
    early = replace(valid, copies=(HOP, replace(second, start=4.0, end=4.0)))
    texts = found(problem(), early)
    # A hop without length may not lie inside another one on a device without a copy engine.
    assert any("rule 3" in t and "4 s; the tensor is whole at 5 s" in t for t in texts)
    assert any(t.startswith("rule 4: device 'b'") for t in texts)
    missing = replace(valid, copies=(second,))
    assert any(
        "is not copied from 'a' to 'b' for its reader on 'c'" in t
        for t in found(problem(), missing)
    )
    assert not any("no reader needs" in text for text in found(problem(), missing))


def test_a_detour_is_no_path() -> None:
    """Only the hops of `Platform.path` count, or a bound from its times would not hold."""
    links = (Link("a", "c", 1.0), Link("a", "b"), Link("b", "c"))
    given_ = problem()
    given_ = replace(given_, platform=replace(given_.platform, links=links))
    on_c = replace(Y, device="c", start=6.0, end=7.0)
    copies = (Copy("x", (0,), "a", "b", 2.0, 2.0), Copy("x", (0,), "b", "c", 2.0, 2.0))
    texts = found(given_, stated(given_, Timed((X, on_c, Z), copies)))
    assert any("is not copied from 'a' to 'c'" in text for text in texts)
    assert sum("no reader needs this hop" in text for text in texts) == 2


def test_an_unreachable_reader() -> None:
    given_ = problem()
    given_ = replace(given_, platform=replace(given_.platform, links=()))
    texts = found(given_, stated(given_, Timed((X, Y, Z), ())))
    assert any(
        t.startswith("rule 5") and "no path of links leads from 'a' to 'b'" in t for t in texts
    )


def test_copy_engines_set_devices_free() -> None:
    given_ = with_device(problem(), "a", overlap=True)
    early = stated(given_, Timed((X, Y, replace(Z, start=2.0, end=6.0)), (HOP,)))
    assert found(given_, early) == []
    assert early.value == 6.0
    assert any(text.startswith("rule 4: device 'a'") for text in found(problem(), early))


def test_an_exclusive_link_carries_one_copy() -> None:
    graph = TaskGraph([Task("v"), Task("w"), Task("r")], [Edge("v", "r", 8), Edge("w", "r", 8)])
    one = Cost(((1, 1.0),))
    costs = {"v": {"a": one}, "w": {"a": one}, "r": {"b": one}}
    devices = (Device("a", overlap=True), Device("b", overlap=True))
    timed = Timed(
        (
            Execution("v", "a", (0,), 0.0, 1.0),
            Execution("w", "a", (0,), 1.0, 2.0),
            Execution("r", "b", (0,), 6.0, 7.0),
        ),
        (Copy("v", (0,), "a", "b", 1.0, 5.0), Copy("w", (0,), "a", "b", 2.0, 6.0)),
    )
    for exclusive in (False, True):
        platform = Platform(devices, (Link("a", "b", 2.0, 0.0, exclusive),))
        given_ = Problem(graph, costs, platform)
        texts = found(given_, stated(given_, timed))
        assert [t.split(":")[0] for t in texts] == (["rule 3"] if exclusive else [])
        assert all("exclusive link 'a' -> 'b' is shared" in text for text in texts)


def test_colors() -> None:
    given_ = problem()
    tasks = [replace(task, color="red") for task in given_.tasks]
    given_ = replace(given_, graph=TaskGraph(tasks, given_.graph.edges))
    texts = found(given_, good(given_))
    assert texts == ["rule 1: color 'red': its tasks must share one device but are on a, b"]


def test_memory() -> None:
    # On a: weights 3, x 16 bytes from 0 to 9, z's unread 5 bytes from 5 to 9.
    assert (
        found(with_device(problem(), "a", memory=24), good(with_device(problem(), "a", memory=24)))
        == []
    )
    tight = with_device(problem(), "a", memory=23)
    assert found(tight, good(tight)) == [
        "rule 6: device 'a' needs 24 B at 5 s and has 23 B: 1 B too little"
    ]
    assert check_schedule(tight, good(tight))[0].amount == 1


def test_the_value_is_computed_anew() -> None:
    texts = found(problem(), replace(good(), value=8.999))
    assert texts == ["rule 7: the latency is stated as 8.999 but is 9.0"]
    assert found(problem(), replace(good(), value=math.nan)) != []
    assert found(problem(), replace(good(), value=9.0 * (1 + 1e-12))) == []


def test_the_latency_limit() -> None:
    late = problem(objective=Objective("energy", 1, 8.0))
    texts = found(late, good(late))
    assert texts == ["rule 7: the last execution ends at 9 s, the latency limit is 8 s"]
    assert (
        found(
            problem(objective=Objective("energy", 1, 9.0)),
            good(problem(objective=Objective("energy", 1, 9.0))),
        )
        == []
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"problem": "00"}, "rule 0: the schedule answers problem 00..., this is"),
        (
            {"kind": "energy"},
            "rule 0: the schedule's objective is 'energy', the problem's is 'latency'",
        ),
        ({"lower_bound": 9.1}, "rule 0: expected a lower bound from 0 to 9.0, got 9.1"),
        ({"lower_bound": -1.0}, "expected a lower bound from 0 to 9.0, got -1.0"),
        ({"lower_bound": math.nan}, "expected a lower bound from 0 to 9.0, got nan"),
        (
            {"status": "optimal", "lower_bound": 8.0},
            "rule 0: it is called optimal with a gap of 0.111",
        ),
        ({"best_single_device": SingleDevice("q", 9.0)}, "there is no device 'q'"),
        (
            {"best_single_device": SingleDevice("a", 5.0), "lower_bound": 6.0},
            "from 0 to 5.0, got 6.0",
        ),
    ],
)
def test_statements(changes: dict[str, object], expected: str) -> None:
    texts = found(problem(), replace(good(), **changes))  # type: ignore[arg-type]
    assert len(texts) == 1
    assert expected in texts[0]


def test_rounding_is_no_violation_and_more_is() -> None:
    for off, count in ((1e-12, 0), (1e-6, 1)):
        moved = replace(Z, start=5.0 - off, end=9.0 - off)
        schedule = replace(good(), executions=(X, Y, moved), value=9.0 - off)
        assert len(check_schedule(problem(), schedule)) == count


def alone(*spans: tuple[float, float]) -> list[str]:
    """What the judge finds where independent tasks t0, t1, ... run on one device like that."""
    names = [f"t{i}" for i in range(len(spans))]
    costs = {n: {"a": Cost(((1, e - s),))} for n, (s, e) in zip(names, spans, strict=True)}
    given_ = Problem(TaskGraph(map(Task, names), []), costs, Platform((Device("a"),)))
    rows = zip(names, spans, strict=True)
    executions = tuple(Execution(n, "a", (0,), *span) for n, span in rows)
    return found(given_, stated(given_, Timed(executions, ())))


def test_all_that_lies_beside_a_long_execution_is_listed() -> None:
    assert len(alone((0, 10), (5, 6), (7, 8))) == 2
    assert len(alone((0, 10), (1, 2), (3, 4))) == 2
    assert alone((0, 10), (10, 12), (12, 12)) == []


def test_an_execution_without_length_lies_at_the_ends_of_others() -> None:
    assert alone((0, 10), (0, 0), (10, 10), (10, 10), (10, 20)) == []
    assert len(alone((0, 10), (5, 5))) == 1
    # Rounding may put it a little inside.
    assert alone((0, 10), (1e-12, 1e-12), (10 - 1e-12, 10 - 1e-12)) == []


def test_many_violations_are_counted() -> None:
    many = tuple(replace(Z, task=f"q{i}") for i in range(100))
    violations = check_schedule(problem(), replace(good(), executions=(X, Y, Z, *many)))
    assert len(violations) == MAX_LISTED + 1
    assert violations[-1].text == f"{100 - MAX_LISTED} more violations of this rule"
    assert violations[-1].amount == 100 - MAX_LISTED


def test_a_divided_batch() -> None:
    """Elements 0 and 1 of x apart, read together: two hops, each for its own execution."""
    given_ = problem(objective=Objective("latency", 2))
    executions = (
        replace(X, elements=(1,)),
        Execution("x", "b", (0,), 0.0, 3.0),
        Execution("y", "b", (0, 1), 6.0, 8.0),
        Execution("z", "a", (1,), 6.0, 10.0),
    )
    hop = Copy("x", (1,), "a", "b", 3.0, 6.0)
    texts = found(given_, stated(given_, Timed(executions, (hop,))))
    assert texts == ["rule 1: task 'z', elements [0]: not executed"]
    # b has no way to a, so z cannot read element 0 there.
    whole = (*executions[:3], Execution("z", "a", (0, 1), 6.0, 14.0))
    texts = found(given_, stated(given_, Timed(whole, (hop,))))
    assert len(texts) == 1
    assert "no path of links leads from 'b' to 'a'" in texts[0]
    mixed = found(given_, stated(given_, Timed(whole, (replace(hop, elements=(0, 1), end=8.0),))))
    assert any("[0, 1] are not those of one execution of 'x'" in text for text in mixed)


def test_throughput_is_one_period() -> None:
    given_ = problem(objective=Objective("throughput"))
    # a: x 2 + z 4 + hop 3; b: y 1 + hop 3. Nothing precedes anything.
    timed = Timed(
        (
            replace(X, start=4.0, end=6.0),
            replace(Y, start=0.0, end=1.0),
            replace(Z, start=0.0, end=4.0),
        ),
        (replace(HOP, start=6.0, end=9.0),),
    )
    assert found(given_, stated(given_, timed)) == []
    assert stated(given_, timed).value == 9.0
    late = timed._replace(copies=(replace(HOP, start=7.0, end=10.0),))
    assert found(given_, stated(given_, late)) == [
        "rule 7: copy of 'x' from 'a' to 'b' ends at 10 s, outside the period of 9 s"
    ]
    twice = timed._replace(executions=(X, timed.executions[1], timed.executions[2]))
    assert [t[:6] for t in found(given_, stated(given_, twice))] == ["rule 2"]


def test_verified_states_what_is_true() -> None:
    exact = verified(problem(), replace(good(), value=9.0 * (1 + 1e-12), lower_bound=9.000001))
    assert (exact.value, exact.lower_bound, exact.status) == (9.0, 9.0, "optimal")
    modest = verified(problem(), replace(good(), lower_bound=8.0, status="optimal"))
    assert (modest.value, modest.lower_bound, modest.status) == (9.0, 8.0, "feasible")


def test_verified_refuses() -> None:
    with pytest.raises(SolverError, match="'test' gave a schedule of 'problem' that is not valid"):
        verified(problem(), replace(good(), copies=()))
    with pytest.raises(SolverError, match=r"expected a lower bound from 0 to 9\.0, got 9\.1"):
        verified(problem(), replace(good(), lower_bound=9.1))


every_problem = st.one_of(
    problems(kinds=KINDS, batch=3, memory=True),
    problems(kinds=KINDS, batch=3, memory=True, exact=False, feasible=False),
    problems(max_devices=4, kinds=KINDS, batch=2, teams=True, multi_hop=False),
)


@given(st.data(), every_problem)
def test_what_the_simulator_times_is_valid(data: st.DataObject, given_: Problem) -> None:
    """Two independent readings of the format agree (memory and limits aside)."""
    schedule = stated(given_, simulate(given_, data.draw(orders(given_))))
    asked_of_solvers = {"rule 6", "rule 7: the last execution ends"}
    for text in found(given_, schedule):
        assert any(text.startswith(start) for start in asked_of_solvers), text


@given(st.data(), problems(kinds=["latency"], batch=2))
def test_nothing_can_simply_start_earlier(data: st.DataObject, given_: Problem) -> None:
    """Greedy times are tight: moving one activity ahead breaks a rule (times are in 1/8 s)."""
    timed = simulate(given_, data.draw(orders(given_)))
    movable = [a for a in (*timed.executions, *timed.copies) if a.end > a.start > 0]
    assume(movable)
    chosen = data.draw(st.sampled_from(movable))
    moved = replace(chosen, start=chosen.start - 1 / 16, end=chosen.end - 1 / 16)
    executions = tuple(moved if e is chosen else e for e in timed.executions)
    copies = tuple(moved if c is chosen else c for c in timed.copies)
    rules = {v.rule for v in check_schedule(given_, stated(given_, Timed(executions, copies)))}  # type: ignore[arg-type]
    assert rules & ({2, 4, 5} if isinstance(chosen, Execution) else {3, 4})


@given(st.data(), problems(batch=2))
def test_every_part_is_needed(data: st.DataObject, given_: Problem) -> None:
    """Leaving out any execution or hop breaks rule 1 or 3."""
    timed = simulate(given_, data.draw(orders(given_)))
    left_out = data.draw(st.sampled_from([*timed.executions, *timed.copies]))
    executions = tuple(e for e in timed.executions if e is not left_out)
    copies = tuple(c for c in timed.copies if c is not left_out)
    rules = {v.rule for v in check_schedule(given_, stated(given_, Timed(executions, copies)))}
    assert rules & ({1} if isinstance(left_out, Execution) else {3})


tiny = st.one_of(
    problems(5, 3, kinds=KINDS),
    problems(4, 2, kinds=KINDS, memory=True),
    problems(3, 2, kinds=KINDS, batch=2),
    problems(4, 2, kinds=KINDS, memory=True, feasible=False),
    problems(4, 3, kinds=KINDS, teams=True),
)


@given(st.data(), tiny)
def test_brute_force_is_valid_and_never_beaten(data: st.DataObject, given_: Problem) -> None:
    best = optimal_schedule(given_)
    if best is not None:
        assert found(given_, best) == []
    schedule = stated(given_, simulate(given_, data.draw(orders(given_))))
    if not check_schedule(given_, schedule):
        assert best is not None
        assert best.value <= schedule.value


@given(st.data(), problems(2, 2, kinds=["latency"], memory=True, colors=False))
def test_no_accepted_times_beat_brute_force(data: st.DataObject, given_: Problem) -> None:
    """Any starts at all: what the judge accepts is no better than the optimum."""
    timed = simulate(given_, data.draw(orders(given_)))
    grid = sorted({0.0, *(a.end for a in (*timed.executions, *timed.copies))})
    start = st.sampled_from(grid)

    def moved(activity: Execution | Copy) -> Execution | Copy:
        begin = data.draw(start)
        return replace(activity, start=begin, end=begin + activity.end - activity.start)

    other = Timed(tuple(map(moved, timed.executions)), tuple(map(moved, timed.copies)))  # type: ignore[arg-type]
    schedule = stated(given_, other)
    if not check_schedule(given_, schedule):
        assert schedule.value >= brute_force(given_)


def test_contiguous_stages_name_the_circle_of_devices() -> None:
    devices = tuple(Device(name, overlap=True) for name in "abc")
    links = tuple(Link(x, y) for x in "abc" for y in "abc" if x != y)
    tasks = [Task(name) for name in "uvwx"]
    graph = TaskGraph(tasks, [Edge("u", "v", 0), Edge("v", "w", 0), Edge("w", "x", 0)])
    costs = {name: {d: Cost(((1, 1.0),)) for d in "abc"} for name in "uvwx"}
    objective = Objective("throughput", contiguous=True)
    given_ = Problem(graph, costs, Platform(devices, links), objective)

    def judged(homes: str) -> list[str]:
        steps = [(task, home, (0,)) for task, home in zip("uvwx", homes, strict=True)]
        return [str(v) for v in check_schedule(given_, stated(given_, simulate(given_, steps)))]

    assert judged("aabc") == []
    circle = "rule 8: the stages are not contiguous: tensors are read along"
    assert judged("abca") == [f"{circle} 'a' -> 'b' -> 'c' -> 'a'"]
    assert judged("abab") == [f"{circle} 'a' -> 'b' -> 'a'"]
    # c reads from the circle, but is not in it.
    assert judged("abac") == [f"{circle} 'a' -> 'b' -> 'a'"]


@given(problems(max_tasks=5, kinds=["throughput"], contiguous=True))
def test_best_pipelines_pass_the_judge(given_: Problem) -> None:
    found = optimal_schedule(given_)
    assert found is not None
    assert check_schedule(given_, found) == []


@given(
    st.dictionaries(st.integers(1, 9), st.floats(1e-3, 100), min_size=1, max_size=4),
    st.integers(1, 30),
)
def test_the_judge_reads_cost_tables_as_solvers_do(table: dict[int, float], batch: int) -> None:
    # It has an interpolation of its own, so that one alone cannot be wrong unseen.
    cost = Cost(tuple(sorted(table.items())))
    graph, platform = TaskGraph([Task("x")], []), Platform((Device("a"),))
    given_ = Problem(graph, {"x": {"a": cost}}, platform, Objective(batch=batch))
    seconds = given_.seconds("x", "a", batch)
    whole = Execution("x", "a", tuple(range(batch)), 0.0, seconds)
    assert check_schedule(given_, stated(given_, Timed((whole,), ()))) == []
    longer = stated(given_, Timed((replace(whole, end=1.01 * seconds),), ()))
    assert any("instead of" in text for text in found(given_, longer))


def test_the_judge_refuses_a_batch_that_a_falling_table_would_make_free() -> None:
    cost = Cost(((3, 3.0), (4, 2.5)))
    graph, platform = TaskGraph([Task("x")], []), Platform((Device("a"),))
    given_ = Problem(graph, {"x": {"a": cost}}, platform, Objective(batch=9))
    free = Execution("x", "a", tuple(range(9)), 0.0, 0.0)
    [violation] = check_schedule(given_, stated(given_, Timed((free,), ())))
    assert violation.rule == 1 and violation.amount == pytest.approx(5.625)
