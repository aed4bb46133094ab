"""Artifacts: what is saved is what is loaded, and nothing half-written or changed is taken."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_hetero as th
from tests.models import (
    branchy_inputs,
    lowered,
    random_schedule,
    two_cpus,
    unit_problem,
)
from tvm_hetero.artifact import manifest as manifests
from tvm_hetero.artifact import read, write
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import ArtifactError, HeteroError, UsageError
from tvm_hetero.executor import loading
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.attributes import INPUT_NAMES, OUTPUT_NAMES
from tvm_hetero.platform import Link, Platform
from tvm_hetero.platform.host import Processor
from tvm_hetero.util import files

X, Y = branchy_inputs()
INPUTS = {"in/x": X, "y": Y}


def test_loaded_it_computes_the_same(executable, saved):
    with Executor(executable) as before, th.load(saved) as after:
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
            (write, "write_atomic"),
            (write.shutil, "copyfile"),
            (write.safetensors.numpy, "save_file"),
            (files.os, "rename"),
            (files, "exchange_names"),
            (files, "temporary_folder"),
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
            assert len(read.load_artifact(target).variants) == 2
        failures += 1
    assert failures >= 8, "the folder, weights, plans, libraries, manifest and the rename"
    assert len(read.load_artifact(target).variants) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["net.hetero"]


@pytest.mark.parametrize("limit", [50, 2_000, 20_000])
def test_a_real_disk_that_takes_no_more(executable, tmp_path, limit):
    """The kernel refuses every write beyond `limit` bytes of a file: no stand-in for the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(ArtifactError, match=r"cannot be written: .*File too large"):
            executable.save(tmp_path / "net.hetero")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    executable.save(tmp_path / "net.hetero")
    assert len(read.load_artifact(tmp_path / "net.hetero").variants) == 2


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


def test_an_artifact_is_refused_after_an_edit_of_the_sources(saved, monkeypatch):
    monkeypatch.setattr(manifests, "code_version", lambda: "unreleased+src.0123456789ab")
    with pytest.raises(ArtifactError, match=r"\+src\.\w+, here is unreleased\+src\.0123456789ab;"):
        th.load(saved)


def test_code_that_this_cpu_cannot_run_is_refused(saved, monkeypatch):
    old = Processor("GenuineIntel", 6, flags=frozenset({"fpu", "sse2"}))
    monkeypatch.setattr(loading, "read_processor", lambda: old)
    with pytest.raises(ArtifactError, match=r"'big' was compiled for .*this CPU lacks .*avx"):
        th.load(saved)


def test_another_format_is_refused(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["format"] = "tvm-hetero/artifact/1"
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"format 'tvm-hetero/artifact/1'.*build it again"):
        th.load(copied)


def test_it_says_how_its_default_was_decided(executable, tmp_path):
    decision = {"measured": {"partition": 2.0, "single": 1.0}, "chosen": "single"}
    replace(executable, default="single", decision=decision).save(tmp_path / "net.hetero")
    loaded = read.load_artifact(tmp_path / "net.hetero")
    assert (loaded.default, loaded.decision) == ("single", decision)
    assert manifests.read_manifest(tmp_path / "net.hetero")["decision"] == decision
    loaded.save(tmp_path / "again.hetero")
    assert read.load_artifact(tmp_path / "again.hetero").decision == decision
    assert executable.decision is None


def test_all_variants_share_a_library_a_device(executable, saved):
    libraries = {path.name for path in saved.glob("**/*.so")}
    assert libraries == {"big.so", "little.so"}
    for name, variant in read.load_artifact(saved).variants.items():
        assert {path.parent for path in variant.libraries.values()} == {saved}
        assert variant.plan == executable.variants[name].plan
        assert variant.tasks == executable.variants[name].tasks


def test_a_file_outside_of_the_artifact_is_refused(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["../secret"] = "0" * 64
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="outside of itself"):
        th.load(copied)


def without_kernels(path: Path) -> None:
    """Take ``kernels.json`` from an artifact."""
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["files"]["kernels.json"]
    (path / "kernels.json").unlink()
    (path / "manifest.json").write_text(json.dumps(manifest))


def test_it_says_how_each_kernel_is_computed(executable, saved):
    choices = read.read_choices(saved)
    assert choices == read.load_artifact(saved).choices == executable.choices
    placement = executable.schedule.placement
    placed = {(t.op, device) for t in executable.problem.tasks for device in placement[t.id]}
    assert placed <= {(choice.kernel, choice.device) for choice in choices}
    assert "packed" in {choice.rule for choice in choices}


