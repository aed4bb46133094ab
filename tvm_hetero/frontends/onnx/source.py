"""Where an artifact's model came from: noted when it is imported, found again to compare with.

The note (path, SHA-256, shapes, fixed values, seed of random weights) goes into an attribute of the
module, so that it stays with it through all passes and ends up in the artifact's manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import UsageError
from tvm_hetero.util.files import sha256_of_file

if TYPE_CHECKING:
    import onnx
    import tvm


def note_source(
    module: tvm.IRModule,
    model: Path,
    shapes: Mapping[str, Any],
    values: Mapping[str, Any],
    random_weights: int | None,
) -> tvm.IRModule:
    """`module` with the note of its source as an attribute of ``main``."""
    from tvm_hetero.passes.attributes import SOURCE

    note = {
        "path": str(model.absolute()),
        "sha256": sha256_of_file(model),
        "shapes": {name: [int(n) for n in shape] for name, shape in shapes.items()},
        "values": {name: value_note(value) for name, value in values.items()},
        "random_weights": random_weights,
    }
    noted = module.clone()
    noted["main"] = module["main"].with_attr(SOURCE, json.dumps(note))
    return noted


def value_note(value: Any) -> Any:
    """A value as JSON has it: numbers and lists as they are, arrays of files with their type."""
    if not hasattr(value, "dtype"):
        return value
    return {"dtype": str(value.dtype), "shape": list(value.shape), "hex": value.tobytes().hex()}


def noted_value(note: Any) -> Any:
    """The value of which `value_note` made a note."""
    if not isinstance(note, dict):
        return note
    import numpy as np

    return np.frombuffer(bytes.fromhex(note["hex"]), note["dtype"]).reshape(note["shape"])


def source_model(source: Mapping[str, Any]) -> onnx.ModelProto:
    """The ONNX model that an artifact was made of, with the same random weights.

    Raises
    ------
    UsageError
        If the artifact does not say, or the file is gone or has changed since.
    """
    if "path" not in source:
        raise UsageError(
            "the artifact does not say which ONNX file it was made of (a model in memory has "
            "none); leave onnxruntime out of --against"
        )
    path = _unchanged_file(source, "build it again, or leave onnxruntime out of --against")
    values = _values_of(source)
    if values and source.get("random_weights") is None:
        return _with_defaults(path, values)
    return _as_imported(path, source)


def imported_model(source: Mapping[str, Any]) -> onnx.ModelProto:
    """The ONNX model that a module was imported from, checked, as its importer had it.

    Parameters
    ----------
    source : as `note_source` has noted it.

    Raises
    ------
    UsageError
        If the file is gone or has changed since.
    """
    return _as_imported(_unchanged_file(source, "import it again"), source)


def _unchanged_file(source: Mapping[str, Any], cure: str) -> Path:
    """The file that a note names."""
    path = Path(source["path"])
    if not path.is_file() or sha256_of_file(path) != source.get("sha256"):
        raise UsageError(f"the model {path} is gone or has changed since it was imported; {cure}")
    return path


def _values_of(source: Mapping[str, Any]) -> dict[str, Any]:
    return {name: noted_value(note) for name, note in source.get("values", {}).items()}


def _as_imported(path: Path, source: Mapping[str, Any]) -> onnx.ModelProto:
    """The model of a file, with the shapes, values and random weights of a note."""
    from tvm_hetero.frontends.onnx.load import load_model
    from tvm_hetero.frontends.onnx.randomize import randomize_weights

    seed = source.get("random_weights")
    shapes = source.get("shapes") or None
    model = load_model(path, shapes=shapes, values=_values_of(source))
    return model if seed is None else randomize_weights(model, seed)


def _with_defaults(path: Path, values: Mapping[str, Any]) -> onnx.ModelProto:
    """The model as it is, with defaults for the inputs that were fixed.

    Of constants and static shapes ONNX Runtime infers and folds more, and where a branch is chosen
    so it fails on some models: 1.32 on silero_vad, at a node of the branch that is not taken.
    """
    from tvm_hetero.frontends.onnx.fixed_values import read_values, set_values
    from tvm_hetero.frontends.onnx.load import read_model

    model = read_model(path)
    inputs = [value for value in model.graph.input if value.name in values]
    set_values(model, read_values(model, values))
    model.graph.input.extend(inputs)
    return model
