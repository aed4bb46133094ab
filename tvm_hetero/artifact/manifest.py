"""The manifest of an artifact: what it says, and whether the folder is what it says.

Loading checks the versions and the SHA-256 of every file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

import safetensors

from tvm_hetero.artifact.code_version import code_version
from tvm_hetero.artifact.kinds import MANIFEST, check_built, has_sizes, is_artifact, is_decoder
from tvm_hetero.errors import ArtifactError, FormatError
from tvm_hetero.problem.precision_promise import PrecisionPromise
from tvm_hetero.util.documents import read_document
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.files import sha256_of_file
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

FORMAT = "tvm-hetero/artifact/2"
KERNELS = "kernels.json"
MODULE = "module.json"
WEIGHTS = "weights.safetensors"
# A file with holes may seem to have a terabyte, whose hash takes an hour. No library has more bytes
# than this; weights may.
_LARGE = 1 << 31
_OPTIONAL = ("decision", "estimated", "precision", "probabilities", "spare")
_REQUIRED = ("format", "versions", "default", "variants", "source", "files")


def versions() -> dict[str, str]:
    """What an artifact must match to be loaded: the format of libraries and plans depends on it."""
    return {
        "tvm_hetero": code_version(),
        "apache-tvm": metadata.version("apache-tvm"),
        "apache-tvm-ffi": metadata.version("apache-tvm-ffi"),
    }


def read_manifest(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The manifest of an artifact, versions unchecked (for looking at it)."""
    path = Path(path)
    if is_decoder(path):
        raise ArtifactError(
            f"{path} is a decoder: 'tvm-hetero generate {path}' runs it; its artifacts are the "
            "folders step and prefill in it"
        )
    if has_sizes(path):
        raise ArtifactError(
            f"{path} serves several sizes: its artifacts are the folders of {path / 'sizes'}; give "
            "one of them ('run' with --input, and tvm_hetero.load, take all)"
        )
    if not is_artifact(path):
        if has_sizes(path.absolute().parent.parent):
            raise ArtifactError(
                f"{path}: this size is not built; a request of it has it built (tvm-hetero run "
                f"{path.parent.parent} --input X.npz)"
            )
        if is_decoder(path.parent):
            raise ArtifactError(f"the decoder {path.parent} has no {path.name}; build it again")
        check_built(path)
        raise ArtifactError(
            f"{path}: expected an artifact (a folder with a {MANIFEST}); make one with "
            "'tvm-hetero partition MODEL -o NAME.hetero', MODEL being an ONNX file, or for a "
            "decoder the folder of a Hugging Face model"
        )
    try:
        manifest = read_document(path / MANIFEST)
        if manifest.get("format") != FORMAT:
            raise ArtifactError(
                f"{path}: is an artifact of format {quote(manifest.get('format'))}, this is a "
                f"tvm_hetero {code_version()} that reads {FORMAT!r}; build it again"
            )
        _check_shape(manifest)
        return manifest
    except FormatError as error:
        raise ArtifactError(f"{path}: damaged manifest ({error}); build it again") from None


def _check_shape(manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest whose values are not what `_write_files` writes.

    Every file that is going to be read must be among those whose hashes are checked.
    """
    row = Fields(manifest, MANIFEST, _REQUIRED, _OPTIONAL)
    for texts in (row.fields("versions", optional=None), row.fields("files", optional=None)):
        for key in texts.data:
            texts.text(key)
    for key in ("source", "decision", "probabilities"):
        row.mapping(key, default={})
    if "precision" in manifest:
        PrecisionPromise.from_dict(manifest["precision"], row.at("precision"))
    names = {"problem.json", "schedule.json", WEIGHTS}
    variants = row.fields("variants", optional=None)
    for variant in variants.data:
        names |= {f"{variant}/plan.json", *(f"{device}.so" for device in variants.names(variant))}
    if "spare" in manifest:
        names |= {f"{device}.so" for device in row.names("spare")}
    unknown = sorted(names - manifest["files"].keys())
    if unknown:
        raise FormatError(f"'files' lacks {quote(unknown[0])}")
    if row.name("default") not in variants:
        raise FormatError(f"'default': there is no variant {quote(manifest['default'])}")


def check_versions(path: Path, manifest: Mapping[str, Any]) -> None:
    for package, here in versions().items():
        built = manifest["versions"].get(package)
        if built != here:
            there = printable(built)
            raise ArtifactError(
                f"{path}: was built with {package} {there}, here is {here}; build it again"
            )


def check_files(path: Path, files: Mapping[str, str]) -> None:
    for name, expected in files.items():
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise ArtifactError(f"{path}: names a file outside of itself: {quote(name)}")
        if not os.path.isfile(path / name):  # no error, however long a name is
            raise ArtifactError(f"{path}: file {quote(name)} is missing; build it again")
        if not _may_be_long(path, name) or sha256_of_file(path / name) != expected:
            raise ArtifactError(
                f"{path}: file {quote(name)} was changed or damaged; build it again"
            )


def _may_be_long(path: Path, name: str) -> bool:
    """Whether a file is short, or the weights and as long as its header says."""
    if os.stat(path / name).st_size <= _LARGE:
        return True
    try:
        with safetensors.safe_open(path / name, "np"):
            return name == WEIGHTS
    except (safetensors.SafetensorError, OSError, MemoryError):
        return False
