"""Memory: lifetimes by hand, and against a count at every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import orders, problems
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.memory import Peak, memory_peaks, timed_peaks
from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.problem.simulate import simulate


def chain(objective: Objective | None = None) -> Problem:
    """t0 -> t1 -> t2, tensors of 100 and 10 bytes, 1 byte of result; weights 1000 each."""
    outputs = (100, 10, 1)
    tasks = [Task(f"t{i}", weight_bytes=1000, output_bytes=b) for i, b in enumerate(outputs)]
    graph = TaskGraph(tasks, [Edge("t0", "t1", 100), Edge("t1", "t2", 10)])
    one = Cost(((1, 1.0),))
    costs = {task.id: {"a": one, "b": one} for task in tasks}
    platform = Platform((Device("a"), Device("b")), (Link("a", "b", 100.0),))
    return Problem(graph, costs, platform, objective or Objective())


def run(*places: str) -> list[Execution]:
    return [Execution(f"t{i}", d, (0,), float(i), i + 1.0) for i, d in enumerate(places)]


def test_what_ends_makes_room_for_what_begins() -> None:
    # t0's tensor (100) lives to 2, t1's (10) from 1 to 3, the result from 2: never all three.
    assert timed_peaks(chain(), run("a", "a", "a"), []) == {
        "a": Peak(3000 + 110, 1.0),
        "b": Peak(0, 0.0),
    }


def test_rounding_invents_no_peak() -> None:
    late = run("a", "a", "a")
    late[1] = Execution("t1", "a", (0,), 1.0, 2.0 + 1e-12)
    assert memory_peaks(chain(), late, [])["a"] == 3110


def test_a_copy_needs_room_at_both_ends_while_it_lasts() -> None:
    executions = [
        Execution("t0", "a", (0,), 0.0, 1.0),
        Execution("t1", "b", (0,), 5.0, 6.0),
        Execution("t2", "b", (0,), 6.0, 7.0),
    ]
    copy = Copy("t0", (0,), "a", "b", 4.0, 5.0)
    assert timed_peaks(chain(), executions, [copy]) == {
        "a": Peak(1000 + 100, 0.0),
        "b": Peak(2000 + 100 + 10, 5.0),
    }


def test_what_nobody_reads_stays_to_the_end() -> None:
    tasks = [Task("r", output_bytes=7), Task("big", output_bytes=50)]
    one = Cost(((1, 1.0),))
    problem = Problem(
        TaskGraph(tasks, []),
        {"r": {"a": one}, "big": {"a": one}},
        Platform((Device("a"),)),
    )
    executions = [Execution("r", "a", (0,), 0.0, 1.0), Execution("big", "a", (0,), 1.0, 2.0)]
    assert timed_peaks(problem, executions, []) == {"a": Peak(57, 1.0)}


def test_elements_count_and_weights_do_not() -> None:
    batch = chain(Objective("latency", 2))
    parts = [
        Execution(f"t{i}", "a", (n,), 3.0 * n + i, 3.0 * n + i + 1)
        for n in (0, 1)
        for i in range(3)
    ]
    # Element 0's result stays while element 1 goes through.
    assert memory_peaks(batch, parts, [])["a"] == 3000 + 110 + 1
    whole = [Execution(f"t{i}", "a", (0, 1), 2.0 * i, 2.0 * i + 2) for i in range(3)]
    assert memory_peaks(batch, whole, [])["a"] == 3000 + 220


def test_a_steady_state_keeps_every_buffer() -> None:
    steady = chain(Objective("throughput", 2))
    executions = [Execution(f"t{i}", d, (0, 1), 0.0, 2.0) for i, d in enumerate("abb")]
    copy = Copy("t0", (0, 1), "a", "b", 0.0, 2.0)
    assert memory_peaks(steady, executions, [copy]) == {
        "a": 1000 + 2 * 100,
        "b": 2000 + 2 * 100 + 2 * 10 + 2 * 1,
    }


@given(st.data(), problems(batch=2, memory=True))
def test_against_a_count_at_every_moment(data: st.DataObject, problem: Problem) -> None:
    """Ask at the start of everything: who holds what, from its maker to its last use?"""
    executions, copies = simulate(problem, data.draw(orders(problem)))
    end = max(e.end for e in executions)
    graph = problem.graph

    def last_use(tensor: str, elements: tuple[int, ...], device: str) -> float:
        readers = graph.tensors[tensor].readers
        uses = [
            e.end
            for e in executions
            if e.task in readers and e.device == device and set(e.elements) & set(elements)
        ]
        uses += [
            c.end
            for c in copies
            if c.tensor == tensor and device in (c.src, c.dst) and c.elements == elements
        ]
        return max(uses, default=0.0)

    def held(device: str, now: float) -> int:
        total = 0
        for e in (e for e in executions if e.device == device and e.start <= now):
            if now < end:
                total += graph.unread_bytes(e.task) * len(e.elements)
            for tensor in graph.outputs[e.task]:
                if now < max(e.end, last_use(tensor.name, e.elements, device)):
                    total += tensor.bytes * len(e.elements)
        arrived = {(c.tensor, c.elements) for c in copies if c.dst == device and c.start <= now}
        for tensor_name, elements in arrived:
            if now < last_use(tensor_name, elements, device):
                total += graph.tensors[tensor_name].bytes * len(elements)
        return total

    moments = {0.0, *(a.start for a in (*executions, *copies))}
    for device, peak in memory_peaks(problem, executions, copies).items():
        tasks = {e.task for e in executions if e.device == device}
        weights = sum(graph.task(task).weight_bytes for task in tasks)
        assert peak == weights + max(held(device, now) for now in moments)
