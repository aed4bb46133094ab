"""Tasks of branches cost what they cost on average, by how often their conditions hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tvm_hetero as th
from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.frontends.onnx.models import value
from tests.passes.test_conditional_branches import (
    COLUMNS,
    LOW,
    NEGATIVE,
    PRODUCTS,
    ROWS,
    graph,
    model,
    weights,
)
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem, partition
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Kind, Objective

GPU = {"kind": "cuda", "arch": "sm_90"}


def platform(*targets: dict[str, str]) -> th.Platform:
    """Devices of these targets, with links between all of them."""
    devices = [
        th.Device(f"d{i}", target=t, cores=(i,) if t["kind"] == "llvm" else (),
                  peak_flops=1e11, bandwidth=1e10, launch=1e-6)
        for i, t in enumerate(targets)
    ]  # fmt: skip
    names = [device.name for device in devices]
    links = [th.Link(a, b, bandwidth=1e10, latency=1e-6) for a in names for b in names if a != b]
    return th.Platform(tuple(devices), tuple(links))


CPU = {"kind": "llvm", "mcpu": "x86-64-v3"}


def costs(problem: Problem, device: str = "d0") -> dict[str, float]:
    """Seconds of each task on a device, by its kernel."""
    rows = {task.op: problem.costs[task.id] for task in problem.tasks}
    return {op: row[device].seconds(1) for op, row in rows.items() if device in row}


def problem_of(
    source: onnx.ModelProto, probabilities: dict[str, float], *targets: dict[str, str]
) -> Problem:
    """The scheduling problem of a model by estimated costs."""
    options = PartitionOptions(cost_model="analytical", probabilities=probabilities)
    return make_problem(from_onnx(source), platform(*(targets or (CPU,))), options).problem


def named(source: onnx.ModelProto) -> onnx.ModelProto:
    """The model, whose ``If`` is called gate."""
    next(node for node in source.graph.node if node.op_type == "If").name = "gate"
    return source


@pytest.mark.parametrize("name", ["gate", "c", "r"])
def test_each_branch_counts_as_often_as_it_is_taken(name: str) -> None:
    source = named(model(PRODUCTS, NEGATIVE))
    always = costs(problem_of(source, {}))
    found = costs(problem_of(source, {name: 0.9}))
    shares = {op: found[op] / seconds for op, seconds in always.items() if seconds}
    under = sorted(share for op, share in shares.items() if "_if" in op)
    assert under == pytest.approx([0.1, 0.9, 0.9])
    rest = [share for op, share in shares.items() if "_if" not in op]
    assert len(rest) > 3
    assert all(share == 1 for share in rest)


def nested() -> onnx.ModelProto:
    """A choice within the branch of another one."""
    inner = helper.make_node(
        "If", ["d"], ["t0"], "inner",
        then_branch=graph("a", [helper.make_node("Exp", ["h"], ["a0"])]),
        else_branch=graph("b", [helper.make_node("Abs", ["h"], ["b0"])]),
    )  # fmt: skip
    source = named(model([inner], NEGATIVE))
    source.graph.node.insert(3, helper.make_node("Greater", ["m", "zero"], ["d"]))
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0.0, np.float32), "zero"))
    return source


def test_a_branch_within_a_branch_counts_the_product() -> None:
    always = costs(problem_of(nested(), {}))
    found = costs(problem_of(nested(), {"c": 0.5, "d": 0.2}))
    shares = {op: found[op] / always[op] for op in found if "_if" in op}
    # The inner condition and the inner choice are needed as often as their branch is.
    assert sorted(shares.values()) == pytest.approx([0.1, 0.4, 0.5, 0.5, 0.5])


def test_what_no_probability_is_given_for_counts_in_full_on_both_sides() -> None:
    always = costs(problem_of(nested(), {}))
    found = costs(problem_of(nested(), {"gate": 0.5}))
    inner = [found[op] / always[op] for op in found if "exp" in op or "abs" in op]
    assert inner == pytest.approx([0.5, 0.5])


def test_kernels_of_a_gpu_run_whatever_the_condition_is() -> None:
    source = model(PRODUCTS, NEGATIVE)
    always, found = (problem_of(source, given, CPU, GPU) for given in ({}, {"c": 0.25}))
    assert costs(found, "d1") == costs(always, "d1")
    assert costs(found, "d0") != costs(always, "d0")


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_the_value_of_one_device_is_the_mean_of_both_ways(kind: Kind) -> None:
    source = model(PRODUCTS, NEGATIVE)

    def planned(probability: float) -> float:
        options = PartitionOptions(
            objective=Objective(kind), cost_model="analytical", probabilities={"c": probability}
        )
        return partition(from_onnx(source), platform(CPU), options).schedule.value

    never, always, rarely = (planned(p) for p in (0.0, 1.0, 0.2))
    assert never < rarely < always
    assert rarely == pytest.approx(0.8 * never + 0.2 * always)


def test_what_is_built_knows_its_probabilities_and_computes_the_same(tmp_path: Path) -> None:
    source = model(PRODUCTS, NEGATIVE)
    options = PartitionOptions(cost_model="analytical", probabilities={"c": 0.25})
    plain = PartitionOptions(cost_model="analytical")
    results = []
    for how in (options, plain):
        executable = th.build(partition(from_onnx(source), platform(CPU, CPU), how).module)
        with th.Executor(executable) as executor:
            results.append(executor.run(LOW)[0].numpy())
        executable.save(tmp_path / str(len(results)))
    np.testing.assert_array_equal(*results)
    assert load_artifact(tmp_path / "1").probabilities == {"c": 0.25}
    assert load_artifact(tmp_path / "2").probabilities == {}


def test_a_partition_without_probabilities_forgets_those_of_an_earlier_one() -> None:
    source = model(PRODUCTS, NEGATIVE)
    first = PartitionOptions(cost_model="analytical", probabilities={"c": 0.25})
    placed = partition(from_onnx(source), platform(CPU), first).module
    again = make_problem(placed, platform(CPU), PartitionOptions(cost_model="analytical"))
    assert costs(again.problem) == costs(problem_of(source, {}))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    source = named(model(PRODUCTS, NEGATIVE))
    with pytest.raises(UsageError, match=r"'door', which is no condition .*: 'gate' = 'c' = 'r'"):
        problem_of(source, {"door": 0.5})


def test_a_model_without_choices_says_so() -> None:
    dims = [ROWS, COLUMNS]
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    made = helper.make_graph(nodes, "g", [value("x", dims)], [value("y", dims)], weights())
    source = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(UsageError, match="no If of the model is decided while it runs"):
        problem_of(source, {"c": 0.5})


def test_two_numbers_for_one_condition_are_refused() -> None:
    with pytest.raises(UsageError, match=r"names of one condition.*0\.5, 0\.6"):
        problem_of(named(model(PRODUCTS, NEGATIVE)), {"gate": 0.5, "c": 0.6})


@pytest.mark.parametrize("number", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(number: float) -> None:
    with pytest.raises(UsageError, match=r"expected a number from 0 .* to 1"):
        PartitionOptions(probabilities={"c": number})
