"""Trying one of those that are alike gives what trying all of them gives."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.strategies import graphs
from tests.views.test_symmetry import chain_on, cluster
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Problem
from tvm_hetero.solvers.lists.cpop import cpop
from tvm_hetero.solvers.lists.greedy import greedy
from tvm_hetero.solvers.lists.heft import heft
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler
from tvm_hetero.solvers.lists.peft import peft
from tvm_hetero.solvers.lists.ranks import MeanCopies
from tvm_hetero.solvers.timing.unused_devices import UnusedDevices
from tvm_hetero.views.instance import Instance

SIX_SERVERS = chain_on(cluster([{"cpu": 1, "gpu": 2}] * 3), {"cpu": 4.0, "gpu": 1.0})


def test_idle_servers_are_tried_once():
    fresh = UnusedDevices(SIX_SERVERS)
    assert fresh.representatives(range(9)) == [0, 1]
    fresh.use([4])
    # In the second server the other GPU and the CPU are no longer like those of idle servers.
    assert fresh.representatives(range(9)) == [0, 1, 3, 4, 5]
    fresh.use(range(9))
    assert fresh.representatives(range(9)) == list(range(9))


def test_what_stands_apart_is_always_tried():
    assert 8 in UnusedDevices(SIX_SERVERS, [8]).representatives(range(9))
    assert UnusedDevices(SIX_SERVERS, range(9)).representatives([2, 1]) == [2, 1]


@st.composite
def clusters(draw: st.DrawFn) -> Problem:
    """Random graphs on servers of three kinds of devices, with little memory and slow networks."""
    graph = draw(graphs(max_tasks=7))
    kinds_of_nodes = st.sampled_from([(1, 2, 0), (1, 1, 1), (0, 0, 3)])
    rows = draw(st.lists(kinds_of_nodes, min_size=2, max_size=4))
    memory = draw(st.sampled_from([None, 12, 30]))
    overlap = draw(st.booleans())
    devices, kinds = [], {}
    for i, row in enumerate(rows):
        for kind, count in enumerate(row):
            for j in range(count):
                name = f"n{i}.k{kind}.{j}"
                kinds[name] = kind
                devices.append(Device(name, f"n{i}", memory=memory, overlap=overlap))
    speed = st.sampled_from([0.5, 1.0, 2.0, 4.0])
    costs = {}
    for task in graph.tasks:
        own = [draw(speed) for _ in range(3)]
        costs[task.id] = {name: Cost(((1, own[kind]),)) for name, kind in kinds.items()}
    exclusive = draw(st.booleans())
    fabrics = [Fabric(f"n{i}", 8.0, 0.25, exclusive) for i in range(len(rows))]
    fabrics.append(Fabric(None, 2.0, 0.5, exclusive))
    return Problem(graph, costs, Platform(tuple(devices), fabrics=tuple(fabrics)))


@settings(max_examples=draws(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=clusters(), method=st.sampled_from([heft, peft, cpop, greedy]), space=st.booleans())
def test_schedules_are_the_same(problem, method, space):
    instance = Instance(problem)
    everything = range(len(instance.names))
    rule = method(instance, everything)

    def outcome(apart):
        scheduler = ListScheduler(instance, set(everything), rule.score, "list", apart)
        try:
            return scheduler.run(rule.order, by_space=space)
        except InfeasibleError:
            return None

    assert outcome(rule.apart) == outcome(everything)


@settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=clusters())
def test_mean_copies_are_means_over_all_pairs(problem):
    instance = Instance(problem)
    copies = MeanCopies(instance)
    for t, flow in enumerate(instance.tensors):
        for reader in flow.readers:
            times = [
                instance.copy_seconds(j, k, flow.nbytes)
                for j in instance.devices[flow.maker]
                for k in instance.devices[reader]
                if j != k
            ]
            expected = math.fsum(times) / len(times)
            assert copies.seconds(t, reader) == expected
