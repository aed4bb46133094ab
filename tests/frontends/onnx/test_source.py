from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.onnx.models import make, run, value
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.onnx import OnnxLimits, from_onnx, importer
from tvm_hetero.frontends.onnx.source import imported_model, source_model
from tvm_hetero.passes.attributes import SOURCE


@pytest.mark.parametrize(
    "factor",
    [
        3,
        [[2, 3], [4, 5]],
        np.array([[1, 2]], np.int64),
        [np.int64(2), np.int64(3)],
        [np.array([2, 3]), np.array([4, 5])],
        range(1, 3),
    ],
)
def test_the_model_is_found_again_with_its_values(tmp_path: Path, factor: object) -> None:
    nodes = [
        helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    model = make(nodes, {"x": [2, 2]}, ["y"])
    model.graph.input.append(value("k", [] if isinstance(factor, int) else None, TensorProto.INT64))
    file, values = tmp_path / "net.onnx", {"k": factor}
    onnx.save(model, file)
    module = from_onnx(file, values=values)
    found = source_model(json.loads(module["main"].attrs[SOURCE]))
    assert [i.name for i in found.graph.input] == ["x", "k"]
    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(run(found, {"x": x})[0], np.broadcast_to(factor, (2, 2)))
    np.testing.assert_array_equal(numpy_helper.to_array(found.graph.initializer[-1]), factor)


def note_of(module: object) -> dict[str, object]:
    return json.loads(module["main"].attrs[SOURCE])  # type: ignore[index]


def scaled(path: Path, factor: float, *, external: bool = False) -> Path:
    """A file of ``y = x * factor``."""
    constants = {"f": np.full((2, 2), factor, np.float32)}
    model = make([helper.make_node("Mul", ["x", "f"], ["y"])], {"x": [2, 2]}, ["y"], constants)
    how = {"save_as_external_data": True, "location": "weights", "size_threshold": 0}
    onnx.save(model, path, **(how if external else {}))
    return path


def test_seeds_of_numpy_are_noted(tmp_path: Path) -> None:
    file = scaled(tmp_path / "net.onnx", 2.0)
    module = from_onnx(file, random_weights=np.int64(7))  # type: ignore[arg-type]
    assert imported_model(note_of(module)) == imported_model(
        note_of(from_onnx(file, random_weights=7))
    )


def test_what_was_read_is_noted_and_not_what_lies_there_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, read = scaled(tmp_path / "net.onnx", 2.0), importer.read_model

    def read_and_change(*given: object) -> onnx.ModelProto:
        model = read(*given)  # type: ignore[arg-type]
        scaled(file, 3.0)
        return model

    monkeypatch.setattr(importer, "read_model", read_and_change)
    with pytest.raises(UsageError, match="has changed since it was imported"):
        imported_model(note_of(from_onnx(file)))


def test_weights_in_other_files_are_the_model_too(tmp_path: Path) -> None:
    file = scaled(tmp_path / "net.onnx", 2.0, external=True)
    note = note_of(from_onnx(file))
    assert numpy_helper.to_array(imported_model(note).graph.initializer[0])[0, 0] == 2
    (tmp_path / "weights").write_bytes(np.full(4, 3.0, np.float32).tobytes())
    with pytest.raises(UsageError, match="has changed since it was imported"):
        imported_model(note)
    (tmp_path / "weights").unlink()
    with pytest.raises(UsageError, match="has changed since it was imported"):
        source_model(note)


def test_the_limits_of_the_import_are_those_of_the_next(tmp_path: Path) -> None:
    file = scaled(tmp_path / "net.onnx", 2.0)
    five = np.int64(5)  # as JSON has none of
    note = note_of(from_onnx(file, limits=OnnxLimits(nodes=five)))  # type: ignore[arg-type]
    assert note["limits"]["nodes"] == 5 and "limits" not in note_of(from_onnx(file))  # type: ignore[index]
    note["limits"] = {"nodes": 0}
    with pytest.raises(ModelError, match="at most 0"):
        imported_model(note)
    note["limits"] = {"noodles": 3}
    with pytest.raises(UsageError, match=r"has limits .*noodles.*; build again"):
        imported_model(note)
