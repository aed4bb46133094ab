"""Artifacts: an executable as a folder that can be looked at, copied and loaded again.

```
net.hetero/
  manifest.json            format, versions, source, variants and their devices, which of them runs
                           by default (and why, if that was measured), SHA-256 of every other file
  problem.json schedule.json
  kernels.json             how each kernel is computed on each device (older ones lack it)
  module.json              the lowered module without its weights, if devices are on several nodes
  weights.safetensors
  <device>.so              a library a device, for all variants
  partition/plan.json      the plan
  single/plan.json         the best single device, if that is another plan
```
The folder is written under a temporary name and renamed when it is whole. Loading checks the
versions and every file: libraries are code, so load only artifacts that you trust.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from tvm_hetero.artifact.code_version import code_version
from tvm_hetero.artifact.executable import Executable, Variant
from tvm_hetero.compiler.plan import plan_text
from tvm_hetero.decoders.folder import check_built, is_decoder
from tvm_hetero.errors import ArtifactError, FormatError, HeteroError, UsageError
from tvm_hetero.passes.element_names import plain_task
from tvm_hetero.problem.implementation_choice import Choice, choices_to_dict, load_choices
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.documents import check_keys, read_document, write_atomic

FORMAT = "tvm-hetero/artifact/2"
MANIFEST = "manifest.json"
KERNELS = "kernels.json"
MODULE = "module.json"


def versions() -> dict[str, str]:
    """What an artifact must match to be loaded: the format of libraries and plans hangs on it."""
    return {
        "tvm_hetero": code_version(),
        "apache-tvm": metadata.version("apache-tvm"),
        "apache-tvm-ffi": metadata.version("apache-tvm-ffi"),
    }


def save_artifact(executable: Executable, path: str | os.PathLike[str]) -> None:
    """Write an executable as a folder, whole or not at all; an older artifact is replaced.

    Where `path` is a symbolic link, the artifact that it leads to is replaced.

    Raises
    ------
    UsageError
        If `path` is a file, or a folder that is no artifact (which is left alone).
    ArtifactError
        If the folder cannot be written.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not (path / MANIFEST).is_file():
        raise UsageError(f"{path} is there and is no artifact; give another name or remove it")
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        _write_files(executable, temporary)
        _replace_folder(temporary, path)
    except (OSError, FormatError, safetensors.SafetensorError) as error:
        # A full disk comes as OSError, or in safetensors' own words.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArtifactError(f"{path}: the artifact cannot be written: {reason}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _write_files(executable: Executable, folder: Path) -> None:
    executable.problem.save(folder / "problem.json")
    executable.schedule.save(folder / "schedule.json")
    if executable.choices is not None:
        document = choices_to_dict(executable.choices)
        write_atomic(folder / KERNELS, json.dumps(document, indent=1) + "\n")
    if executable.module is not None:
        write_atomic(folder / MODULE, executable.module)
    weights = {
        name: value if isinstance(value, np.ndarray) else value.numpy()
        for name, value in executable.weights.items()
    }
    safetensors.numpy.save_file(weights, folder / "weights.safetensors")
    variants = {}
    for name, variant in executable.variants.items():
        (folder / name).mkdir()
        write_atomic(folder / name / "plan.json", plan_text(variant.plan) + "\n")
        variants[name] = sorted(variant.libraries)
    libraries = {d: path for v in executable.variants.values() for d, path in v.libraries.items()}
    for device, library in libraries.items():
        shutil.copyfile(library, folder / f"{device}.so")
    manifest = {
        "format": FORMAT,
        "versions": versions(),
        "default": executable.default,
        "variants": variants,
        "source": dict(executable.source),
        "files": {str(p.relative_to(folder)): _sha256(p) for p in _files(folder)},
    }
    if executable.decision is not None:
        manifest["decision"] = dict(executable.decision)
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _replace_folder(new: Path, path: Path) -> None:
    """Put `new` in the place of `path`, in one step: at no moment is there no artifact.

    What stood there is under `new` afterwards, and goes with it.
    """
    os.chmod(new, 0o755)
    if path.exists():
        exchange(new, path)
    else:
        os.rename(new, path)


