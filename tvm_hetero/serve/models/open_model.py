"""From an artifact's folder to what runs it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.artifact.kinds import has_sizes, is_decoder
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.shared_weights import share_weights
from tvm_hetero.serve.models.adapted_share import Adaptation
from tvm_hetero.serve.models.batch_plans import check_batches
from tvm_hetero.serve.models.tensor_model import TensorModel

_SHARES = 8  # executors that a model keeps, for each core


def open_model(
    name: str, version: str, paths: Sequence[Path], adaptation: Adaptation | None = None
) -> TensorModel | Decoder:
    """Load a folder and start what runs it; further ones are plans of it for batches.

    Raises
    ------
    ArtifactError
        If there is no artifact, or it is damaged or of another version.
    UsageError
        If it is of a kind that is not served.
    """
    if len(paths) == 1 and is_decoder(paths[0]):
        return Decoder.load(paths[0])
    executables = [_load(name, path) for path in paths]
    if len(paths) > 1:  # the same weights, mostly in the same layouts
        executables = list(share_weights(executables).executables)
    most = _SHARES * (os.cpu_count() or 1)
    with ExitStack() as stack:
        batches = []
        for each in executables[1:]:
            batches.append(TensorModel(name, version, each, most))
            stack.callback(batches[-1].close)
        model = TensorModel(name, version, executables[0], most, batches, adaptation)
        stack.callback(model.close)
        check_batches(model)
        stack.pop_all()
    return model


def _load(name: str, path: Path) -> Executable:
    if has_sizes(path):
        raise UsageError(
            f"{name}: a model of open dimensions is not served; partition it for one size"
        )
    if is_decoder(path):
        raise UsageError(f"{name}: a decoder has one artifact; it batches texts by itself")
    executable = load_artifact(path)
    if any(row.is_state for row in executable.variants[executable.default].plan.inputs):
        raise UsageError(f"{name}: a model that keeps states between requests is not served")
    return executable
