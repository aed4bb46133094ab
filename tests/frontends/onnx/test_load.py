"""Everything that is no sound model is refused with a ModelError that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.draws import draws
from tests.frontends.onnx.models import conv_relu, make, random_feeds, run, value
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import OnnxLimits, check_model, light_models, load_model, simplify


def save(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_a_sound_model_is_loaded_whole(tmp_path: Path) -> None:
    model = conv_relu()
    loaded = load_model(save(model, tmp_path))
    feeds = random_feeds(model)
    assert np.array_equal(run(loaded, feeds)[0], run(model, feeds)[0])


def test_all_light_models_are_there_and_load() -> None:
    models = light_models()
    assert len(models) == 9
    assert list(models) == sorted(models)
    for path in models.values():
        assert load_model(path).graph.node


# ---- the file -------------------------------------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Cannot open .*nothing\.onnx.*No such file"):
        load_model(tmp_path / "nothing.onnx")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder"):
        load_model(tmp_path)


def test_named_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(ModelError, match="no plain file"):
        load_model(tmp_path / "pipe.onnx")


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ModelError, match="is empty"):
        load_model(tmp_path / "model.onnx")


@pytest.mark.parametrize("content", [b"just some text\n", b"\x89PNG\r\n\x1a\n" * 20, b"\0" * 100])
def test_not_an_onnx_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ModelError, match="ONNX"):
        load_model(tmp_path / "model.onnx")


def test_file_over_the_limit(tmp_path: Path) -> None:
    path = save(conv_relu(), tmp_path)
    with pytest.raises(ModelError, match="at most 100 are accepted"):
        load_model(path, limits=OnnxLimits(file_bytes=100))


def test_truncated_anywhere(tmp_path: Path) -> None:
    data = conv_relu().SerializeToString()
    path = tmp_path / "model.onnx"
    loaded = []
    for length in range(len(data)):
        path.write_bytes(data[:length])
        try:
            load_model(path)
        except ModelError as error:
            assert str(error)
        else:
            loaded.append(length)
    # The opset comes last in the file: without it nothing is taken for whole.
    assert loaded == []


@settings(max_examples=draws(60), deadline=None)
@given(st.data())
def test_damaged_anywhere(data: st.DataObject) -> None:
    content = bytearray(conv_relu().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(content))
    except Exception:
        return
    try:
        simplified = simplify(check_model(model))
    except ModelError as error:
        assert str(error).isprintable()
    else:
        onnx.checker.check_model(simplified)


# ---- the structure --------------------------------------------------------------------------


def _no_opset(m: onnx.ModelProto) -> None:
    del m.opset_import[:]


def _opset(version: int) -> Callable[[onnx.ModelProto], None]:
    def change(m: onnx.ModelProto) -> None:
        m.opset_import[0].version = version

    return change


def _no_nodes(m: onnx.ModelProto) -> None:
    del m.graph.node[:]


def _made_twice(m: onnx.ModelProto) -> None:
    m.graph.node[1].output[0] = "c"


def _input_remade(m: onnx.ModelProto) -> None:
    m.graph.node[1].output[0] = "x"


def _two_initializers(m: onnx.ModelProto) -> None:
    m.graph.initializer.append(m.graph.initializer[0])


def _unknown_value(m: onnx.ModelProto) -> None:
    m.graph.node[1].input[0] = "nowhere"


def _no_such_output(m: onnx.ModelProto) -> None:
    m.graph.output[0].name = "nowhere"


def _negative_weight(m: onnx.ModelProto) -> None:
    m.graph.initializer[0].dims[0] = -4


def _huge_weight(m: onnx.ModelProto) -> None:
    m.graph.initializer[0].dims[:] = [2**32, 2**31, 1]


def _huge_but_empty(m: onnx.ModelProto) -> None:
    m.graph.initializer[0].dims[:] = [2**62, 0, 2**62]


def _short_weight(m: onnx.ModelProto) -> None:
    m.graph.initializer[0].raw_data = m.graph.initializer[0].raw_data[:-4]


def _unknown_type(m: onnx.ModelProto) -> None:
    m.graph.initializer[0].data_type = 99


def _negative_input(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1


def _zero_input(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0


def _huge_input(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2**61


def _huge_inside(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2**57 - 1
    m.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    m.graph.initializer[0].dims[:] = [12, 1, 3, 3]
    del m.graph.node[0].input[2]


def _wrong_rank(m: onnx.ModelProto) -> None:
    del m.graph.input[0].type.tensor_type.shape.dim[1:]


def _text_input(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING


def _no_such_operator(m: onnx.ModelProto) -> None:
    m.graph.node[1].op_type = "Relux"


def _refers(m: onnx.ModelProto) -> None:
    body = m.graph.node[1].attribute.add(name="body", type=onnx.AttributeProto.GRAPH)
    node = body.g.node.add(op_type="Relu")
    node.attribute.add(name="a", type=onnx.AttributeProto.INT, ref_attr_name="of_the_call")


def _sparse(m: onnx.ModelProto) -> None:
    m.graph.sparse_initializer.add()


BAD = [
    (_refers, r"node 1 'second' .*: the attribute 'a' refers to 'of_the_call', .* is in none"),
    (_no_opset, "names no version of the default operator set"),
    (_opset(99), "opset 99 .* are taken"),
    (_no_nodes, "has 0 nodes"),
    (_made_twice, r"node 1 'second' \(Relu\) makes 'c', .* by node 0 'first' \(Conv\)"),
    (_input_remade, "makes 'x', which is already made by an input"),
    (_two_initializers, "Two initializers share a name"),
    (_unknown_value, "nowhere"),
    (_no_such_output, "'nowhere'"),
    (_negative_weight, r"initializer 'w' has the shape -4x3x3x3; .* negative"),
    (_huge_weight, r"initializer 'w' .* more than 2\*\*63 - 1 elements"),
    (_huge_but_empty, r"more than 2\*\*63 - 1 elements"),
    (_short_weight, "initializer 'w' .* 432 bytes of data, but brings 428"),
    (_unknown_type, "element type number 99"),
    (_negative_input, r"'x' \[\?, 3, 8, 8\].* --shape x=1x3x8x8 "),
    (_zero_input, r"'x' \[\?, 3, 8, 8\].* --shape x=1x3x8x8 "),
    (_huge_input, r"input 'x' .* more than 2\*\*63 - 1"),
    (_huge_inside, r"value 'c' .* more than 2\*\*63 - 1"),
    (_wrong_rank, "onnx finds the model invalid"),
    (_text_input, "input 'x' is no numeric tensor"),
    (_no_such_operator, r"node 1 'second' \(Relux\) is no operator of ONNX in opset 13"),
    (_sparse, "sparse weights"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=lambda p: getattr(p, "__name__", ""))
def test_bad_structure(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None], message: str
) -> None:
    model = conv_relu()
    change(model)
    with pytest.raises(ModelError, match=message):
        load_model(save(model, tmp_path))


def test_intermediate_values_of_impossible_size() -> None:
    grow = [helper.make_node("Concat", [f"v{i}"] * 1024, [f"v{i + 1}"], axis=0) for i in range(6)]
    model = make(grow, {"v0": [2**10]}, ["v6"])
    # With onnx's data propagation this takes minutes and all memory before it fails.
    with pytest.raises(ModelError, match=r"more than 2\*\*63|onnx finds the model invalid"):
        check_model(model)


def test_too_many_nodes() -> None:
    with pytest.raises(ModelError, match="2 nodes; at most 1 are accepted"):
        check_model(conv_relu(), limits=OnnxLimits(nodes=1))


def test_too_many_weights_are_refused_before_they_are_made() -> None:
    """A hundred bytes that ask for a petabyte."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["big"]),
        helper.make_node("Add", ["x", "big"], ["y"]),
    ]
    model = make(nodes, {"x": [1]}, ["y"], {"shape": np.array([2**25, 2**25], np.int64)})
    with pytest.raises(ModelError, match="constants take 4503599627370496 bytes"):
        simplify(check_model(model))


