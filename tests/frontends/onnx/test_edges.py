"""Outputs that nothing computes, and tensors of nothing: they run as in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_hetero as th
from tests.frontends.onnx.models import conv_relu, run, value
from tvm_hetero.frontends.onnx import check_model, from_onnx
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.problem.objective_kinds import Objective

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
CPU = th.Platform(
    (
        th.Device(
            "cpu", target={"kind": "llvm"}, cores=(0,), peak_flops=1e11, bandwidth=1e10, launch=1e-6
        ),
    )
)
FEEDS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2,
    "none": np.zeros((0, 3), np.float32),
    "unused": np.array([1, 2]),
}
CONSTANTS = {
    "table": np.array([1, 2**40]),
    "flag": np.array(True),
    "shape": np.array([3, 2]),
    "no_rows": np.array([0, 4]),
    "first": np.array([0]),
    "pieces": np.array([0, 2, 0]),
}
Node = tuple[str, list[str], list[str]]

VIEWS: list[Node] = [
    ("Identity", ["x"], ["same"]),
    ("Identity", ["x"], ["same_again"]),
    ("Reshape", ["x", "shape"], ["reshaped"]),
    ("Flatten", ["x"], ["flat"]),
]
CONSTANT: list[Node] = [
    ("Identity", ["table"], ["constant"]),
    ("Identity", ["table"], ["constant_again"]),
    ("Identity", ["flag"], ["scalar"]),
    ("ConstantOfShape", ["no_rows"], ["empty"]),
    ("Shape", ["x"], ["dims"]),
    ("ReduceSum", ["none", "first"], ["sum_of_none"]),
    ("Relu", ["none"], ["relu_of_none"]),
]
BOTH: list[Node] = [
    ("Relu", ["x"], ["relu"]),
    ("Identity", ["relu"], ["relu_again"]),
    ("Reshape", ["relu", "shape"], ["relu_reshaped"]),
    ("Concat", ["none", "x"], ["joined"]),
    ("Neg", ["joined"], ["negative"]),
    ("Split", ["x", "pieces"], ["piece0", "piece1", "piece2"]),
    *VIEWS,
    *CONSTANT,
]
TYPES = {"constant": INT64, "constant_again": INT64, "scalar": BOOL, "dims": INT64}


def model_of(nodes: Sequence[Node], passed: Sequence[str] = ()) -> onnx.ModelProto:
    """The model of these nodes, of which every value is an output, and so are those `passed`."""
    made = [
        helper.make_node(operator, inputs, outputs, **({"axis": 0} if operator == "Concat" else {}))
        for operator, inputs, outputs in nodes
    ]
    names = [name for _, _, outputs in nodes for name in outputs]
    graph = helper.make_graph(
        made,
        "edges",
        [
            value(name, a.shape, INT64 if a.dtype == np.int64 else FLOAT)
            for name, a in FEEDS.items()
        ],
        [value(name, None, TYPES.get(name, FLOAT)) for name in [*names, *passed]],
        [onnx.numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()],
    )
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(
    ("nodes", "passed"), [(BOTH, ["x", "none"]), (VIEWS, ["none"]), (CONSTANT, [])]
)
def test_what_no_kernel_makes_is_an_output_all_the_same(
    nodes: list[Node], passed: list[str]
) -> None:
    model = model_of(nodes, passed)
    placed = partition(from_onnx(model), CPU, PartitionOptions(cost_model="analytical"))
    expected = run(model, FEEDS)
    with th.Executor(th.build(placed.module, single=False)) as executor:
        for outputs in (executor.run(FEEDS), executor.run(FEEDS)):
            for ours, theirs in zip(outputs, expected, strict=True):
                np.testing.assert_array_equal(ours.numpy(), theirs, strict=True)


def test_each_element_of_a_batch_has_its_constants() -> None:
    model = model_of([("Relu", ["x"], ["relu"]), ("Identity", ["table"], ["constant"])])
    options = PartitionOptions(
        cost_model="analytical", objective=Objective(kind="throughput", batch=2)
    )
    placed = partition(from_onnx(model), CPU, options)
    elements = [FEEDS, {**FEEDS, "x": -FEEDS["x"]}]
    with th.Executor(th.build(placed.module, single=False)) as executor:
        relu, constant = executor.run(elements)
    for i, feeds in enumerate(elements):
        np.testing.assert_array_equal(relu.numpy()[i], run(model, feeds)[0])
        np.testing.assert_array_equal(constant.numpy()[i], CONSTANTS["table"])


def test_a_model_with_kernels_for_all_outputs_gets_no_copies() -> None:
    from tvm_hetero.passes.lower_to_tasks import LowerToTasks

    module = LowerToTasks()(from_onnx(model_of([("Relu", ["x"], ["relu"])], ["x"])))
    assert [v.name_hint for v in module.get_global_vars() if "copy" in v.name_hint] == []


def test_a_question_mark_is_no_symbol_that_binds_two_dimensions() -> None:
    model = conv_relu()
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = "?"
    loaded = check_model(model, shapes={"x": (1, 3, 8, 6)})
    dims = loaded.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in dims] == [1, 3, 8, 6]
