"""Where an artifact's model came from: noted when it is imported, found again to compare with.

The note (path, SHA-256 of what was read, shapes, fixed values, seed of random weights, limits) goes
into an attribute of the module, so that it stays with it through all passes and ends up in the
artifact's manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.onnx.fixed_values import read_values, set_values
from tvm_hetero.frontends.onnx.load import read_model, settle_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.model_digest import ModelDigest
from tvm_hetero.frontends.onnx.randomize import randomize_weights
from tvm_hetero.passes.attributes import SOURCE
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    import onnx
    import tvm

_DIGESTS = ("sha256", "weights_sha256")


def note_source(
    module: tvm.IRModule,
    model: Path,
    digest: ModelDigest,
    shapes: Mapping[str, Any],
    values: Mapping[str, Any],
    random_weights: int | None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> tvm.IRModule:
    """`module` with the note of its source as an attribute of ``main``.

    Parameters
    ----------
    module : of the model.
    model : its file.
    digest : of what was read of it: the file may be another one by now.
    shapes, values, random_weights, limits : as `from_onnx` was given them.
    """
    note: dict[str, Any] = {
        "path": str(model.absolute()),
        **digest.to_dict(),
        "shapes": {name: [int(n) for n in shape] for name, shape in shapes.items()},
        "values": {name: value_note(value) for name, value in values.items()},
        "random_weights": None if random_weights is None else int(random_weights),
    }
    if limits != DEFAULT_LIMITS:
        kept = asdict(limits).items()
        note["limits"] = {name: None if cap is None else int(cap) for name, cap in kept}
    noted = module.clone()
    noted["main"] = module["main"].with_attr(SOURCE, json.dumps(note))
    return noted


def value_note(value: Any) -> Any:
    """A value as JSON has it: arrays with their type, all else as numbers and lists."""
    if isinstance(value, np.ndarray):
        row = {"dtype": str(value.dtype), "shape": list(value.shape)}
        return {**row, "hex": value.tobytes().hex()}
    if isinstance(value, np.generic):
        return value_note(np.asarray(value))
    return np.asarray(value).tolist()


def noted_value(note: Any) -> Any:
    """The value of which `value_note` made a note."""
    if not isinstance(note, dict):
        return note
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
    model = _read_unchanged(source, "build it again, or leave onnxruntime out of --against")
    values = _values_of(source)
    if values and source.get("random_weights") is None:
        return _with_defaults(model, values)
    return _as_imported(model, source)


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
    return _as_imported(_read_unchanged(source, "import it again"), source)


def _read_unchanged(source: Mapping[str, Any], cure: str) -> onnx.ModelProto:
    """The model that a note names, as it lies in its file, if that is what was noted."""
    path, digest = Path(source["path"]), ModelDigest()
    model: onnx.ModelProto | ModelError
    try:
        model = read_model(path, noted_limits(source), digest)
    except ModelError as error:
        model = error
    noted = {name: source[name] for name in _DIGESTS if name in source}
    # Artifacts of older versions say nothing of weights in other files.
    if "sha256" not in noted or not noted.items() <= digest.to_dict().items():
        raise UsageError(f"the model {path} is gone or has changed since it was imported; {cure}")
    if isinstance(model, ModelError):
        raise model
    return model


def noted_limits(source: Mapping[str, Any]) -> OnnxLimits:
    """The limits of the import of which `note_source` made a note.

    Raises
    ------
    UsageError
        If the note has others than there are.
    """
    given = source.get("limits", {})
    kinds = {field.name for field in fields(OnnxLimits)}
    if not isinstance(given, Mapping) or not kinds >= set(given):
        raise UsageError(
            f"the note of the model's source has limits {printable(given)}; build again"
        )
    return OnnxLimits(**given)


def _values_of(source: Mapping[str, Any]) -> dict[str, Any]:
    return {name: noted_value(note) for name, note in source.get("values", {}).items()}


def _as_imported(model: onnx.ModelProto, source: Mapping[str, Any]) -> onnx.ModelProto:
    """A model that was read, with the shapes, values and random weights of a note."""
    seed, limits = source.get("random_weights"), noted_limits(source)
    settle_isolated(model, source.get("shapes") or None, _values_of(source), limits)
    return model if seed is None else randomize_weights(model, seed, limits=limits)


def _with_defaults(model: onnx.ModelProto, values: Mapping[str, Any]) -> onnx.ModelProto:
    """The model as it is, with defaults for the inputs that were fixed.

    Of constants and static shapes ONNX Runtime infers and folds more, and where a branch is chosen
    so it fails on some models: 1.32 on silero_vad, at a node of the branch that is not taken.
    """
    inputs = [value for value in model.graph.input if value.name in values]
    set_values(model, read_values(model, values))
    model.graph.input.extend(inputs)
    return model
