"""Artifacts: an executable as a folder that can be looked at, copied and loaded again.

```
net.hetero/
  manifest.json            format, versions, source, variants and their devices, which of them runs
                           by default (and why, if that was measured), SHA-256 of every other file
  problem.json schedule.json
  kernels.json             how each kernel is computed on each device, and what those that plans
                           call take (older ones lack it)
  module.json              the lowered module without its weights, if devices are on several nodes,
                           the costs are estimates, or plans are to be made while it runs
  weights.safetensors
  <device>.so              a library a device, for all variants; where plans are to be made while it
                           runs, of devices that no variant uses, too
  partition/plan.json      the plan
  single/plan.json         the best single device, if that is another plan
```
The folder is written under a temporary name and renamed when it is whole. Loading checks the
versions and every file: libraries are code, so load only artifacts that you trust.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy

from tvm_hetero.artifact.kinds import MANIFEST, is_artifact
from tvm_hetero.artifact.manifest import FORMAT, KERNELS, MODULE, WEIGHTS, versions
from tvm_hetero.errors import ArtifactError, FormatError, UsageError
from tvm_hetero.plan.format import plan_text
from tvm_hetero.plan.kernel_takes import TAKES, takes_of, takes_rows
from tvm_hetero.problem.implementation_choice import choices_to_dict
from tvm_hetero.util.documents import write_atomic
from tvm_hetero.util.files import sha256_of_file, write_folder
from tvm_hetero.util.kept_files import is_damaged

if TYPE_CHECKING:
    from tvm_hetero.artifact.executable import Executable


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
    if path.exists() and not is_artifact(path):
        raise UsageError(f"{path} is there and is no artifact; give another name or remove it")
    try:
        write_folder(path, partial(_write_files, executable))
    except (OSError, FormatError, safetensors.SafetensorError) as error:
        # A full disk comes as OSError, or in safetensors' own words.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArtifactError(f"{path}: the artifact cannot be written: {reason}") from None


def _write_files(executable: Executable, folder: Path) -> None:
    executable.problem.save(folder / "problem.json")
    executable.schedule.save(folder / "schedule.json")
    plans = {name: variant.plan for name, variant in executable.variants.items()}
    document = choices_to_dict(executable.choices)
    document[TAKES] = takes_rows(takes_of(plans))
    write_atomic(folder / KERNELS, _row_a_line(document) + "\n")
    if executable.module is not None:
        write_atomic(folder / MODULE, executable.module)
    weights = {
        name: value if isinstance(value, np.ndarray) else value.numpy()
        for name, value in executable.weights.items()
    }
    safetensors.numpy.save_file(weights, folder / WEIGHTS)
    variants = {}
    for name, variant in executable.variants.items():
        (folder / name).mkdir()
        write_atomic(folder / name / "plan.json", plan_text(variant.plan) + "\n")
        variants[name] = sorted(variant.libraries)
    for device, library in executable.libraries.items():
        if is_damaged(library):
            raise FormatError(f"the library {library} was changed since it was compiled; try again")
        shutil.copyfile(library, folder / f"{device}.so")
    manifest = {
        "format": FORMAT,
        "versions": versions(),
        "default": executable.default,
        "variants": variants,
        "source": dict(executable.source),
        "files": {str(p.relative_to(folder)): sha256_of_file(p) for p in _files(folder)},
    }
    if executable.decision is not None:
        manifest["decision"] = dict(executable.decision)
    if executable.estimated is not None:
        manifest["estimated"] = executable.estimated
    if executable.spare:
        manifest["spare"] = sorted(executable.spare)
    if executable.precision is not None:
        manifest["precision"] = executable.precision.to_dict()
    if executable.probabilities:
        manifest["probabilities"] = dict(executable.probabilities)
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _row_a_line(document: Mapping[str, Any]) -> str:
    """A document as JSON to read, whose lists of rows have a line for each."""
    parts = []
    for key, value in document.items():
        rows = [f"\n  {json.dumps(row)}" for row in value] if isinstance(value, list) else None
        text = json.dumps(value) if rows is None else f"[{','.join(rows)}]"
        parts.append(f"{json.dumps(key)}: {text}")
    return "{" + ",\n ".join(parts) + "}"


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
