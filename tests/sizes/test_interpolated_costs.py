"""Costs between measured sizes: right where the roofline is a fixed share off, and no dearer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sizes.models import platform, write_conv_net
from tvm_hetero.cost_models.analytical import AnalyticalCosts
from tvm_hetero.cost_models.protocol import CostModel, Costs, Progress
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.sizes.interpolated_costs import InterpolatedCosts


class Asked(AnalyticalCosts):
    """Costs that remember for which kernels they were asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        self.asked += [kernel.name for kernel in kernels]
        return super().costs(kernels, platform, progress)


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Problem]:
    """A network's problems at three sizes, by the roofline."""
    net = write_conv_net(tmp_path_factory.mktemp("model") / "net.onnx")
    return {width: _problem(net, width, AnalyticalCosts()) for width in (16, 32, 64)}


def _problem(net: Path, width: int, costs: CostModel) -> Problem:
    module = from_onnx(net, shapes={"x": (1, 3, 8, width)})
    return make_problem(module, platform(), PartitionOptions(cost_model=costs)).problem


def _times(problem: Problem, factor: float) -> Problem:
    """The problem with `factor` times its costs."""
    costs = {
        task: {d: Cost(((1, factor * c.seconds(1)),)) for d, c in row.items()}
        for task, row in problem.costs.items()
    }
    return replace(problem, costs=costs)


def test_between_two_sizes_a_share_of_the_roofline_stays_that_share(
    problems: dict[int, Problem], tmp_path: Path
) -> None:
    others = Asked()
    model = InterpolatedCosts([_times(problems[16], 3.0), _times(problems[64], 3.0)], others)
    found = _problem(write_conv_net(tmp_path / "net.onnx"), 32, model)
    exact = _times(problems[32], 3.0)
    for task, row in exact.costs.items():
        for device, cost in row.items():
            assert found.costs[task][device].seconds(1) == pytest.approx(cost.seconds(1))
    assert others.asked == []


def test_between_two_shares_there_is_one_between(
    problems: dict[int, Problem], tmp_path: Path
) -> None:
    model = InterpolatedCosts([_times(problems[16], 4.0), _times(problems[64], 2.0)], Asked())
    found = _problem(write_conv_net(tmp_path / "net.onnx"), 32, model)
    compute = [task for task, row in problems[32].costs.items() if row["big"].seconds(1) > 0]
    for task in compute:
        share = found.costs[task]["big"].seconds(1) / problems[32].costs[task]["big"].seconds(1)
        assert 2.0 < share < 4.0, task


def test_beyond_the_largest_size_its_share_goes_on(
    problems: dict[int, Problem], tmp_path: Path
) -> None:
    model = InterpolatedCosts([_times(problems[16], 4.0), _times(problems[32], 2.0)], Asked())
    found = _problem(write_conv_net(tmp_path / "net.onnx"), 64, model)
    for task, row in problems[64].costs.items():
        assert found.costs[task]["big"].seconds(1) == pytest.approx(2 * row["big"].seconds(1))


def test_a_kernel_that_no_size_has_is_asked_of_the_other_model(
    problems: dict[int, Problem], tmp_path: Path
) -> None:
    others = Asked()
    lost = next(task.op for task in problems[16].tasks if task.weight_bytes)
    tasks = [
        replace(task, op="other" if task.op == lost else task.op) for task in problems[16].tasks
    ]
    graph = TaskGraph(tasks, problems[16].graph.edges)
    model = InterpolatedCosts([replace(problems[16], graph=graph)], others)
    _problem(write_conv_net(tmp_path / "net.onnx"), 32, model)
    assert others.asked == [lost]
