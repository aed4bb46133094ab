"""The axes of a file: dimensions of one symbol move together, what is closed stays closed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.sizes.models import write_attention_net, write_conv_net
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.onnx.load import load_model
from tvm_hetero.sizes.model_files import copy_model, hash_model, model_files
from tvm_hetero.sizes.read_axes import read_axes


def test_dimensions_of_one_symbol_are_one_axis(tmp_path: Path) -> None:
    net = write_attention_net(tmp_path / "net.onnx")
    found = read_axes(net, {"in/x": (1, range(8, 33, 8), 16)})
    assert [axis.text() for axis in found.axes] == ["length: 8..32/8"]
    assert found.shapes == {"in/x": (1, "length", 16), "mask": (1, 1, "length")}
    again = read_axes(net, {"in/x": (1, [8, 16], 16), "mask": (1, 1, [8, 16])})
    assert [axis.text() for axis in again.axes] == ["length: 8,16"]


def test_several_symbols_are_several_axes(tmp_path: Path) -> None:
    net = write_attention_net(tmp_path / "net.onnx")
    found = read_axes(net, {"in/x": (range(1, 5), [8, 16], 16)})
    assert [axis.name for axis in found.axes] == ["batch", "length"]
    assert found.shapes["in/x"] == ("batch", "length", 16)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"in/x": (1, 8, 16)}, "no dimension has several sizes"),
        ({"in/x": (1, [8, 16], 16), "mask": (1, 1, [8, 24])}, "sizes 8,24, and elsewhere 8,16"),
        ({"in/x": (1, [8, 16], [16, 32])}, "a dimension is 16 in the model"),
        ({"in/x": (1, [8, 16])}, r"has 3 dimensions \(\[batch, length, 16\]\), and 2 are given"),
        ({"in/y": (1, [8, 16], 16)}, "'in/y', which is no input"),
        ({"mask": (1, 1, [8, 16])}, "dimension batch is open; give a shape for this input too"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(tmp_path: Path, shapes: dict, words: str) -> None:
    net = write_attention_net(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match=words):
        read_axes(net, shapes)


def test_the_files_of_a_model_are_known_by_their_hashes(tmp_path: Path) -> None:
    net = write_conv_net(tmp_path / "net.onnx")
    assert model_files(net) == ["net.onnx"]
    assert list(hash_model(net)) == ["model/net.onnx"]


def test_weights_in_other_files_are_copied_with_the_model(tmp_path: Path) -> None:
    net = write_conv_net(tmp_path / "net.onnx")
    onnx.save_model(
        onnx.load(net), tmp_path / "large.onnx", save_as_external_data=True,
        location="large.weights", size_threshold=0,
    )  # fmt: skip
    assert model_files(tmp_path / "large.onnx") == ["large.onnx", "large.weights"]
    copy_model(tmp_path / "large.onnx", tmp_path / "folder")
    found = load_model(tmp_path / "folder/model/large.onnx", shapes={"x": (1, 3, 8, 16)})
    assert sorted(t.name for t in found.graph.initializer) == ["w0", "w1", "w2", "w3"]


def test_weights_outside_of_the_models_folder_are_not_copied(tmp_path: Path) -> None:
    model = onnx.load(write_conv_net(tmp_path / "net.onnx"))
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], "../secret")
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"outside of the model's folder: '\.\./secret'"):
        model_files(tmp_path / "net.onnx")
