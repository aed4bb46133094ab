"""Problems as chains of blocks, and configurations as schedules that the judge accepts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_hetero import zoo
from tvm_hetero.errors import InfeasibleError, PlatformError
from tvm_hetero.online.chain import chain_of, places_of, schedule_of
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.platform.devices import Device, Link
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Edge, Task, TaskGraph

PIPELINE = Objective("throughput", contiguous=True)


def problem(*devices: Device, colors: dict[str, str] | None = None) -> Problem:
    """in -> a -> (b, c) -> d -> out; tasks take 1, 2, 3 and 4 s on the first device."""
    colors = colors or {}
    names = ["in", "a", "b", "c", "d", "out"]
    flows = [("in", "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "out")]
    graph = TaskGraph(
        [Task(name, color=colors.get(name)) for name in names], [Edge(*flow, 8) for flow in flows]
    )
    seconds = {"in": 0.0, "a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "out": 0.0}
    costs = {
        task: {d.name: Cost(((1, time * (i + 1)),)) for i, d in enumerate(devices)}
        for task, time in seconds.items()
    }
    both = [(a.name, b.name) for a in devices for b in devices if a != b]
    links = tuple(Link(a, b) for a, b in both)
    return Problem(graph, costs, Platform(devices, links), PIPELINE)


def test_blocks_come_in_topological_order_without_inputs_and_outputs() -> None:
    chain = chain_of(problem(Device("x")))
    assert chain.members == (("a",), ("b",), ("c",), ("d",))


def test_what_must_share_a_stage_is_one_block() -> None:
    chain = chain_of(problem(Device("x"), colors={"a": "red", "d": "red"}))
    assert [sorted(block) for block in chain.members] == [["a", "b", "c", "d"]]


def test_a_configuration_is_a_schedule_whose_value_is_its_bottleneck() -> None:
    given = problem(Device("x", cores=(0,)), Device("y", cores=(1,)))
    chain, places = chain_of(given), places_of(given.platform)
    seconds = chain.seconds_on(places)
    for configuration in (
        Configuration((4,), (1,)),
        Configuration((3, 4), (0, 1)),
        Configuration((1, 4), (1, 0)),
        find_optimum(seconds, places).configuration,
    ):
        schedule = schedule_of(chain, configuration, places)
        assert schedule.value == pytest.approx(bottleneck(seconds, configuration))
    assert schedule.placement["a"] == ("y",) and schedule.value == 7.0


def test_a_network_of_the_zoo_becomes_a_pipeline_that_the_judge_accepts() -> None:
    given = zoo.problem("inception-v1").with_objective(PIPELINE)
    chain, places = chain_of(given), places_of(given.platform)
    best = find_optimum(chain.seconds_on(places), places)
    schedule = schedule_of(chain, best.configuration, places)
    assert schedule.value >= best.bottleneck * (1 - 1e-9)
    assert {task for block in chain.members for task in block} <= schedule.placement.keys()


def test_devices_are_places_with_cores_of_their_own() -> None:
    target = {"kind": "llvm", "mcpu": "znver4"}
    platform = Platform(
        (
            Device("one", target=target, cores=(0,)),
            Device("both", target=target | {"num-cores": 2}, cores=(0, 1)),
            Device("gpu", target={"kind": "cuda"}),
            Device("far", node="other", target=target, cores=(0,)),
        ),
        (),
    )
    one, both, gpu, far = places_of(platform)
    assert (one.kind, both.kind, gpu.kind, far.kind) == ("one", "one", "gpu", "one")
    assert one.excludes(both) and both.cores == (0, 1)
    assert not any(far.excludes(other) or gpu.excludes(other) for other in (one, both))
    assert not far.excludes(gpu)


def test_a_place_that_is_no_device_and_a_memory_that_is_too_small_are_refused() -> None:
    given = problem(Device("x"), Device("y"))
    chain = chain_of(given)
    with pytest.raises(PlatformError, match="'z' is no device"):
        schedule_of(chain, Configuration((4,), (0,)), [Place("z", "z", (0,))])
    small = replace(given, platform=Platform((Device("x", memory=4), Device("y")), ()))
    chain, places = chain_of(small), places_of(small.platform)
    with pytest.raises(InfeasibleError, match="0-3@x"):
        schedule_of(chain, Configuration((4,), (0,)), places)
