"""Symmetries are found where clusters have them, and every one that is claimed is one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.errors import PlatformError
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.views import symmetric_paths
from tvm_hetero.views.symmetry import Symmetry, find_symmetry, link_codes


def cluster(nodes: list[dict[str, int]], network: float = 1e9) -> Platform:
    """Nodes of so many devices of each type, in the order given."""
    devices = [
        Device(f"n{i}.{kind}{j}", node=f"n{i}", overlap=True)
        for i, row in enumerate(nodes)
        for kind, count in row.items()
        for j in range(count)
    ]
    fabrics = [Fabric(f"n{i}", 1e10, 1e-6) for i in range(len(nodes))]
    return Platform(tuple(devices), fabrics=(*fabrics, Fabric(None, network, 1e-5)))


def chain_on(platform: Platform, speed: dict[str, float], length: int = 3) -> Problem:
    """A chain whose tasks take `speed` seconds on the devices of each type."""
    tasks = [Task(f"t{i}", output_bytes=8) for i in range(length)]
    edges = [Edge(a.id, b.id, 8) for a, b in pairwise(tasks)]
    row = {d.name: Cost(((1, speed[d.name.split(".")[1].rstrip("0123456789")]),))
           for d in platform.devices}  # fmt: skip
    return Problem(TaskGraph(tasks, edges), {t.id: row for t in tasks}, platform)


def test_servers_of_a_cpu_and_two_gpus():
    problem = chain_on(cluster([{"cpu": 1, "gpu": 2}] * 3), {"cpu": 4.0, "gpu": 1.0})
    assert find_symmetry(problem) == Symmetry(
        9, ((1, 2), (4, 5), (7, 8)), (((0, 1, 2), (3, 4, 5), (6, 7, 8)),)
    )
    assert find_symmetry(problem).types() == (0, 1, 1, 0, 1, 1, 0, 1, 1)


def test_unlike_nodes_are_different_orbits():
    nodes = [{"gpu": 2}, {"gpu": 4}, {"gpu": 2}, {"gpu": 4}, {"cpu": 2}]
    found = find_symmetry(chain_on(cluster(nodes), {"cpu": 4.0, "gpu": 1.0}))
    assert [len(orbit) for orbit in found.blocks] == [2, 2]
    assert len(set(found.types())) == 3


def test_nodes_of_one_device_are_twins_and_no_blocks():
    found = find_symmetry(chain_on(cluster([{"gpu": 1}] * 4), {"gpu": 1.0}))
    assert found == Symmetry(4, ((0, 1, 2, 3),), ())


def test_a_network_as_fast_as_the_fabric_makes_all_devices_twins():
    platform = cluster([{"gpu": 2}] * 3)
    platform = replace(platform, fabrics=tuple(replace(f, bandwidth=1e9, latency=0.0)
                                               for f in platform.fabrics))  # fmt: skip
    found = find_symmetry(chain_on(platform, {"gpu": 1.0}))
    assert found == Symmetry(6, (tuple(range(6)),), ())


def test_a_ring_has_no_twins():
    names = [f"d{i}.gpu" for i in range(5)]
    links = [Link(names[i], names[(i + k) % 5], 1e9) for i in range(5) for k in (1, 4)]
    far = [Link(a, b, 1e6) for a in names for b in names
           if a != b and (a, b) not in {(x.src, x.dst) for x in links}]  # fmt: skip
    platform = Platform(tuple(Device(n) for n in names), (*links, *far))
    assert find_symmetry(chain_on(platform, {"gpu": 1.0})) == Symmetry(5)


@pytest.mark.parametrize(
    "change", [{"memory": 5}, {"overlap": False}, {"watts": 3.0}, {"price": 2.0}]
)
def test_what_differs_in_any_figure_is_no_twin(change):
    platform = cluster([{"gpu": 3}])
    devices = (replace(platform.devices[0], **change), *platform.devices[1:])
    problem = chain_on(replace(platform, devices=devices), {"gpu": 1.0})
    assert find_symmetry(problem) == Symmetry(3, ((1, 2),))


def test_ties_between_paths_break_a_symmetry():
    """Both hubs lead from a to b in equal time; the first is taken, so they are not alike."""
    names = ["a", "h", "i", "b"]
    links = [Link(x, y, 8.0) for h in "hi" for x, y in (("a", h), (h, "b"), ("b", h), (h, "a"))]
    platform = Platform(tuple(Device(n) for n in names), tuple(links))
    tasks = [Task("s", output_bytes=8), Task("t")]
    costs = {"s": {"a": Cost(((1, 1.0),))}, "t": {"b": Cost(((1, 1.0),))}}
    problem = Problem(TaskGraph(tasks, [Edge("s", "t", 8)]), costs, platform)
    assert (1, 2) not in find_symmetry(problem).twins


def test_hundreds_of_devices():
    nodes = [{"gpu": 8}, {"gpu": 4}, {"gpu": 8}, {"cpu": 2, "gpu": 4}] * 20
    found = find_symmetry(chain_on(cluster(nodes), {"cpu": 9.0, "gpu": 1.0}, 40))
    assert found.devices == 520
    assert [len(orbit) for orbit in found.blocks] == [40, 20, 20]
    assert len(set(found.types())) == 4


@st.composite
def doubled(draw: st.DrawFn) -> Problem:
    """A random problem whose devices are there twice, so that there is often something to find."""
    problem = draw(problems(4, 2, kinds=("latency", "throughput"), batch=2, memory=True))
    platform = problem.platform
    twice = [replace(d, name=d.name + s, node=d.node + s) for s in "xy" for d in platform.devices]
    links = [replace(link, src=link.src + s, dst=link.dst + s) for s in "xy"
             for link in platform.links]  # fmt: skip
    fabrics = [replace(f, node=f.node + s) for f in platform.fabrics for s in "xy" if f.node]
    shuffled = draw(st.permutations(twice))
    costs = {t: {d + s: c for d, c in row.items() for s in "xy"}
             for t, row in problem.costs.items()}  # fmt: skip
    wide = Fabric(None, 4.0, 1.0)
    return replace(
        problem,
        platform=Platform(tuple(shuffled), tuple(links), (*fabrics, wide)),
        costs=costs,
        objective=Objective(problem.objective.kind, problem.batch),
    )


@settings(max_examples=draws(36), deadline=None)
@given(doubled())
def test_every_generator_leaves_the_problem_as_it_is(problem):
    platform, names = problem.platform, problem.platform.names
    found = find_symmetry(problem)
    for p in found.generators():
        assert sorted(p) == list(range(len(names)))
        for a, b in enumerate(p):
            one, other = platform.devices[a], platform.devices[b]
            assert replace(one, name="", node="") == replace(other, name="", node="")
            for task in problem.tasks:
                row = problem.costs[task.id]
                assert row.get(names[a]) == row.get(names[b])
            for c in range(len(names)):
                if c != a:
                    link, image = platform.link(names[a], names[c]), platform.link(
                        names[b], names[p[c]])  # fmt: skip
                    assert (link is None) == (image is None)
                    if link and image:
                        assert replace(link, src="", dst="") == replace(image, src="", dst="")
                    assert way(problem, a, c, p) == way(problem, b, p[c], range(len(p)))


def way(problem: Problem, a: int, b: int, rename: object) -> list[tuple[int, ...] | None]:
    """The devices on the paths from a to b for all sizes, renamed."""
    platform, names = problem.platform, problem.platform.names
    rows: list[tuple[int, ...] | None] = []
    for tensor in problem.graph.tensors.values():
        for n in range(1, problem.batch + 1):
            try:
                path = platform.path(names[a], names[b], tensor.bytes * n)
            except PlatformError:
                rows.append(None)
                continue
            rows.append(tuple(rename[platform.index[x.dst]] for x in path))  # type: ignore[index]
    return rows


def test_link_codes_follow_the_platform():
    platform = cluster([{"gpu": 2}, {"gpu": 1}])
    codes = link_codes(platform)
    assert codes[0, 1] == codes[1, 0] >= 0
    assert codes[0, 2] == codes[2, 1] >= 0
    assert codes[0, 1] != codes[0, 2]
    assert (codes.diagonal() == -1).all()


def test_large_batches_have_ties_and_keep_their_symmetry():
    """Over the network two GPUs without a direct link meet in any other device: many ties."""
    problem = zoo.problem("llama3-70b", "mixed-4", Objective("throughput", 64), layers=2)
    assert [len(row) for row in find_symmetry(problem).twins] == [8, 8, 4, 4]


def test_sizes_that_take_the_same_paths_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 448 devices the same pairs were gone through for each of 174 sizes."""
    made: list[int] = []

    class Counted(symmetric_paths._TiedPaths):
        def __init__(self, problem: Problem, nbytes: int, stops: Any) -> None:
            made.append(nbytes)
            super().__init__(problem, nbytes, stops)

    monkeypatch.setattr(symmetric_paths, "_TiedPaths", Counted)
    problem = zoo.problem("inception-v4", "mixed-4", Objective("throughput", 8))
    assert [len(row) for row in find_symmetry(problem).twins] == [8, 8, 4, 4]
    sizes = {n * t.bytes for t in problem.graph.tensors.values() for n in range(1, 9)}
    assert 1 <= len(made) <= 4 < len(sizes) / 10


