"""External data: read from the model's folder, and from nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.frontends.onnx.models import conv_relu, random_feeds, run
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import OnnxLimits, load_model

WEIGHT_BYTES = 4 * 3 * 3 * 3 * 4


def externalized(location: str, **entries: str) -> onnx.ModelProto:
    """Return conv_relu with its weight said to be at `location`."""
    model = conv_relu()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    return model


def place(folder: Path, location: str, **entries: str) -> Path:
    """Save that model in a folder of its own below `folder`; return its path."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    path = home / "model.onnx"
    path.write_bytes(externalized(location, **entries).SerializeToString())
    return path


def weights() -> bytes:
    return bytes(conv_relu().graph.initializer[0].raw_data)


@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin", "./w.bin"])
@pytest.mark.parametrize("offset", [0, 64])
def test_data_in_the_folder_is_read(tmp_path: Path, location: str, offset: int) -> None:
    path = place(tmp_path, location, offset=str(offset), length=str(WEIGHT_BYTES))
    file = path.parent / location
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"\xff" * offset + weights() + b"more")
    loaded = load_model(path)
    feeds = random_feeds(loaded)
    assert np.array_equal(run(loaded, feeds)[0], run(conv_relu(), feeds)[0])
    assert not any(t.external_data for t in loaded.graph.initializer)


@pytest.mark.parametrize(
    "location",
    ["../w.bin", "sub/../../w.bin", "/etc/passwd", "", ".", "..", "sub//w.bin", "sub/",
     "C:\\w.bin", "..\\w.bin", "file://w.bin", "w.bin\0"],
)  # fmt: skip
def test_other_places_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(weights())
    path = place(tmp_path, location)
    (path.parent / "sub").mkdir()
    with pytest.raises(ModelError, match=r"initializer 'w' keeps its data in .* own folder"):
        load_model(path)


def test_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(weights())
    path = place(tmp_path, "w.bin")
    (path.parent / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match="symbolic link"):
        load_model(path)


def test_symbolic_link_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "w.bin").write_bytes(weights())
    path = place(tmp_path, "sub/w.bin")
    (path.parent / "sub").symlink_to(tmp_path / "other")
    with pytest.raises(ModelError, match="symbolic link"):
        load_model(path)


def test_hard_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(weights())
    path = place(tmp_path, "w.bin")
    os.link(tmp_path / "secret", path.parent / "w.bin")
    with pytest.raises(ModelError, match="has 2 hard links"):
        load_model(path)


def test_named_pipe_and_folder(tmp_path: Path) -> None:
    path = place(tmp_path, "w.bin")
    os.mkfifo(path.parent / "w.bin")
    with pytest.raises(ModelError, match="not a plain file"):
        load_model(path)
    path = place(tmp_path, "sub")
    (path.parent / "sub").mkdir()
    with pytest.raises(ModelError, match="not a plain file"):
        load_model(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'w\.bin', which does not exist"):
        load_model(place(tmp_path, "w.bin"))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, rf"bytes 0 to {WEIGHT_BYTES} .* has only {WEIGHT_BYTES - 1}"),
        ({"offset": "999999"}, "has only"),
        ({"offset": "9223372036854775807"}, "has only"),
        ({"offset": "-1"}, "offset '-1'; a non-negative whole number was expected"),
        ({"offset": "1e3"}, "non-negative whole number"),
        ({"offset": "9" * 5000}, "non-negative whole number"),
        ({"length": "8"}, f"needs {WEIGHT_BYTES} bytes .* states a length of 8"),
        ({"colour": "red"}, "unknown or repeated keys .* 'colour'"),
    ],
)
def test_wrong_extent(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    path = place(tmp_path, "w.bin", **entries)
    (path.parent / "w.bin").write_bytes(weights()[:-1])
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_size_is_capped_before_reading(tmp_path: Path) -> None:
    path = place(tmp_path, "w.bin")
    with pytest.raises(ModelError, match="at most 100 are accepted"):
        load_model(path, limits=OnnxLimits(weight_bytes=100))


def test_data_of_a_constant_node_is_treated_alike(tmp_path: Path) -> None:
    model = conv_relu()
    node = model.graph.node.add(op_type="Constant", output=["unused"])
    tensor = TensorProto(name="t", dims=[1], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    node.attribute.append(onnx.helper.make_attribute("value", tensor))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"attribute 'value' of node 2 .*own folder"):
        load_model(path)
