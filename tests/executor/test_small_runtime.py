"""An artifact is loaded and run by TVM's small runtime, in a process without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.models import branchy_inputs
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.executor.executor import Executor

ROOT = Path(__file__).parents[2]

CODE = """
import sys
sys.modules["torch"] = None
import numpy as np, tvm_hetero as th
inputs = dict(np.load(sys.argv[2]))
with th.load(sys.argv[1]) as executor:
    outputs = executor.run({"in/x": inputs["x"], "y": inputs["y"]})
np.savez(sys.argv[3], *(output.numpy() for output in outputs))
heavy = {"tvm.relax", "tvm.s_tir.meta_schedule", "onnx", "scipy", "ortools"}
print(sorted(heavy & set(sys.modules)))
"""


def test_it_runs_without_a_compiler(executable: Executable, tmp_path: Path) -> None:
    executable.save(tmp_path / "net.hetero")
    x, y = branchy_inputs()
    np.savez(tmp_path / "in.npz", x=x, y=y)
    names = [str(tmp_path / name) for name in ("net.hetero", "in.npz", "out.npz")]
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, *names],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    with Executor(executable) as executor, np.load(tmp_path / "out.npz") as found:
        expected = executor.run({"in/x": x, "y": y})
        for want, name in zip(expected, found.files, strict=True):
            assert want.numpy().tobytes() == found[name].tobytes()
