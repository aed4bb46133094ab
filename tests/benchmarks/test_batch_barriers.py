"""What barriers cost the bound of a batch: parts are below the whole, and their sum is near it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks import batch_barriers
from tests.solvers.examples import processors
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.views.arrays import figures_of
from tvm_hetero.views.instance import Instance


def test_equal_work_on_equal_devices_adds_up() -> None:
    # 14 tasks of a second an element in a row, 4 elements on two devices: 28 s, 14 in each half.
    names = [f"t{i}" for i in range(14)]
    edges = [Edge(a, b, 0) for a, b in pairwise(names)]
    costs = {name: {"p1": Cost(((1, 1.0),)), "p2": Cost(((1, 1.0),))} for name in names}
    problem = Problem(
        TaskGraph([Task(name) for name in names], edges), costs, processors(2),
        Objective("latency", 4),
    )  # fmt: skip
    whole, rows = batch_barriers.barriers(figures_of(Instance(problem)))
    assert whole == pytest.approx(28.0)
    assert [a for a, _, _ in rows] == [6]
    assert rows[0][1:] == (pytest.approx(14.0), pytest.approx(14.0))


def test_it_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    most = batch_barriers.main(["resnet18", "sched-nvl", "2"])
    assert f"{most:.4f}" in capsys.readouterr().out
    assert 0.5 < most < 2.0