def test_names_are_shown_harmless() -> None:
    model = conv_relu()
    model.graph.node[1].op_type = "Relux"
    model.graph.node[1].name = "\x1b[31m\u202eevil\n" + "a" * 10_000
    with pytest.raises(ModelError) as caught:
        check_model(model)
    text = str(caught.value)
    assert text.isprintable()
    assert "\\x1b[31m\\u202eevil\\n" in text
    assert len(text) < 400


def test_a_model_is_loaded_without_tvm() -> None:
    """What is wrong with a file or with shapes is said before TVM is loaded."""
    loads = "import sys, tvm_hetero.frontends.onnx.load; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loads], check=False).returncode == 0


def test_the_given_model_is_not_changed() -> None:
    model = conv_relu("N")
    before = model.SerializeToString(deterministic=True)
    check_model(model, shapes={"x": (2, 3, 8, 8)})
    assert model.SerializeToString(deterministic=True) == before


# ---- shapes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", ["batch", None])
def test_dynamic_dimension_needs_a_shape(dim: str | None) -> None:
    with pytest.raises(ModelError, match=r"--shape x=1x3x8x8 .* shapes=\{'x': \(1, 3, 8, 8\)\}"):
        check_model(conv_relu(dim))


def test_a_shape_closes_a_dynamic_dimension() -> None:
    model = check_model(conv_relu("batch"), shapes={"x": (5, 3, 8, 8)})
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in dims] == [5, 3, 8, 8]
    assert run(model, random_feeds(model))[0].shape == (5, 4, 8, 8)