def test_subtrees_of_nested_teams_change_places_and_nothing_else_does() -> None:
    sets = [(i,) for i in range(4)] + [(0, 1), (2, 3), (0, 1, 2, 3)]
    devices = tuple(Device(f"t{i}", cores=cores) for i, cores in enumerate(sets))
    graph = TaskGraph([Task("t")], [])
    costs = {"t": {d.name: Cost(((1, 1.0 / len(d.cores)),)) for d in devices}}
    found = find_symmetry(Problem(graph, costs, Platform(devices, fabrics=(Fabric("node0"),))))
    assert found.twins == ((0, 1), (2, 3))
    assert found.blocks == (((4, 0, 1), (5, 2, 3)),)
    assert found.types() == (0, 0, 0, 0, 4, 4, 6)
    for device, carrier in enumerate(found.carriers):
        assert carrier[found.types()[device]] == device
        moved = {frozenset(carrier[d] for d in clique) for clique in [(0, 4, 6), (2, 5, 6)]}
        cliques = {frozenset(row) for row in [(0, 4, 6), (1, 4, 6), (2, 5, 6), (3, 5, 6)]}
        assert moved <= cliques


def test_any_device_is_carried_to_any_that_is_alike() -> None:
    found = find_symmetry(zoo.problem("inception-v4", "mixed-4"))
    types = found.types()
    pairs = [(a, b) for a in range(len(types)) for b in range(len(types)) if types[a] == types[b]]
    assert len(pairs) > len(types)
    for a, b in pairs:
        move = found.carry(a, b)
        assert move[a] == b
        assert sorted(move) == list(range(len(types)))
        assert all(types[d] == types[there] for d, there in enumerate(move))


def test_teams_that_share_a_core_with_another_are_not_twins() -> None:
    devices = tuple(Device(f"t{i}", cores=cores) for i, cores in enumerate([(0,), (1,), (1, 2)]))
    graph = TaskGraph([Task("t")], [])
    costs = {"t": {d.name: Cost(((1, 1.0),)) for d in devices}}
    found = find_symmetry(Problem(graph, costs, Platform(devices, fabrics=(Fabric("node0"),))))
    assert all(0 not in twins for twins in found.twins)
