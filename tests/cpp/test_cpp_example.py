"""examples/cpp: built, and run without Python, it computes to the bit what Python does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cpp.cpp_build import call
from tests.frontends.onnx.test_indices import model
from tests.models import (
    branchy,
    branchy_inputs,
    lowered,
    placed,
    random_schedule,
    two_cpus,
    unit_problem,
)
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.annotate_devices import annotate_devices

NAMES = ("in/x", "y")
BATCH = 3


def private_memory() -> Executable:
    """The small model with a device that has a memory of its own."""
    platform = two_cpus()
    big, little = platform.devices
    return build(placed(1, replace(platform, devices=(big, replace(little, private=True)))))


def batches() -> Executable:
    """The small model for batches."""
    module = lowered(branchy(), two_cpus())
    problem = unit_problem(module, two_cpus(), batch=BATCH)
    return build(annotate_devices(module, problem, random_schedule(problem, 1)), single=False)


def outputs_of(
    program: Path, artifact: Path, values: dict[str, np.ndarray], folder: Path, *options: str
) -> list[np.ndarray]:
    """The outputs for these inputs, by way of files."""
    arguments = list(options)
    for i, (name, value) in enumerate(values.items()):
        np.save(folder / f"in{i}.npy", value)
        arguments += ["--input", f"{name}={folder / f'in{i}.npy'}"]
    done = call(program, artifact, "--output", folder / "out", *arguments)
    assert done.returncode == 0, done.stderr
    files = sorted((folder / "out").iterdir(), key=lambda path: int(path.stem))
    return [np.load(path) for path in files]


def check_equal(program: Path, built: Executable, variant: str, inputs: list, folder: Path) -> None:
    built.save(folder / "net.hetero")
    values = dict(zip(NAMES, inputs, strict=True))
    with Executor(built, variant) as executor:
        expected = [out.numpy() for out in executor.run(values)]
    results = outputs_of(program, folder / "net.hetero", values, folder, "--variant", variant)
    assert [r.shape for r in results] == [e.shape for e in expected]
    assert [r.tobytes() for r in results] == [e.tobytes() for e in expected]


@pytest.mark.parametrize("variant", ["partition", "single"])
def test_outputs_are_those_of_python(program, executable, variant, tmp_path):
    check_equal(program, executable, variant, branchy_inputs(), tmp_path)


def test_a_device_with_its_own_memory(program, tmp_path):
    check_equal(program, private_memory(), "partition", branchy_inputs(), tmp_path)


@pytest.mark.parametrize("join", [np.stack, np.concatenate])
def test_batches_in_both_forms(program, join: Callable, tmp_path):
    elements = [branchy_inputs(seed) for seed in range(BATCH)]
    inputs = [join(parts) for parts in zip(*elements, strict=True)]
    check_equal(program, batches(), "partition", inputs, tmp_path)


def test_an_index_out_of_bounds_is_an_error_without_python_too(program, tmp_path):
    source = model("rows")
    module = lowered(from_onnx(source), two_cpus())
    problem = unit_problem(module, two_cpus())
    build(annotate_devices(module, problem, random_schedule(problem, 0))).save(tmp_path / "net")
    np.save(tmp_path / "i.npy", np.array([[0, -6, 1]]))
    done = call(program, tmp_path / "net", "--input", f"i={tmp_path / 'i.npy'}")
    assert done.returncode != 0
    assert "index -6 is out of bounds for axis 0 of size 5 of" in done.stderr


def test_random_inputs_are_told_and_timed(program, saved):
    done = call(program, saved, "--seed", "3", "--repeat", "5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("variant partition, batch of 1")
    assert lines[1].split() == ["input", "in/x", "float32", "1", "4", "8", "8"]
    assert lines[3].split() == ["output", "probabilities", "float32", "1", "10"]
    assert lines[-1].startswith("best of 5 runs: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name an artifact"),
        (["/nowhere"], "/nowhere: expected an artifact"),
        (["{}", "--variant", "../../etc"], "there is no variant '../../etc'"),
        (["{}", "--variant", "other"], "no variant 'other', expected one of 'partition', 'single'"),
        (["{}", "--speed", "9"], "there is no option --speed 9"),
        (["{}", "--input", "z={}/manifest.json"], "there is no input z"),
        (["{}", "--input", "y={}/manifest.json"], "is no .npy file"),
    ],
)
def test_mistakes_are_told(program, saved, arguments, message):
    done = call(program, *(argument.replace("{}", str(saved)) for argument in arguments))
    assert done.returncode == 1
    assert message in done.stderr


def test_an_input_of_another_shape_is_refused(program, saved, tmp_path):
    np.save(tmp_path / "y.npy", np.zeros((2, 8), "float32"))
    done = call(program, saved, "--input", f"y={tmp_path / 'y.npy'}")
    assert done.returncode == 1
    assert "input 'y' is float32[2, 8], expected float32[1, 8]" in done.stderr


OTHER_CPU = 'mount --bind "$0" /proc/cpuinfo && exec "$@"'


def test_kernels_that_the_processor_cannot_run_are_refused(program, saved, tmp_path):
    """In a namespace of its own, where /proc/cpuinfo tells of an old processor."""
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags : fpu sse2 pni\nbugs : none\n")
    elsewhere = ["unshare", "-rm", "sh", "-c", OTHER_CPU, str(tmp_path / "cpuinfo")]
    try:
        subprocess.run([*elsewhere, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system does not allow namespaces")
    done = subprocess.run([*elsewhere, str(program), str(saved)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "device 'big' was compiled for x86-64-v3; this CPU lacks abm, avx, avx2" in done.stderr
    assert "build it again here, or for an older mcpu" in done.stderr


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((), "float64"),
        np.arange(5, dtype="int64"),
        np.zeros((2, 0, 3), "uint8"),
        np.asfortranarray(np.ones((2, 3), "float32")),
        np.array(["text"]),
    ],
)
def test_arrays_that_are_no_input_are_refused(program, saved, value, tmp_path):
    np.save(tmp_path / "y.npy", value)
    done = call(program, saved, "--input", f"y={tmp_path / 'y.npy'}")
    assert done.returncode == 1
    assert "input 'y' is " in done.stderr or "y.npy: its " in done.stderr
