"""From an artifact's folder to what runs it."""

from __future__ import annotations

import os
from pathlib import Path

from tvm_hetero.artifact.kinds import has_sizes, is_decoder
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.errors import UsageError
from tvm_hetero.serve.models.tensor_model import TensorModel

_SHARES = 8  # executors that a model keeps, for each core


def open_model(name: str, version: str, path: Path) -> TensorModel | Decoder:
    """Load a folder and start what runs it.

    Raises
    ------
    ArtifactError
        If there is no artifact, or it is damaged or of another version.
    UsageError
        If it is of a kind that is not served.
    """
    if has_sizes(path):
        raise UsageError(
            f"{name}: a model of open dimensions is not served; partition it for one size"
        )
    if is_decoder(path):
        return Decoder.load(path)
    executable = load_artifact(path)
    if any(row.is_state for row in executable.variants[executable.default].plan.inputs):
        raise UsageError(f"{name}: a model that keeps states between requests is not served")
    return TensorModel(name, version, executable, most=_SHARES * (os.cpu_count() or 1))
