"""Models that onnx or TVM do not survive are refused by the node; memory is counted first."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tests.descriptors import descriptors_left, open_descriptors
from tvm_hetero.errors import FormatError, ModelError
from tvm_hetero.frontends.onnx import OnnxLimits, from_onnx, light_models, load_model, simplify
from tvm_hetero.frontends.onnx import importer as importer_module
from tvm_hetero.frontends.onnx import load as load_module
from tvm_hetero.frontends.onnx.model.isolation import run_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, MADE_BYTES
from tvm_hetero.frontends.onnx.model.model_answer import (
    large_tensors,
    pack_model,
    unchanged,
    unpack_model,
)
from tvm_hetero.frontends.onnx.model.native_calls import INFERENCE, call_native
from tvm_hetero.processes import forked_call


def _model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any] | None = None,
    opset: int = 18,
    output: str = "y",
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "m",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_a_crash_of_shape_inference_names_the_node() -> None:
    """Split with two outputs and num_outputs=1 aborts onnx 1.22's shape inference."""
    nodes = [helper.make_node("Relu", ["x"], ["r0"])]
    nodes += [helper.make_node("Relu", [f"r{i}"], [f"r{i + 1}"]) for i in range(5)]
    nodes.append(helper.make_node("Split", ["r5"], ["y", "z"], name="bad", num_outputs=1, axis=1))
    nodes.append(helper.make_node("Relu", ["z"], ["q"]))
    with pytest.raises(ModelError, match=r"node 6 'bad' \(Split\).*shape inference.*SIGABRT"):
        from_onnx(_model(nodes))


def test_a_crash_of_the_importer_names_the_node() -> None:
    """'' among the operands of Concat is a null pointer to TVM."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Concat", ["a", "", "x"], ["y"], name="gap", axis=0),
    ]
    with pytest.raises(ModelError, match=r"'gap' \(Concat\).*TVM's importer.*SIGSEGV"):
        from_onnx(_model(nodes))


def test_what_native_code_dies_of_is_found_by_bisection() -> None:
    nodes = [helper.make_node("Relu", ["x"], [f"y{i}"]) for i in range(40)]
    nodes[23].op_type = "Neg"
    model = _model(nodes, output="y0")

    def native(part: onnx.ModelProto) -> None:
        if any(node.op_type == "Neg" for node in part.graph.node):
            os.abort()

    def work() -> list[bytes]:
        call_native(INFERENCE, model, native)
        return []

    with pytest.raises(ModelError, match=r"node 23 \(Neg\).*SIGABRT"):
        run_isolated(work, model, DEFAULT_LIMITS)


@pytest.mark.parametrize(("values", "children"), [(None, 1), ({"i": 0}, 2)])
def test_a_model_is_checked_and_imported_by_one_child(
    values: dict[str, Any] | None, children: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two where values are given: what they make is known to the second one's limits only."""
    forked: list[int] = []
    fork = forked_call._fork

    def counted(children: list[int]) -> None:
        forked.append(1)
        fork(children)

    monkeypatch.setattr(forked_call, "_fork", counted)
    model = _model([helper.make_node("Gather", ["x", "i"], ["y"])])
    model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, []))
    module = from_onnx(model, values=values)
    assert len(module["main"].params) == 2 - len(values or {})
    assert len(forked) == children


@pytest.mark.parametrize("weights", [None, 0])
def test_a_module_comes_back_as_it_was_made(
    weights: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = light_models()["squeezenet"]
    found = from_onnx(path, random_weights=weights)
    for module in (importer_module, load_module):
        monkeypatch.setattr(module, "is_isolated", lambda: True)
    tvm.ir.assert_structural_equal(found, from_onnx(path, random_weights=weights))


def test_weights_of_the_file_come_back_by_their_names() -> None:
    """Of any type, large and small, and of a model that is changed on the way."""
    table = np.arange(4000).reshape(2000, 2)
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"])]
    model = _model(nodes, {"t": table.astype(np.float32), "i": np.array([3, 5])})
    unused = numpy_helper.from_array(table.astype(np.float16), "h")
    model.graph.initializer.append(unused)
    before = large_tensors(model)
    assert sorted(before) == ["h", "t"]
    child = onnx.ModelProto()
    child.CopyFrom(model)
    child.graph.node[0].name = "changed"
    held = large_tensors(child)
    del child.graph.initializer[2]  # h
    unpack_model(pack_model(child, unchanged(child, held)), model)
    assert model.graph.node[0].name == "changed"
    assert sorted(t.name for t in model.graph.initializer) == ["i", "t"]
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    assert np.array_equal(arrays["t"], table) and np.array_equal(arrays["i"], [3, 5])


def test_weights_that_are_not_there_are_noticed() -> None:
    model = _model([helper.make_node("Relu", ["x"], ["y"])])
    with pytest.raises(ModelError, match="lost weights"):
        unpack_model([model.SerializeToString(), (1).to_bytes(8, "little"), b"gone"], model)


def test_a_constant_that_doubles_is_refused_before_it_is_large() -> None:
    nodes = [helper.make_node("Concat", [f"c{i}"] * 2, [f"c{i + 1}"], axis=0) for i in range(40)]
    nodes.append(helper.make_node("ReduceSum", ["c40"], ["s"]))
    nodes.append(helper.make_node("Add", ["x", "s"], ["y"]))
    model = _model(nodes, {"c0": np.ones(3, np.float32)})
    with pytest.raises(ModelError, match=r"\(Concat\) would make \d+ bytes"):
        from_onnx(model, limits=OnnxLimits(made_bytes=1 << 20))


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("Neg", ["big"], ["y"]),
        helper.make_node("Expand", ["one", "dims"], ["y"]),
        helper.make_node("Tile", ["one", "dims"], ["y"]),
        helper.make_node("Cast", ["big"], ["y"], to=TensorProto.DOUBLE),
        helper.make_node("Add", ["x", "big"], ["y"]),
        helper.make_node("EyeLike", ["big"], ["y"]),
    ],
    ids=lambda node: node.op_type,
)
def test_large_results_of_small_files_are_paid_for(node: onnx.NodeProto) -> None:
    """2000 x 3000 float32 are 24 MB; what repeats one element takes none until it is used."""
    nodes = [helper.make_node("ConstantOfShape", ["dims"], ["big"]), node]
    constants = {"dims": np.array([2000, 3000]), "one": np.ones((1, 1), np.float32)}
    model = _model(nodes, constants)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3000
    if node.op_type == "Cast":
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(ModelError, match=r"would make \d+ bytes of constants"):
        from_onnx(model, limits=OnnxLimits(made_bytes=1 << 20))
    from_onnx(model, limits=OnnxLimits(made_bytes=1 << 27))