def test_a_symbol_is_bound_everywhere() -> None:
    model = make(
        [helper.make_node("Add", ["left", "right"], ["y"])],
        {"left": ["n", 4], "right": ["n", 4]},
        ["y"],
    )
    bound = check_model(model, shapes={"left": (7, 4)})
    assert bound.graph.input[1].type.tensor_type.shape.dim[0].dim_value == 7
    with pytest.raises(ModelError, match=r"Dimension 0 of input 'right' .* is 7"):
        check_model(model, shapes={"left": (7, 4), "right": (8, 4)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"X": (1, 3, 8, 8)}, "'X', which is no input .*; known: x"),
        ({"x": (3, 8, 8)}, "4 dimensions .*, but the shape given has 3"),
        (
            {"x": (1, 5, 8, 8)},
            r"Dimension 1 of input 'x' \(\[batch, 3, 8, 8\]\) is 3 .* 5 was",
        ),
        ({"x": (-1, 3, 8, 8)}, "negative"),
    ],
)
def test_wrong_shapes(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_model(conv_relu("batch"), shapes=shapes)


def test_the_nearest_name_is_suggested() -> None:
    model = make([helper.make_node("Relu", ["data_0"], ["y"])], {"data_0": ["n"]}, ["y"])
    with pytest.raises(ModelError, match=r"did you mean 'data_0'\?"):
        check_model(model, shapes={"data0": (3,)})


def test_unknown_rank_takes_a_shape() -> None:
    model = make([helper.make_node("Relu", ["x"], ["y"])], {"x": None}, ["y"])
    with pytest.raises(ModelError, match="unknown rank"):
        check_model(model)
    given_shape = check_model(model, shapes={"x": (2, 3)})
    assert [d.dim_value for d in given_shape.graph.input[0].type.tensor_type.shape.dim] == [2, 3]


def test_initializers_listed_as_inputs_are_none() -> None:
    """As in ir_version 3, which the models of the onnx wheel have."""
    model = conv_relu()
    model.ir_version = 3
    model.graph.input.append(value("w", [4, 3, 3, 3]))
    model.graph.input.append(value("b", [4]))
    assert [i.name for i in simplify(check_model(model)).graph.input] == ["x"]


def test_external_data_needs_a_file() -> None:
    model = conv_relu()
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), "w"))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    with pytest.raises(ModelError, match="Give the path of the model"):
        check_model(model)


def test_a_file_that_opens_and_cannot_be_read_is_refused() -> None:
    with pytest.raises(ModelError, match=r"/proc/self/mem': Input/output error"):
        load_model("/proc/self/mem")


def test_text_that_is_none_is_refused() -> None:
    """It was a fault of ours: UnicodeDecodeError."""
    node = helper.make_node("Constant", [], ["y"])
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(
        helper.make_tensor("t", TensorProto.STRING, [2], [b"plain", b"\xff"])
    )
    with pytest.raises(ModelError, match="text that is not UTF-8"):
        check_model(make([node], {"x": [2]}, ["y"]))