def exchange(one: Path, other: Path) -> None:
    """Exchange two names of one folder atomically (Linux's ``renameat2``).

    Raises
    ------
    OSError
        If the file system does not know how, or refuses; nothing has changed then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), swap) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def load_artifact(path: str | os.PathLike[str]) -> Executable:
    """Read an artifact.

    Raises
    ------
    ArtifactError
        If there is none, it is of another version, or a file is missing or changed.
    """
    path = Path(path)
    manifest = _read_manifest(path)
    _check_versions(path, manifest)
    _check_files(path, manifest["files"])
    try:
        problem = Problem.load(path / "problem.json")
        variants = manifest["variants"].items()
        return Executable(
            problem=problem,
            schedule=Schedule.load(path / "schedule.json"),
            variants={n: _read_variant(path, n, d, problem) for n, d in variants},
            weights=_read_weights(path / "weights.safetensors"),
            default=manifest["default"],
            source=manifest["source"],
            choices=_read_choices(path, manifest),
            decision=manifest.get("decision"),
            module=_read_module(path, manifest),
        )
    except ArtifactError:
        raise
    except (HeteroError, safetensors.SafetensorError, OSError) as error:
        raise ArtifactError(f"{path}: damaged ({error}); build it again") from None


def read_choices(path: str | os.PathLike[str]) -> tuple[Choice, ...]:
    """How the kernels of an artifact are computed (for looking at it).

    Raises
    ------
    ArtifactError
        If it was built by a version that did not keep that, or is damaged.
    """
    path = Path(path)
    manifest = _read_manifest(path)
    try:
        choices = _read_choices(path, manifest)
    except FormatError as error:
        raise ArtifactError(f"{path}: damaged ({error}); build it again") from None
    if choices is None:
        raise ArtifactError(
            f"{path}: it does not say how its kernels are computed, as it was built by an older "
            "version; build it again"
        )
    return choices


def _read_choices(path: Path, manifest: Mapping[str, Any]) -> tuple[Choice, ...] | None:
    if KERNELS not in manifest["files"]:
        return None
    _check_files(path, {KERNELS: manifest["files"][KERNELS]})
    return load_choices(path / KERNELS)


def _read_module(path: Path, manifest: Mapping[str, Any]) -> str | None:
    return (path / MODULE).read_text(encoding="utf-8") if MODULE in manifest["files"] else None


def read_manifest(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The manifest of an artifact, versions unchecked (for looking at it)."""
    return _read_manifest(Path(path))


def _read_manifest(path: Path) -> Mapping[str, Any]:
    if is_decoder(path):
        raise ArtifactError(
            f"{path} is a decoder: 'tvm-hetero generate {path}' runs it; its artifacts are the "
            "folders step and prefill in it"
        )
    if not (path / MANIFEST).is_file():
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
        keys = ["format", "versions", "default", "variants", "source", "files"]
        if manifest.get("format") != FORMAT:
            raise ArtifactError(
                f"{path}: is an artifact of format {manifest.get('format')!r}, this is a "
                f"tvm_hetero {code_version()} that reads {FORMAT!r}; build it again"
            )
        check_keys(manifest, str(path), keys, ["decision"])
        _check_shape(manifest)
        return manifest
    except FormatError as error:
        raise ArtifactError(f"{path}: damaged manifest ({error}); build it again") from None


def _check_shape(manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest whose values are not what `_write_files` writes.

    Every file that is going to be read must be among those whose hashes are checked.
    """
    for key in ("versions", "files", "variants", "source", "decision"):
        if not isinstance(manifest.get(key, {}), dict):
            raise FormatError(f"{key!r}: expected an object")
    names = {"problem.json", "schedule.json", "weights.safetensors"}
    for variant, devices in manifest["variants"].items():
        if not isinstance(devices, list) or not all(isinstance(d, str) for d in devices):
            raise FormatError(f"variant {variant!r}: expected a list of devices")
        names |= {f"{variant}/plan.json"} | {f"{device}.so" for device in devices}
    unknown = sorted(names - manifest["files"].keys())
    if unknown:
        raise FormatError(f"'files' lacks {unknown[0]!r}")
    default = manifest.get("default")
    if not isinstance(default, str) or default not in manifest["variants"]:
        raise FormatError(f"'default': there is no variant {default!r}")


def _check_versions(path: Path, manifest: Mapping[str, Any]) -> None:
    for package, here in versions().items():
        built = manifest["versions"].get(package)
        if built != here:
            raise ArtifactError(
                f"{path}: was built with {package} {built}, here is {here}; build it again"
            )


def _check_files(path: Path, files: Mapping[str, str]) -> None:
    for name, expected in files.items():
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise ArtifactError(f"{path}: names a file outside of itself: {name!r}")
        if not (path / name).is_file():
            raise ArtifactError(f"{path}: file {name!r} is missing; build it again")
        if _sha256(path / name) != expected:
            raise ArtifactError(f"{path}: file {name!r} was changed or damaged; build it again")


def _read_variant(path: Path, name: str, devices: list[str], problem: Problem) -> Variant:
    try:
        plan = read_document(path / name / "plan.json")
        workers = {row["name"] for row in plan["workers"] if row["role"] == "compute"}
        libraries = {device: path / f"{device}.so" for device in devices}
        variant = Variant(plan=plan, libraries=libraries)
        tasks = {plain_task(task) for step in variant.tasks for task in step}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"{name}/plan.json: {error!r}") from None
    if workers != set(devices) or not tasks <= problem.graph.index.keys():
        raise FormatError(f"{name}/plan.json: its workers or tasks are not this model's")
    return variant


def _read_weights(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    return dict(safetensors.numpy.load_file(path))


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