def test_what_a_file_brings_may_be_made_again() -> None:
    """Eight times: transposing a weight is no bomb, whatever the limit for small files."""
    weight = np.ones((600, 3), np.float32)
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    module = from_onnx(_model(nodes, {"w": weight}), limits=OnnxLimits(made_bytes=0))
    assert len(module["main"].params) == 1


def test_public_rewrites_are_isolated_too() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Identity", ["r"], ["y"])]
    model = _model(nodes, {"unused": np.ones(5000, np.float32)})
    simple = simplify(model)
    assert [node.op_type for node in simple.graph.node] == ["Relu"]
    assert not simple.graph.initializer and len(model.graph.node) == 2


def test_a_file_is_loaded_with_its_weights(tmp_path: Any) -> None:
    weight = np.random.default_rng(0).standard_normal((3, 700)).astype(np.float32)
    model = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weight})
    onnx.save(model, tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    assert np.array_equal(numpy_helper.to_array(loaded.graph.initializer[0]), weight)
    assert [d.dim_value for d in loaded.graph.output[0].type.tensor_type.shape.dim] == [2, 700]


def test_a_refusal_for_size_is_followed_by_advice_that_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment, which every verb obeys: it is read when a model is."""
    nodes = [
        helper.make_node("ConstantOfShape", ["dims"], ["big"]),
        helper.make_node("Neg", ["big"], ["large"]),
        helper.make_node("ReduceMax", ["large"], ["one"], keepdims=0),
        helper.make_node("Add", ["x", "one"], ["y"]),
    ]
    model = _model(nodes, {"dims": np.array([2000, 3000])})
    monkeypatch.setenv(MADE_BYTES, "1MiB")
    with pytest.raises(ModelError, match=f"set {MADE_BYTES} in the environment"):
        from_onnx(model)
    monkeypatch.setenv(MADE_BYTES, "0.2 GB")
    from_onnx(model, limits=OnnxLimits())
    monkeypatch.setenv(MADE_BYTES, "much")
    assert OnnxLimits() == DEFAULT_LIMITS  # nor does an import of this package fail
    with pytest.raises(FormatError, match=f"{MADE_BYTES}: .*much"):
        from_onnx(model)


def _large_weights() -> onnx.ModelProto:
    """One weight comes back in a file, one is sent."""
    rng = np.random.default_rng(0)
    weights = {f"w{n}": rng.standard_normal((3, n)).astype(np.float32) for n in (900, 30_000)}
    nodes = [helper.make_node("MatMul", ["x", name], [f"{name}_y"]) for name in weights]
    model = _model(nodes, weights, output="w900_y")
    model.graph.output.add(name="w30000_y").type.CopyFrom(model.graph.output[0].type)
    return model


def test_an_imported_model_that_is_kept_holds_no_descriptor() -> None:
    """It held one for each file of its weights, up to 48, and one for what was sent."""
    model = _large_weights()
    from_onnx(model)
    before = open_descriptors()
    kept = [from_onnx(model) for _ in range(3)]
    assert len(kept) == 3
    assert open_descriptors() <= before


@pytest.mark.parametrize("more", [20, 49, 99])
def test_a_model_is_imported_where_few_files_may_be_open(more: int) -> None:
    """Files of weights took all but the last few, and the child "did not survive" the model."""
    model = _large_weights()
    from_onnx(model)
    with descriptors_left(more):
        assert [name.name_hint for name in from_onnx(model).functions] == ["main"]
