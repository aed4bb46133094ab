"""Networks by name: what is open of a shape is fixed in the model itself."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from benchmarks.execution.networks import FULL_SIZE, NETWORKS, with_shapes
from benchmarks.precision import _rows_of_others
from tvm_hetero.frontends.onnx import from_onnx


def test_open_dimensions_are_fixed_in_the_model() -> None:
    rows = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 4]), ("w", [4, 2]), ("y", ["n", 2]))
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", rows[:2], rows[2:]
    )
    fixed = with_shapes(helper.make_model(graph), {"x": (3, 4)})
    sizes = [[dim.dim_value for dim in row.type.tensor_type.shape.dim] for row in fixed.graph.input]
    assert sizes == [[3, 4], [4, 2]]
    onnx.checker.check_model(fixed)
    assert [int(size) for size in from_onnx(fixed)["main"].params[0].ty.shape] == [3, 4]


def test_the_networks_of_the_goals_are_there() -> None:
    assert set(FULL_SIZE) < set(NETWORKS)
    assert {
        "mobilenet_v2",
        "mobilenet_v3",
        "vit_small",
        "bert_base",
        "ppocr_rec",
        "yolov8n",
    } == set(FULL_SIZE)


def test_rows_of_others_say_when_they_were_measured(tmp_path) -> None:
    path = tmp_path / "precision.json"
    rows = '[{"model": "a"}, {"model": "b", "commit": "new"}, {"model": "c"}]'
    path.write_text('{"commit": "old", "date": "2026-01-01", "rows": ' + rows + "}", "utf-8")
    assert _rows_of_others(path, ["c"]) == [
        {"commit": "old", "date": "2026-01-01", "model": "a"},
        {"commit": "new", "date": "2026-01-01", "model": "b"},
    ]
