"""Tasks of a branch get its condition, and what is built skips them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import NodeProto, TensorProto, helper, numpy_helper

import tvm_hetero as th
from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.frontends.onnx.models import run, value
from tvm_hetero.errors import HeteroError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.passes.conditional_branches import skip_branches
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition

ROWS, COLUMNS = 4, 32


def weights() -> list[TensorProto]:
    """Two matrices, and a limit."""
    rng = np.random.default_rng(0)
    made = [
        numpy_helper.from_array(rng.standard_normal((COLUMNS, COLUMNS)).astype(np.float32), name)
        for name in ("w", "v")
    ]
    return [*made, numpy_helper.from_array(np.array(0.5, np.float32), "limit")]


def graph(name: str, nodes: list[NodeProto]) -> onnx.GraphProto:
    """A nested graph that gives what its last node makes."""
    return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0], None)])


def model(then: list[NodeProto], other: list[NodeProto]) -> onnx.ModelProto:
    """By the mean of ``h = relu(x)``: the one or the other, both of `h`, and `tanh` of that."""
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("ReduceMean", ["h"], ["m"], keepdims=0),
        helper.make_node("Less", ["m", "limit"], ["c"]),
        helper.make_node(
            "If", ["c"], ["r"], then_branch=graph("then", then), else_branch=graph("other", other)
        ),
        helper.make_node("Tanh", ["r"], ["y"]),
    ]
    dims = [ROWS, COLUMNS]
    made = helper.make_graph(nodes, "g", [value("x", dims)], [value("y", dims)], weights())
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


PRODUCTS = [
    helper.make_node("MatMul", ["h", "w"], ["t0"]),
    helper.make_node("Softmax", ["t0"], ["t1"]),
    helper.make_node("MatMul", ["t1", "v"], ["t2"]),
]
NEGATIVE = [helper.make_node("Neg", ["h"], ["e0"])]


def lowered(onnx_model: onnx.ModelProto) -> tvm.IRModule:
    """The kernels and views of a model."""
    return LowerToTasks()(from_onnx(onnx_model))


def operands(mod: tvm.IRModule) -> dict[str, list[str]]:
    """For each call of a kernel, what it reads that kernels made."""
    main = read_main(mod)
    return {
        call.kernel.name_hint: [
            main.calls[root.call].kernel.name_hint
            for root in map(main.root, call.args)
            if root is not None and root.call is not None
        ]
        for call in main.calls
    }


def placed(onnx_model: onnx.ModelProto) -> tvm.IRModule:
    """The model on two cores, by estimated costs."""
    devices = [
        th.Device(
            f"cpu{core}",
            target={"kind": "llvm", "mcpu": mcpu},
            cores=(core,),
            peak_flops=1e11,
            bandwidth=1e10,
            launch=1e-6,
        )
        for core, mcpu in enumerate(["x86-64-v3", "x86-64-v2"])
    ]
    links = [
        th.Link(a, b, bandwidth=1e10, latency=1e-6) for a, b in (("cpu0", "cpu1"), ("cpu1", "cpu0"))
    ]
    options = PartitionOptions(cost_model="analytical", time_limit=1)
    return partition(
        from_onnx(onnx_model), th.Platform(tuple(devices), tuple(links)), options
    ).module


LOW = {"x": np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)}
HIGH = {"x": 4 * np.abs(LOW["x"])}


def test_what_one_branch_needs_reads_the_condition_and_nothing_else_does() -> None:
    found = operands(lowered(model(PRODUCTS, NEGATIVE)))
    under = {name: reads for name, reads in found.items() if "_if" in name}
    assert len(under) == 3  # both products are one kernel
    assert all(reads[-1] == "fused_mean_less" for reads in under.values())
    assert all("fused_mean_less" not in found[name] for name in ("relu", "tir_tanh"))
    assert found["choose"][0] == "fused_mean_less"


def test_what_both_branches_need_runs_always() -> None:
    shared = helper.make_node("MatMul", ["h", "w"], ["p"])
    made = model([helper.make_node("Neg", ["p"], ["t0"])], [helper.make_node("Abs", ["p"], ["e0"])])
    made.graph.node.insert(1, shared)
    assert "dense" in operands(lowered(made))


def test_a_model_without_choices_is_left_alone() -> None:
    made = model(PRODUCTS, NEGATIVE)
    made.graph.node[3].CopyFrom(helper.make_node("Neg", ["h"], ["r"]))
    assert not any(name.endswith("_if") for name in operands(lowered(made)))


@pytest.mark.parametrize("feeds", [LOW, HIGH], ids=["then", "else"])
def test_it_computes_what_onnxruntime_does(feeds: dict[str, np.ndarray]) -> None:
    made = model(PRODUCTS, NEGATIVE)
    with th.Executor(th.build(placed(made), single=False)) as executor:
        (found,) = executor.run(feeds)
    np.testing.assert_allclose(found.numpy(), run(made, feeds)[0], rtol=1e-5, atol=1e-6)


def look_up() -> list[NodeProto]:
    """Rows of a matrix by numbers that are only rows if the branch is taken."""
    return [
        helper.make_node("ReduceMax", ["h"], ["top"], axes=[1], keepdims=0),
        helper.make_node("Cast", ["top"], ["rows"], to=TensorProto.INT64),
        helper.make_node("Gather", ["w", "rows"], ["t0"]),
    ]


def test_a_branch_that_is_not_taken_raises_no_error() -> None:
    made = model(look_up(), NEGATIVE)
    with th.Executor(th.build(placed(made), single=False)) as executor:
        far = {"x": np.full((ROWS, COLUMNS), 1e6, np.float32)}
        (found,) = executor.run(far)
        np.testing.assert_allclose(found.numpy(), -np.ones((ROWS, COLUMNS)), rtol=1e-6)
        near = {"x": LOW["x"]}
        near["x"][0, 0] = 40.0  # no row of 32, though the mean is still low
        near["x"][1:] = 0.0
        with pytest.raises(HeteroError, match="index 40 is out of bounds"):
            executor.run(near)


def test_branches_within_branches_are_under_both_conditions() -> None:
    inner = [
        helper.make_node("ReduceMax", ["h"], ["peak"], keepdims=0),
        helper.make_node("Greater", ["peak", "limit"], ["d"]),
        helper.make_node(
            "If", ["d"], ["s"], then_branch=graph("deep", look_up()),
            else_branch=graph("flat", [helper.make_node("Abs", ["h"], ["f0"])]),
        ),
    ]  # fmt: skip
    made = model(inner, NEGATIVE)
    found = operands(lowered(made))
    (gather,) = [reads for name, reads in found.items() if "take" in name]
    assert len([name for name in gather if "less" in name or "greater" in name]) == 2
    with th.Executor(th.build(placed(made), single=False)) as executor:
        for feeds in (HIGH, {"x": np.full((ROWS, COLUMNS), 1e6, np.float32)}):
            (found_y,) = executor.run(feeds)
            np.testing.assert_allclose(
                found_y.numpy(), np.tanh(-np.maximum(feeds["x"], 0)), rtol=1e-5, atol=1e-6
            )


def test_kernels_look_at_their_conditions_only_where_they_are_built() -> None:
    mod = lowered(model(PRODUCTS, NEGATIVE))
    name = next(gv for gv in mod.get_global_vars() if gv.name_hint.startswith("softmax_if"))
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
    measured = th.kernels.schedule_kernel(mod[name], target)
    built = th.kernels.schedule_kernel(skip_branches(mod)[name], target)
    assert "condition_0[()]" not in measured.script()
    assert "condition_0[()]" in built.script()
    assert len(measured.params) == len(built.params) == 3


def test_a_kernel_under_a_condition_is_not_batched() -> None:
    mod = lowered(model(PRODUCTS, NEGATIVE))
    name = next(gv for gv in mod.get_global_vars() if gv.name_hint.startswith("softmax_if"))
    with pytest.raises(ValueError, match="under a condition of its own element"):
        batch_kernel(mod[name], 2, ())
