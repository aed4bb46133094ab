"""The files of an ONNX model, copied: the model's own, and those of its weights beside it."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from onnx import TensorProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.load import read_structure
from tvm_hetero.frontends.onnx.model.tensors import all_tensors
from tvm_hetero.sizes.folder import MODEL
from tvm_hetero.util.files import sha256_of_file
from tvm_hetero.util.untrusted_names import printable


def model_files(model: Path) -> list[str]:
    """Names of a model's files, from its folder: its own first, then those of external weights.

    Raises
    ------
    ModelError
        If it names a file outside of its folder.
    """
    names = {model.name: None}
    for _, tensor in all_tensors(read_structure(model)):
        if tensor.data_location == TensorProto.EXTERNAL:
            names |= {row.value: None for row in tensor.external_data if row.key == "location"}
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ModelError(f"weights outside of the model's folder: {printable(name)!r}")
    return list(names)


def hash_model(model: Path) -> dict[str, str]:
    """SHA-256 of a model's files, by the names that they have in the folder that keeps them."""
    return {f"{MODEL}/{n}": sha256_of_file(model.parent / n) for n in model_files(model)}


def copy_model(model: Path, folder: Path) -> None:
    """Copy a model's files into a folder that keeps them."""
    for name in model_files(model):
        target = folder / MODEL / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model.parent / name, target)
