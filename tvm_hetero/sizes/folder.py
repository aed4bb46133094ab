"""A model of open dimensions as a folder: an ordinary artifact for each size that was built.

```
net.hetero/
  sizes.json     inputs, axes and their sizes, which sizes may be built on use, how they are built,
                 SHA-256 of the files of `model/`
  sizes/160/     an artifact; its name is the size, one number for each axis: 160, 1x160
  sizes/640/
  model/         the ONNX file and its weights; not there if nothing is to be built on use
```
What is in `sizes/` is what was built: no other file says it, so there is none that could be wrong
after a crash. A size is written under a temporary name beside its own and renamed when it is whole,
and so is the folder. Weights that are equal in two sizes, byte for byte, are one file of two names
(a hard link). This file loads without TVM.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_hetero.artifact.kinds import SIZES, has_sizes, is_artifact, is_decoder
from tvm_hetero.artifact.manifest import check_files, read_manifest
from tvm_hetero.errors import ArtifactError, FormatError, UsageError
from tvm_hetero.sizes.axes import OpenAxis, OpenShapes, Size, size_name
from tvm_hetero.util.documents import check_format, read_document, write_atomic
from tvm_hetero.util.fields import Fields, check_integer
from tvm_hetero.util.files import sha256_of_file, write_folder

FORMAT = "tvm-hetero/sizes/1"
# Which sizes are built when they are first asked for: none, those of the range, any.
BUILDS = ("never", "range", "any")
MODEL, BUILT = "model", "sizes"
_WEIGHTS = "weights.safetensors"
_SETTINGS = ("cost_model", "plain_sums", "random_weights", "values")


@dataclass(frozen=True)
class SizeFacts:
    """What the folder of a model of open dimensions is.

    Attributes
    ----------
    open : inputs and axes.
    build : which sizes are built on use, one of `BUILDS`.
    settings : how sizes are built: ``cost_model``, ``plain_sums``, ``random_weights``, ``values``;
        the objective stands in the problem of each.
    model : name of the ONNX file in `MODEL`; empty if it is not kept.
    files : SHA-256 of the files in `MODEL`, by their names in the folder.
    """

    open: OpenShapes
    build: str = "range"
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def read_size_facts(path: str | os.PathLike[str]) -> SizeFacts:
    """What ``sizes.json`` of a folder says.

    Raises
    ------
    ArtifactError
        If it is not there, malformed, or of another version.
    """
    path = Path(path)
    if not has_sizes(path):
        raise ArtifactError(
            f"{path}: expected a folder with {SIZES}; make one with 'tvm-hetero partition MODEL "
            "--shape x=1x3x48x160..640/32 -o NAME.hetero'"
        )
    where = str(path / SIZES)
    try:
        document = read_document(path / SIZES)
        check_format(document, FORMAT, where)
        return _facts(document, where)
    except (FormatError, UsageError) as error:
        raise ArtifactError(f"{error}; build it again") from None


def _facts(document: object, where: str) -> SizeFacts:
    row = Fields(document, where, ["format", "axes", "inputs", "build", "settings", "model",
                                   "files"])  # fmt: skip
    axes = row.rows("axes", _axis)
    names = {axis.name for axis in axes}
    inputs = row.fields("inputs", optional=None)
    files = row.fields("files", optional=None)
    if not axes or len(names) < len(axes):
        row.refuse("axes", "axes of different names")
    return SizeFacts(
        open=OpenShapes(axes, {name: _dims(inputs, name, names) for name in inputs.data}),
        build=row.choice("build", BUILDS),
        settings=row.fields("settings", _SETTINGS).data,
        model=row.text("model"),
        files={name: files.text(name) for name in files.data},
    )


def _axis(data: object, where: str) -> OpenAxis:
    row = Fields(data, where, ["name"], ["sizes", "from", "to", "step"])
    if "sizes" in row:
        return OpenAxis(row.name("name"), row.integers("sizes", least=1, distinct=True))
    first, last = row.integer("from", least=1), row.integer("to", least=1)
    return OpenAxis(row.name("name"), range(first, last + 1, row.integer("step", least=1)))


def _dims(inputs: Fields, name: str, axes: set[str]) -> tuple[int | str, ...]:
    found: list[int | str] = []
    for i, dim in enumerate(inputs.items(name)):
        if isinstance(dim, str) and dim not in axes:
            inputs.refuse(name, "names of axes and numbers")
        found.append(dim if isinstance(dim, str) else check_integer(dim, inputs.at(name), str(i)))
    return tuple(found)


def _document(facts: SizeFacts) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "axes": [_axis_row(axis) for axis in facts.open.axes],
        "inputs": {name: list(dims) for name, dims in facts.open.shapes.items()},
        "build": facts.build,
        "settings": dict(facts.settings),
        "model": facts.model,
        "files": dict(facts.files),
    }


def _axis_row(axis: OpenAxis) -> dict[str, Any]:
    sizes = axis.sizes
    if isinstance(sizes, range):
        return {"name": axis.name, "from": sizes[0], "to": sizes[-1], "step": sizes.step}
    return {"name": axis.name, "sizes": list(sizes)}


def check_sizes_target(path: Path) -> None:
    """Refuse to replace what `tvm-hetero partition` did not write.

    Raises
    ------
    UsageError
        If something else is there.
    """
    if path.exists() and not (has_sizes(path) or is_artifact(path) or is_decoder(path)):
        raise UsageError(f"{path} is there and is no artifact; give another name or remove it")


def save_sizes(
    path: str | os.PathLike[str], facts: SizeFacts, write: Callable[[Path], None]
) -> None:
    """Write a folder, whole or not at all; an older one is replaced.

    Parameters
    ----------
    write : puts the artifacts and the model into the folder that it is given.

    Raises
    ------
    UsageError
        If `path` is there and nothing of ours.
    ArtifactError
        If the folder cannot be written.
    """
    path = Path(os.path.realpath(path))
    check_sizes_target(path)

    def fill(folder: Path) -> None:
        write(folder)
        write_atomic(folder / SIZES, json.dumps(_document(facts), indent=1) + "\n")

    try:
        write_folder(path, fill)
    except OSError as error:
        raise ArtifactError(f"{path}: the folder cannot be written: {error.strerror}") from None


def artifact_of(path: Path, size: Size) -> Path:
    """Where the artifact of a size stands, if it is there."""
    return path / BUILT / size_name(size)


def built_sizes(path: Path, facts: SizeFacts) -> list[Size]:
    """The sizes of a folder that were built, the smallest first."""
    found = []
    for entry in (path / BUILT).iterdir() if (path / BUILT).is_dir() else ():
        numbers = entry.name.split("x")
        plain = all(n.isascii() and n.isdigit() for n in numbers)
        if plain and len(numbers) == len(facts.open.axes) and is_artifact(entry):
            found.append(tuple(map(int, numbers)))
    return sorted(found)


def check_model(path: Path, facts: SizeFacts) -> Path:
    """The ONNX file of a folder, its files as they were when it was written.

    Raises
    ------
    ArtifactError
        If it was not kept, is not there, or was changed.
    """
    if not facts.model:
        raise ArtifactError(f"{path}: the model was not kept, so no further size can be built")
    check_files(path, facts.files)
    if f"{MODEL}/{facts.model}" not in facts.files:
        raise ArtifactError(f"{path}: the hash of the model is not known; build it again")
    return path / MODEL / facts.model


def share_equal_weights(path: Path, size: Size) -> None:
    """Make the weights of a size those of another one, on disk, where they are equal.

    Where there are no hard links they stay two files.
    """
    own = artifact_of(path, size)
    expected = read_manifest(own)["files"][_WEIGHTS]
    for other in sorted((path / BUILT).iterdir()):
        there = other / _WEIGHTS
        if other == own or other.name.startswith(".") or not is_artifact(other):
            continue
        if read_manifest(other)["files"].get(_WEIGHTS) == expected == sha256_of_file(there):
            with contextlib.suppress(OSError):
                link = own / f".{_WEIGHTS}.link"
                link.unlink(missing_ok=True)
                os.link(there, link)
                os.replace(link, own / _WEIGHTS)
            return
