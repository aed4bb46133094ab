"""Artifacts that are damaged, or of other versions: the C++ loader says so before it loads code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cpp.cpp_build import call

Damage = Callable[[Path], object]


def in_document(name: str, change: Callable[[Any], object]) -> Damage:
    def damage(folder: Path) -> None:
        document = json.loads((folder / name).read_text())
        change(document)
        (folder / name).write_text(json.dumps(document))

    return damage


def cut(name: str, length: int) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:length])

    return damage


def flip(name: str, share: float) -> Damage:
    """Change a bit that stands at a share of the file's length."""

    def damage(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[int(share * (len(content) - 1))] ^= 1
        (folder / name).write_bytes(content)

    return damage


def sealed(damage: Damage) -> Damage:
    """Damage that the manifest knows of: what reads the file has to find it."""

    def seal(folder: Path) -> None:
        damage(folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        for name in manifest["files"]:
            content = (folder / name).read_bytes()
            manifest["files"][name] = hashlib.sha256(content).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return seal


def damaged(program: Path, saved: Path, damage: Damage, folder: Path) -> str:
    """What the program says of an artifact after the damage."""
    copied = Path(shutil.copytree(saved, folder / "net.hetero"))
    damage(copied)
    done = call(program, copied)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            in_document("manifest.json", lambda m: m.update(format="tvm-hetero/artifact/1")),
            'expected "tvm-hetero/artifact/2": build the artifact again',
        ),
        (
            in_document("manifest.json", lambda m: m["files"].pop("big.so")),
            "manifest.json does not list file 'big.so'",
        ),
        (
            in_document("manifest.json", lambda m: m["files"].update({"big.so": 7})),
            "manifest.json: files.big.so is 7, expected a string",
        ),
        (
            in_document(
                "manifest.json",
                lambda m: m.update(default="..", files=m["files"] | {"../plan.json": ""}),
            ),
            "there is no variant '..'",
        ),
        (cut("manifest.json", 50), "manifest.json: not a JSON document"),
        (lambda folder: (folder / "big.so").unlink(), "file 'big.so' is missing"),
        (lambda folder: (folder / "weights.safetensors").unlink(), "is missing; build it again"),
        (sealed(cut("partition/plan.json", 100)), "plan: not a JSON document"),
        (sealed(cut("weights.safetensors", 1000)), "weights.safetensors: "),
        (sealed(cut("big.so", 100)), "big.so"),
    ],
)
def test_damage_is_told(program, saved, damage, message, tmp_path):
    assert message in damaged(program, saved, damage, tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "name", ["big.so", "weights.safetensors", "partition/plan.json", "problem.json"]
)
def test_a_flipped_bit_is_found_before_anything_is_loaded(program, saved, name, share, tmp_path):
    error = damaged(program, saved, flip(name, share), tmp_path)
    assert f"file '{name}' was changed or damaged; build it again" in error


@pytest.mark.parametrize("built", ["0.2", "0.270", "0.1.140", "unreleasedx", "", None])
@pytest.mark.parametrize("package", ["tvm_hetero", "apache-tvm", "apache-tvm-ffi"])
def test_other_versions_are_refused(program, saved, package, built, tmp_path):
    change = in_document(
        "manifest.json",
        lambda manifest: (
            manifest["versions"].pop(package)
            if built is None
            else manifest["versions"].update({package: built})
        ),
    )
    error = damaged(program, saved, change, tmp_path)
    there = "no version at all" if built is None else built
    assert f"was built with {package} {there}, this runtime is for " in error


FORMATS = {
    "manifest.json": "tvm-hetero/artifact/2",
    "partition/plan.json": "tvm-hetero/plan/2",
    "kernels.json": "tvm-hetero/kernels/1",
    "problem.json": "tvm-hetero/problem/1",
}


@pytest.mark.parametrize("other", ["tvm-hetero/other/1", "", 2])
@pytest.mark.parametrize("name", FORMATS)
def test_other_formats_are_refused_in_whatever_is_read(program, saved, name, other, tmp_path):
    change = in_document(name, lambda document: document.update(format=other))
    fitting = change if name == "manifest.json" else sealed(change)
    error = damaged(program, saved, fitting, tmp_path)
    expected = "a string" if other == 2 else f'"{FORMATS[name]}": build the artifact again'
    assert f"expected {expected}" in error


def test_another_format_of_the_platform_within_the_problem_is_refused(program, saved, tmp_path):
    change = in_document("problem.json", lambda d: d["platform"].update(format="x"))
    assert 'expected "tvm-hetero/platform/1"' in damaged(program, saved, sealed(change), tmp_path)


@pytest.mark.parametrize("name", ["big.so", "weights.safetensors"])
def test_a_file_of_holes_is_refused_before_its_hash_is_computed(program, saved, name, tmp_path):
    """A terabyte takes an hour, the program a minute at most."""
    error = damaged(program, saved, lambda folder: os.truncate(folder / name, 1 << 40), tmp_path)
    assert name in error


def test_names_in_an_artifact_do_not_reach_the_terminal_as_they_are(program, saved, tmp_path):
    change = in_document(
        "manifest.json", lambda m: m["versions"].update(tvm_hetero="\x1b[2J\u202e" + "x" * 9000)
    )
    error = damaged(program, saved, change, tmp_path).removesuffix("\n")
    assert error.isprintable() and "\\x1b[2J\\u202exx" in error
    assert len(error) < 3000
