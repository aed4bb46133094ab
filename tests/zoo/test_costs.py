from __future__ import annotations

import pytest

from tvm_hetero import zoo
from tvm_hetero.errors import PlatformError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Objective
from tvm_hetero.zoo.costs import FAMILIES, family_of, make_problem, table_sizes
from tvm_hetero.zoo.work_graph import HALF, SINGLE, Builder, Kind, WorkGraph

CPU = Device("cpu", target={"kind": "llvm"}, peak_flops=1e12, bandwidth=1e11, launch=1e-6)
GPU = Device(
    "gpu", target={"kind": "cuda", "arch": "sm_80"}, peak_flops=1e13, bandwidth=1e12, launch=5e-6
)
BOTH = Platform((CPU, GPU))


def one_task(
    kind: Kind = "conv",
    width: int = SINGLE,
    *,
    flops: float = 0.0,
    weights: int = 0,
    cache: int = 0,
) -> WorkGraph:
    net = Builder("one", width)
    net.add("it", kind, [], (1,), flops=flops, weights=weights, cache=cache, traffic=0)
    return net.build()


def seconds(graph: WorkGraph, device: str, elements: int = 1) -> float:
    problem = make_problem(graph, BOTH, Objective("latency", elements))
    return problem.seconds(problem.tasks[0].id, device, elements)


def test_arithmetic_by_kind_of_work_and_family():
    graph = one_task("depthwise", flops=1e9)
    assert seconds(graph, "cpu") == pytest.approx(1e-6 + 1e9 / (0.4 * 1e12))
    assert seconds(graph, "gpu") == pytest.approx(5e-6 + 1e9 / (0.1 * 1e13))


def test_sixteen_bit_products_run_on_matrix_units():
    ratio = 312 / 19.5
    slow, fast = (seconds(one_task("gemm", w, flops=1e12), "gpu") - 5e-6 for w in (SINGLE, HALF))
    assert slow / fast == pytest.approx(ratio)
    sums = [seconds(one_task("elementwise", w, flops=1e12), "gpu") for w in (SINGLE, HALF)]
    assert sums[0] == sums[1]


def test_a_batch_reads_the_weights_once_and_the_cache_for_each():
    graph = one_task("gemm", weights=10**9, cache=10**8)
    assert seconds(graph, "cpu", 1) == pytest.approx(1e-6 + 4.4e9 / 1e11)
    assert seconds(graph, "cpu", 4) == pytest.approx(1e-6 + 5.6e9 / 1e11)


def test_memory_holds_the_cache_of_the_whole_batch():
    graph = one_task("gemm", weights=1000, cache=10)
    task = make_problem(graph, BOTH, Objective("latency", 8)).tasks[0]
    assert task.weight_bytes == 4000 + 8 * 40
    assert task.bytes == 4000 + 40


def test_batches_in_flight_have_caches_of_their_own():
    graph = one_task("gemm", weights=1000, cache=10)
    one, three = (make_problem(graph, BOTH, Objective("latency", 8), n) for n in (1, 3))
    assert three.tasks[0].weight_bytes == 4000 + 3 * 8 * 40
    assert one.costs == three.costs


@pytest.mark.parametrize(
    ("batch", "sizes"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (16, [1, 2, 4, 8, 16])]
)
def test_costs_are_given_for_powers_of_two_and_the_batch(batch: int, sizes: list[int]):
    assert table_sizes(batch) == sizes
    problem = make_problem(one_task(flops=1e6), BOTH, Objective("latency", batch))
    points = problem.costs[problem.tasks[0].id]["cpu"].points
    assert [n for n, _ in points] == sizes


@pytest.mark.parametrize("name", ["resnet50", "gpt-24-decode", "kimi-k2"])
def test_more_elements_take_longer_but_never_longer_than_one_by_one(name: str):
    problem = zoo.problem(name, "diviml", Objective("latency", 16))
    for row in problem.costs.values():
        for cost in row.values():
            times = [cost.seconds(n) for n in range(1, 17)]
            assert times == sorted(times)
            assert times[-1] <= 16 * times[0] * (1 + 1e-12)


def test_inputs_and_outputs_are_free_on_processors_alone():
    problem = zoo.problem("resnet18")
    for task in problem.tasks:
        free = task.op in ("input", "output")
        assert (problem.devices_for(task.id) == ("cpu",)) == free
        assert (problem.seconds(task.id, "cpu") == 0) == free


def test_a_neural_unit_takes_no_recurrent_cells():
    problem = zoo.problem("lstm", "phone")
    assert "npu" not in problem.devices_for("lstm")
    assert "npu" in problem.devices_for("classifier")


def test_families_are_found_by_tag_then_architecture_then_kind():
    assert family_of(GPU) is FAMILIES["sm_80"]
    tagged = Device("g", target={"kind": "cuda", "tag": "sched/gpu-b", "arch": "sm_80"})
    assert family_of(tagged) is FAMILIES["sched/gpu-b"]
    assert family_of(Device("g", target={"kind": "cuda", "arch": "sm_61"})) is FAMILIES["cuda"]
    assert family_of(Device("c")) is FAMILIES["llvm"]


def test_a_platform_without_processor_is_refused_with_the_task():
    with pytest.raises(PlatformError, match="no device can run task 'input'"):
        zoo.problem("resnet18", Platform((GPU,)))


def test_a_device_without_figures_is_refused():
    with pytest.raises(PlatformError, match="no peak_flops"):
        zoo.problem("resnet18", Platform((Device("cpu", target={"kind": "llvm"}),)))
