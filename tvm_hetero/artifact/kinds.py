"""What a folder is: an artifact, several of one model, a decoder, a model that is not built yet."""

from __future__ import annotations

import os
from pathlib import Path

from tvm_hetero.errors import ArtifactError

MANIFEST = "manifest.json"  # an artifact has it
DECODER = "decoder.json"  # a decoder has it
SIZES = "sizes.json"  # a model of open dimensions has it


def is_artifact(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is an artifact's."""
    return (Path(path) / MANIFEST).is_file()


def is_decoder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is (or was meant to be) a decoder's."""
    return (Path(path) / DECODER).is_file()


def has_sizes(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is of a model of open dimensions: an artifact for each size."""
    return (Path(path) / SIZES).is_file()


def check_built(path: Path) -> None:
    """Refuse the folder of a model from which nothing was built yet.

    Raises
    ------
    ArtifactError
        If it is one; says how to build it.
    """
    if (path / "config.json").is_file():
        raise ArtifactError(
            f"{path} is the folder of a model (config.json), which is to be built first: "
            f"'tvm-hetero partition {path} -o NAME.hetero'; then load NAME.hetero"
        )