def test_an_artifact_that_does_not_say_what_its_kernels_take_is_refused(copied):
    without_kernels(copied)
    for reader in (read.load_artifact, read.read_choices):
        with pytest.raises(ArtifactError, match=r"files has no kernels\.json\); build it again"):
            reader(copied)


def test_choices_of_another_format_are_refused(copied):
    text = (copied / "kernels.json").read_text().replace("kernels/1", "kernels/9")
    (copied / "kernels.json").write_text(text)
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["kernels.json"] = hashlib.sha256(text.encode()).hexdigest()
    (copied / "manifest.json").write_text(json.dumps(manifest))
    for reader in (th.load, read.read_choices):
        with pytest.raises(ArtifactError, match="kernels/9"):
            reader(copied)


def test_words_of_damaged_weights_are_shown_safely(copied):
    """The package that reads them quotes what it finds."""
    content = (copied / "weights.safetensors").read_bytes()
    damaged = content.replace(b'"F32"', '"\u202eX"'.encode(), 1)
    length = int.from_bytes(content[:8], "little") + len(damaged) - len(content)
    damaged = length.to_bytes(8, "little") + damaged[8:]
    (copied / "weights.safetensors").write_bytes(damaged)
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["weights.safetensors"] = hashlib.sha256(damaged).hexdigest()
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"damaged .*\\u202eX.*build it again") as refused:
        th.load(copied)
    assert str(refused.value).isprintable()


def test_a_module_that_is_no_text_is_refused(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    (copied / "module.json").write_bytes(b"\xff\xfe")
    manifest["files"]["module.json"] = hashlib.sha256(b"\xff\xfe").hexdigest()
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"damaged .*utf-8.*build it again"):
        th.load(copied)


def test_what_is_no_artifact_is_refused_with_the_way_to_make_one(tmp_path):
    with pytest.raises(ArtifactError, match="tvm-hetero partition"):
        th.load(tmp_path / "nothing")


def times(
    factor: float, platform: Platform | None = None, names: tuple[str, str] = ("x", "y")
) -> tvm.IRModule:
    """``softmax(x) * factor`` and the softmax, placed with a kernel on each device."""
    platform = platform or two_cpus()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    attrs = {INPUT_NAMES: [names[0]], OUTPUT_NAMES: [names[1], "soft"]}
    with builder.function("main", [x], attrs=attrs):
        with builder.dataflow():
            soft = builder.emit(relax.op.nn.softmax(x))
            scaled = builder.emit(relax.op.multiply(soft, relax.const(np.float32(factor))))
            out = builder.emit_output(relax.Tuple([scaled, soft]))
        builder.emit_func_output(out)
    module = lowered(builder.get(), platform)
    problem = unit_problem(module, platform)
    for seed in range(100):
        schedule = random_schedule(problem, seed)
        if len({execution.device for execution in schedule.executions}) == 2:
            return annotate_devices(module, problem, schedule)
    raise AssertionError("one kernel only")


def factor_of(executor: Any, name: str = "x") -> float:
    """The factor of `times`: what its first output adds up to."""
    return float(executor.run({name: np.zeros(4, "float32")})[0].numpy().sum())


def test_built_again_under_its_name_the_new_model_runs(tmp_path):
    # glibc gives back the library that it loaded from a path before, whatever stands there now.
    path = tmp_path / "net.hetero"
    build(times(2.0)).save(path)
    with th.load(path) as old:
        assert factor_of(old) == 2.0
        build(times(5.0)).save(path)
        with th.load(path) as new:
            assert factor_of(new) == 5.0
        assert factor_of(old) == 2.0, "the one that was loaded before stays what it was"


def test_a_loaded_executable_can_be_saved_again_even_in_its_place(copied, tmp_path):
    loaded = read.load_artifact(copied)
    loaded.save(tmp_path / "other.hetero")
    loaded.save(copied)
    with th.load(tmp_path / "other.hetero") as one, th.load(copied) as other:
        expected = [out.numpy().tobytes() for out in one.run(INPUTS)]
        assert [out.numpy().tobytes() for out in other.run(INPUTS)] == expected


