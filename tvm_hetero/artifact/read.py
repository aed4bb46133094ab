"""Read an artifact: an executable as it was saved, or parts of it to look at."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from tvm_hetero.artifact.executable import Executable, Variant
from tvm_hetero.artifact.kinds import MANIFEST
from tvm_hetero.artifact.manifest import (
    KERNELS,
    MODULE,
    WEIGHTS,
    check_files,
    check_versions,
    read_manifest,
)
from tvm_hetero.errors import ArtifactError, FormatError, HeteroError
from tvm_hetero.plan.element_names import plain_task
from tvm_hetero.plan.format import plan_from_dict
from tvm_hetero.plan.kernel_takes import AllTakes, check_takes, takes_from
from tvm_hetero.plan.model import StepKind
from tvm_hetero.problem.implementation_choice import Choice, choices_from_dict
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.precision_promise import PrecisionPromise
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.documents import read_document
from tvm_hetero.util.untrusted_names import printable

# Of what is said of a damaged file: ours name a step, a task, a kernel and an argument.
_LONGEST = 1000


def load_artifact(path: str | os.PathLike[str]) -> Executable:
    """Read an artifact.

    Raises
    ------
    ArtifactError
        If there is none, it is of another version, or a file is missing or changed.
    """
    path = Path(path)
    manifest = read_manifest(path)
    check_versions(path, manifest)
    check_files(path, manifest["files"])
    try:
        problem = Problem.load(path / "problem.json")
        variants = manifest["variants"].items()
        choices, takes = _read_kernels(path, manifest)
        return Executable(
            problem=problem,
            schedule=Schedule.load(path / "schedule.json"),
            variants={n: _read_variant(path, n, d, problem, takes) for n, d in variants},
            weights=_read_weights(path / WEIGHTS),
            default=manifest["default"],
            source=manifest["source"],
            choices=choices,
            decision=manifest.get("decision"),
            module=_read_module(path, manifest),
            estimated=manifest.get("estimated"),
            probabilities=manifest.get("probabilities", {}),
            precision=_precision(manifest),
            spare={device: path / f"{device}.so" for device in manifest.get("spare", ())},
        )
    except ArtifactError:
        raise
    except OSError as error:
        raise ArtifactError(f"{error.filename or path}: cannot be read: {error.strerror}") from None
    except MemoryError:
        raise ArtifactError(f"{path}: there is no memory for its weights") from None
    except (HeteroError, safetensors.SafetensorError, UnicodeDecodeError) as error:
        # Those of other packages quote the file as it is.
        reason = printable(error, _LONGEST)
        raise ArtifactError(f"{path}: damaged ({reason}); build it again") from None


def read_precision(path: str | os.PathLike[str]) -> PrecisionPromise | None:
    """Which tasks of an artifact are not in float32, and what was promised (for looking at it).

    Raises
    ------
    ArtifactError
        If it is damaged.
    """
    return _precision(read_manifest(path))


def _precision(manifest: Mapping[str, Any]) -> PrecisionPromise | None:
    row = manifest.get("precision")
    return None if row is None else PrecisionPromise.from_dict(row)


def read_choices(path: str | os.PathLike[str]) -> tuple[Choice, ...]:
    """How the kernels of an artifact are computed (for looking at it).

    Raises
    ------
    ArtifactError
        If it is damaged.
    """
    path = Path(path)
    manifest = read_manifest(path)
    try:
        choices, _ = _read_kernels(path, manifest)
    except FormatError as error:
        raise ArtifactError(f"{path}: damaged ({error}); build it again") from None
    return choices


def _read_kernels(path: Path, manifest: Mapping[str, Any]) -> tuple[tuple[Choice, ...], AllTakes]:
    """How kernels are computed, and what they take: without that no call of a plan is safe."""
    if KERNELS not in manifest["files"]:
        raise FormatError(f"{MANIFEST}: files has no {KERNELS}")
    check_files(path, {KERNELS: manifest["files"][KERNELS]})
    document, name = read_document(path / KERNELS), os.fspath(path / KERNELS)
    return choices_from_dict(document, name), takes_from(document, name)


def _read_module(path: Path, manifest: Mapping[str, Any]) -> str | None:
    return (path / MODULE).read_text(encoding="utf-8") if MODULE in manifest["files"] else None


def _read_variant(
    path: Path, name: str, devices: list[str], problem: Problem, takes: AllTakes
) -> Variant:
    document = read_document(path / name / "plan.json")
    try:
        plan = plan_from_dict(document, f"{name}/plan.json")
        tasks = {plain_task(task) for step in plan.steps for task in step.tasks}
    except ValueError as error:
        raise FormatError(f"{name}/plan.json: {error}") from None
    workers = {
        plan.worker_of_step(step).name for step in plan.steps if step.kind is not StepKind.COPY
    }
    if workers != set(devices) or not tasks <= problem.graph.index.keys():
        raise FormatError(f"{name}/plan.json: its workers or tasks are not this model's")
    check_takes(plan, takes, f"{name}/plan.json")
    return Variant(plan, {device: path / f"{device}.so" for device in devices})


def _read_weights(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    return dict(safetensors.numpy.load_file(path))
