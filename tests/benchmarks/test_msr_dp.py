"""benchmarks/msr_dp.py: the DP of the paper, against complete search and against our stages."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import msr, msr_dp
from benchmarks.scheduling.ideal_partition import least_busiest
from tests.brute_force import brute_force
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options, solve


def paper_problem(seed: int) -> Problem:
    """A small random problem of the paper's kind: a host, a processor and two accelerators."""
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    colors = [rng.choice([None, None, "red"]) for _ in range(count)]
    tasks = [
        Task(f"t{i}", weight_bytes=rng.randint(1, 4), color=color) for i, color in enumerate(colors)
    ]
    edges = [
        Edge(f"t{i}", f"t{j}", rng.randint(1, 3))
        for i in range(count)
        for j in range(i + 1, count)
        if rng.random() < 0.6
    ]
    sizes = {edge.src: edge.bytes for edge in edges}
    edges = [replace(edge, bytes=sizes[edge.src]) for edge in edges]
    fast = [Device(f"a{i}", overlap=False, memory=30) for i in range(2)]
    devices = (Device("host", overlap=True), Device("p", overlap=True), *fast)
    free = Link("p", "host", latency=0.0)
    links = [free, *(Link(d.name, "host", latency=0.0, bandwidth=1.0) for d in fast)]
    both = [*links, *(replace(link, src=link.dst, dst=link.src) for link in links)]
    costs = {}
    for task in tasks:
        quick, slow = (
            Cost(((1, float(rng.randint(1, 6))),)),
            Cost(((1, float(rng.randint(4, 20))),)),
        )
        costs[task.id] = {"a0": quick, "a1": quick, "p": slow}
    objective = Objective("throughput", contiguous=True)
    return Problem(TaskGraph(tasks, edges), costs, Platform(devices, both), objective)


@pytest.mark.parametrize("seed", range(12))
def test_the_dp_of_the_paper_is_complete_search_on_small_problems(seed: int) -> None:
    problem = paper_problem(seed)
    assert least_busiest(problem) == pytest.approx(brute_force(problem))


@pytest.mark.parametrize("seed", range(12, 16))
def test_stages_above_a_known_value_are_left_out_and_no_others(seed: int) -> None:
    problem = paper_problem(seed)
    value = least_busiest(problem)
    assert least_busiest(problem, value) == value
    assert least_busiest(problem, value * 0.999) == float("inf")


def test_a_problem_without_accelerators_is_refused() -> None:
    problem = paper_problem(0)
    slow = {task: {"p": row["p"]} for task, row in problem.costs.items()}
    with pytest.raises(ValueError, match="no accelerators"):
        least_busiest(replace(problem, costs=slow))


@pytest.mark.skipif(not msr.FOLDER.is_dir(), reason="the problems are not in this repository")
@pytest.mark.parametrize("name", msr_dp.SMALL)
def test_contiguous_stages_are_those_of_the_papers_dp(name: str) -> None:
    problem = Problem.load(msr.problem_file(msr.FOLDER, name))
    staged = problem.with_objective(replace(problem.objective, contiguous=True))
    answer = solve(staged, "auto", Options(time_limit=10.0))
    assert answer.value == pytest.approx(least_busiest(staged, answer.value * (1 + 1e-6)), rel=1e-9)
    assert answer.status == "optimal"


def test_a_row_says_how_far_auto_is_above_the_dp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = paper_problem(1)
    problem.save(tmp_path / f"{msr_dp.NAMES[0]}_inference.problem.json")
    monkeypatch.setattr(msr_dp, "RESULTS", tmp_path / "rows.json")
    arguments = ["--only", "bert24", "--time-limit", "10", "--folder", str(tmp_path)]
    (row,) = msr_dp.main(arguments)
    assert row["above_dp"] == pytest.approx(0.0, abs=1e-9)
    assert row["dp_us"] == pytest.approx(1e6 * brute_force(problem))
    written = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))["rows"]
    assert [own["problem"] for own in written] == [msr_dp.NAMES[0]]
    assert f"| {msr_dp.NAMES[0]} |" in capsys.readouterr().out


def test_committed_results_are_equal_on_all_eight() -> None:
    rows = json.loads((msr.ROOT / "benchmarks/results/msr_dp.json").read_text(encoding="utf-8"))
    assert [row["problem"] for row in rows["rows"]] == list(msr_dp.NAMES)
    for row in rows["rows"]:
        assert abs(row["above_dp"]) < 1e-6, row["problem"]
