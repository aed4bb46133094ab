"""Every problem of the zoo is a valid problem, and says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_hetero import zoo
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import UsageError
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.lists import heft


@pytest.mark.parametrize("name", zoo.names())
def test_every_problem_can_be_saved_and_read_again(name: str, tmp_path: Path):
    problem = zoo.problem(name)
    assert len(problem.tasks) == zoo.describe(name).tasks
    problem.save(tmp_path / "problem.json")
    assert Problem.load(tmp_path / "problem.json").digest == problem.digest


@pytest.mark.parametrize("name", ["resnet18", "randwire-ws", "lstm", "gnn", "mobilenet-v2"])
@pytest.mark.parametrize("platform", ["diviml", "phone", "diviml-serial"])
def test_problems_have_schedules(name: str, platform: str):
    problem = zoo.problem(name, platform)
    schedule = heft.solve(problem, Options(time_limit=1.0))
    assert check_schedule(problem, schedule) == []
    assert schedule.value > 0


def test_the_same_name_and_parameters_give_the_same_problem():
    one, two = (zoo.problem("layered", "mixed-4", tasks=50, seed=2) for _ in range(2))
    assert one.digest == two.digest


def test_the_name_says_network_and_platform():
    assert zoo.problem("resnet50", "sched-nvl").name == "resnet50 on sched-nvl"


def test_a_platform_of_ones_own():
    mine = zoo.cluster([("diviml", 2)])
    problem = zoo.problem("resnet18", mine, Objective("throughput", 4))
    assert problem.platform is mine
    assert problem.batch == 4


def test_what_does_not_fit_is_not_made_to_fit():
    problem = zoo.problem("gpt3-175b", "diviml")
    room = sum(device.memory or 0 for device in problem.platform.devices)
    assert sum(task.weight_bytes for task in problem.tasks) > 3 * room


@pytest.mark.parametrize("platform", ["diviml-6", "sched-6"])
def test_gpt3_fits_six_servers_but_not_their_gpus(platform: str):
    problem = zoo.problem("gpt3-175b", platform)
    weights = sum(task.weight_bytes for task in problem.tasks)
    room = {device.name: device.memory or 0 for device in problem.platform.devices}
    assert weights < sum(room.values())
    assert weights > sum(size for name, size in room.items() if not name.endswith("cpu"))


def test_energy_and_price_are_known_where_the_platform_says_so():
    for kind in ("energy", "cost"):
        assert zoo.problem("resnet18", "diviml", Objective(kind)).objective.kind == kind  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"dept": 18}, "no parameter 'dept'; did you mean 'depth'"),
        ({"depth": "18"}, "depth: expected a value such as 18, got '18'"),
        ({"depth": -1}, "depth: expected a number above 0, got -1"),
        ({"resolution": True}, "resolution: expected a value"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict, text: str):
    with pytest.raises(UsageError, match=text):
        zoo.problem("resnet18", **parameters)


def test_zero_is_a_number_where_it_means_something():
    assert zoo.work_graph("gpt3-175b", context=0).works[2].cache == 0
    with pytest.raises(UsageError, match="of at least 0"):
        zoo.work_graph("gpt3-175b", context=-1)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'resnet50'"):
        zoo.describe("resnet51")
    with pytest.raises(UsageError, match="did you mean 'diviml'"):
        zoo.problem("resnet50", "divimal")


def test_fifty_thousand_tasks():
    problem = zoo.problem("layered", "sched-pcie", tasks=50_000)
    assert len(problem.tasks) == 50_002
    # Shapes come from a small stock, and equal work shares its costs.
    assert len({id(row) for row in problem.costs.values()}) < 3000


def test_platforms_are_what_the_problem_is_on():
    assert isinstance(zoo.platform("diviml"), Platform)
    assert set(zoo.platform_names()) >= {"diviml", "diviml-6", "sched-pcie", "phone", "mixed-64"}