def test_through_a_symbolic_link_what_it_leads_to_is_replaced(copied, tmp_path):
    link = tmp_path / "link.hetero"
    link.symlink_to(copied)
    build(times(3.0)).save(link)
    assert link.is_symlink()
    with th.load(copied) as executor:
        assert factor_of(executor) == 3.0
    assert {p.name for p in tmp_path.iterdir()} == {"net.hetero", "link.hetero"}


@pytest.mark.parametrize(
    "names", [("..", "."), ("manifest", "plan.json"), ("partition", "single"), ("-rf", "...")]
)
def test_names_of_devices_lead_nowhere(tmp_path, names):
    base = two_cpus()
    devices = tuple(replace(d, name=n) for d, n in zip(base.devices, names, strict=True))
    platform = replace(base, devices=devices, links=(Link(*names), Link(*names[::-1])))
    build(times(2.0, platform)).save(tmp_path / "net.hetero")
    assert [p.name for p in tmp_path.iterdir()] == ["net.hetero"]
    inside = {p.name for p in (tmp_path / "net.hetero").iterdir() if p.suffix == ".so"}
    assert inside == {f"{names[0]}.so", f"{names[1]}.so"}
    with th.load(tmp_path / "net.hetero") as executor:
        assert factor_of(executor) == 2.0


@pytest.mark.parametrize(
    "names", [("gpu_0/data_0", "a@0"), ("é \U0001f600", '\n"\\'), ("..", ""), ("x" * 3000, "\0")]
)
def test_names_of_tensors_are_kept_whatever_they_are(tmp_path, names):
    build(times(2.0, names=names)).save(tmp_path / "net.hetero")
    with th.load(tmp_path / "net.hetero") as executor:
        assert executor.outputs == (names[1], "soft")
        assert factor_of(executor, names[0]) == 2.0


def spots(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON document: a container and a key in it."""
    rows = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in rows:
        yield document, key
        if isinstance(value, dict | list):
            yield from spots(value)


def damage(document: Any, rng: random.Random) -> None:
    """Leave a value out, or put something else there."""
    container, key = rng.choice(list(spots(document)))
    if rng.random() < 0.3:
        del container[key]
    else:
        container[key] = rng.choice([None, -1, 0, 10**30, 1.5, "x", "", [], {}, [1], {"a": 1}])


@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_document_says_it_runs_or_is_refused(copied, seed):
    rng = random.Random(seed)
    name = rng.choice(["manifest.json", "partition/plan.json", "problem.json", "schedule.json"])
    document = json.loads((copied / name).read_text())
    damage(document, rng)
    (copied / name).write_text(json.dumps(document))
    if name != "manifest.json":
        manifest = json.loads((copied / "manifest.json").read_text())
        manifest["files"][name] = hashlib.sha256((copied / name).read_bytes()).hexdigest()
        (copied / "manifest.json").write_text(json.dumps(manifest))
    try:
        with th.load(copied) as loaded:
            assert len(loaded.run(INPUTS)) == len(loaded.outputs)
            assert len(loaded.trace()) == len(loaded.plan.steps)
    except HeteroError as error:
        assert str(error)


def test_a_library_that_the_manifest_does_not_vouch_for_is_refused(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    del manifest["files"]["big.so"]
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"'files' lacks 'big\.so'"):
        th.load(copied)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_kernel_that_is_not_there_cannot_write_on_the_terminal(copied, is_known):
    """Its name in plan.json is the author's text; of one that the library lacks C++ quotes it."""
    documents = {
        name: json.loads((copied / name).read_text())
        for name in ("partition/plan.json", "kernels.json", "manifest.json")
    }
    step = next(step for step in documents["partition/plan.json"]["steps"] if step.get("calls"))
    takes = documents["kernels.json"]["takes"]
    if is_known:
        own = next(row for row in takes if row["kernel"] == step["calls"][0]["kernel"])
        takes.append({**own, "kernel": "\x1b[31mred"})
    step["calls"][0]["kernel"] = "\x1b[31mred"
    for name, document in documents.items():
        (copied / name).write_text(json.dumps(document))
        content = (copied / name).read_bytes()
        documents["manifest.json"]["files"][name] = hashlib.sha256(content).hexdigest()
    del documents["manifest.json"]["files"]["manifest.json"]
    (copied / "manifest.json").write_text(json.dumps(documents["manifest.json"]))
    message = "no kernel" if is_known else "nothing says what kernel"
    with pytest.raises(ArtifactError, match=rf"{message} '\\x1b\[31mred'") as refused:
        th.load(copied)
    assert str(refused.value).isprintable()
