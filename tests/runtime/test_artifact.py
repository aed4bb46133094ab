"""Artifacts: what is saved is what is loaded, and nothing half-written or changed is taken."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import tvm_hetero as th
from tests.models import branchy_inputs, placed
from tvm_hetero.errors import ArtifactError, UsageError
from tvm_hetero.machine import Processor
from tvm_hetero.runtime import artifact, executor
from tvm_hetero.runtime.compile import build
from tvm_hetero.runtime.executable import Executable

X, Y = branchy_inputs()
INPUTS = {"in/x": X, "y": Y}


@pytest.fixture(scope="module")
def executable() -> Executable:
    return build(placed(1))


@pytest.fixture(scope="module")
def saved(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifact") / "net.hetero"
    executable.save(path)
    return path


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "net.hetero"))


def test_loaded_it_computes_the_same(executable, saved):
    with executable.executor() as before, th.load(saved) as after:
        expected = [out.numpy().tobytes() for out in before.run(INPUTS)]
        assert [out.numpy().tobytes() for out in after.run(INPUTS)] == expected
        assert after.schedule == executable.schedule
        assert after.problem == executable.problem


def test_it_has_both_variants(saved):
    for variant in ("partition", "single"):
        with th.load(saved, variant) as executor:
            assert len(executor.run(INPUTS)) == 2


def test_saving_twice_replaces_and_leaves_nothing_beside(executable, tmp_path):
    path = tmp_path / "net.hetero"
    executable.save(path)
    executable.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["net.hetero"]
    assert oct(path.stat().st_mode & 0o777) == "0o755"


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_something_else_of_that_name_is_left_alone(executable, tmp_path, make):
    path = tmp_path / "precious"
    make(path)
    with pytest.raises(UsageError, match="is no artifact"):
        executable.save(path)
    assert path.exists()


class FailingDisk:
    """Lets `before` writes through and fails the next one, whatever it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
        self.left = before
        for place, name in [
            (artifact, "write_atomic"),
            (artifact.shutil, "copyfile"),
            (artifact.safetensors.numpy, "save_file"),
            (artifact.os, "rename"),
            (artifact, "exchange"),
            (artifact.tempfile, "mkdtemp"),
        ]:
            monkeypatch.setattr(place, name, self._counted(getattr(place, name)))

    def _counted(self, write):
        def counted(*arguments, **options):
            if self.left == 0:
                raise OSError(28, "No space left on device")
            self.left -= 1
            return write(*arguments, **options)

        return counted


@pytest.mark.parametrize("replacing", [False, True])
def test_whichever_write_fails_what_was_there_stays_whole(
    executable, saved, tmp_path, monkeypatch, replacing
):
    target = tmp_path / "net.hetero"
    if replacing:
        shutil.copytree(saved, target)
    failures = 0
    while True:
        with monkeypatch.context() as patch:
            disk = FailingDisk(patch, failures)
            try:
                executable.save(target)
            except ArtifactError as error:
                assert "No space left on device" in str(error)
            else:
                assert disk.left >= 0
                break
        assert [p.name for p in tmp_path.iterdir()] == (["net.hetero"] if replacing else [])
        if replacing:
            assert len(artifact.load_artifact(target).variants) == 2
        failures += 1
    assert failures >= 8, "the folder, weights, plans, libraries, manifest and the rename"
    assert len(artifact.load_artifact(target).variants) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["net.hetero"]


def test_every_file_is_checked(saved, tmp_path):
    files = [p.relative_to(saved) for p in saved.rglob("*") if p.is_file()]
    assert len(files) >= 8
    for number, name in enumerate(files):
        damaged = Path(shutil.copytree(saved, tmp_path / f"{number}.hetero"))
        content = bytearray((damaged / name).read_bytes())
        content[len(content) // 2] ^= 1
        (damaged / name).write_bytes(content)
        with pytest.raises(ArtifactError):
            th.load(damaged)
        os.unlink(damaged / name)
        with pytest.raises(ArtifactError, match=r"missing|expected an artifact"):
            th.load(damaged)


@pytest.mark.parametrize("package", ["tvm_hetero", "apache-tvm", "apache-tvm-ffi"])
def test_another_version_is_refused(copied, package):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["versions"][package] = "0.0.1"
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=rf"built with {package} 0\.0\.1, here is .*build it"):
        th.load(copied)


def test_code_that_this_cpu_cannot_run_is_refused(saved, monkeypatch):
    old = Processor("GenuineIntel", 6, flags=frozenset({"fpu", "sse2"}))
    monkeypatch.setattr(executor, "read_processor", lambda: old)
    with pytest.raises(ArtifactError, match=r"'big' was compiled for .*this CPU lacks .*avx"):
        th.load(saved)


def test_another_format_is_refused(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["format"] = "tvm-hetero/artifact/2"
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="format 'tvm-hetero/artifact/2'"):
        th.load(copied)


def test_a_file_outside_of_the_artifact_is_refused(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["../secret"] = "0" * 64
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="outside of itself"):
        th.load(copied)


def test_what_is_no_artifact_is_refused_with_the_way_to_make_one(tmp_path):
    with pytest.raises(ArtifactError, match="tvm-hetero partition"):
        th.load(tmp_path / "nothing")
