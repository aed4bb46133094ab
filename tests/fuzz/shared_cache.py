"""Several models are partitioned at once on one cache, some of them killed: all others are right.

    python -m tests.fuzz.shared_cache [--count N] [--seconds S] [--first SEED] [--models M]

A *round* draws models whose kernels are the same here and there, while their weights never are,
empties the cache or keeps it, and starts a process for each model; one or none is killed at a
random moment. Then must hold:

    status     each that was not killed ends well, and says nothing of a fault
    values     each artifact computes what ONNX Runtime does
    again      who was killed is built again beside what he left, and is right
    cache      its database is sound
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.models import two_cpus
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import largest_relative_error
from tvm_hetero.executor.tensors import as_array

ROOT = Path(__file__).parents[2]
# Sums in another order.
TOLERANCE = 1e-4
# How long a build takes on an idle machine, s; who is killed is so within that, and a build that
# takes fifty times as long hangs.
_BUILD, _PATIENCE = 6.0, 300.0
_BAD_WORDS = ("Traceback", "Segmentation", "terminate called", "Fatal Python")


def draw_model(seed: int) -> onnx.ModelProto:
    """Some convolutions of few shapes, with weights of the seed."""
    rng = np.random.default_rng(seed)
    weights, nodes, name, channels = [], [], "x", 4
    for i in range(int(rng.integers(1, 4))):
        out, size = int(rng.choice([4, 8])), int(rng.choice([1, 3]))
        values = rng.standard_normal((out, channels, size, size), np.float32)
        weights.append(numpy_helper.from_array(values, f"w{i}"))
        pads = [size // 2] * 4
        nodes.append(helper.make_node("Conv", [name, f"w{i}"], [f"c{i}"], pads=pads))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        name, channels = f"r{i}", out
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["y"]))
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in (("x", [1, 4, 12, 12]), ("y", [1, channels, 1, 1]))
    ]
    graph = helper.make_graph(nodes, f"net{seed}", *ends, initializer=weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def run_round(seed: int, folder: Path, models: int) -> list[str]:
    """Do it in a folder, whose ``cache`` is the cache; the faults."""
    rng = random.Random(seed)
    cache = folder / "cache"
    if rng.random() < 0.5:
        shutil.rmtree(cache, ignore_errors=True)
    two_cpus().save(folder / "two.yaml")
    names = [f"net{i}" for i in range(models)]
    for i, name in enumerate(names):
        onnx.save(draw_model(seed * models + i), folder / f"{name}.onnx")
        shutil.rmtree(folder / f"{name}.hetero", ignore_errors=True)
    victim = rng.choice([*names, None])
    building = {name: _start(folder, name, cache) for name in names}
    if victim is not None:
        _kill(building[victim], rng.uniform(0.5, _BUILD))
    faults = [
        f"{name}: {fault}"
        for name, process in building.items()
        for fault in _end(process, folder / f"{name}.log", killed=name == victim)
    ]
    if victim is not None:
        shutil.rmtree(folder / f"{victim}.hetero", ignore_errors=True)
        again = _start(folder, victim, cache)
        faults += [f"{victim} again: {fault}" for fault in _end(again, folder / f"{victim}.log")]
    for name in names:
        faults += [f"{name}: {fault}" for fault in value_faults(folder, name)]
    return [*faults, *_cache_faults(cache)]


def _start(folder: Path, name: str, cache: Path) -> subprocess.Popen[bytes]:
    command = (
        f"partition {name}.onnx -o {name}.hetero --platform two.yaml --time-limit 1 --no-measure"
    )
    environment = os.environ | {"TVM_HETERO_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tvm_hetero", *command.split()], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _kill(process: subprocess.Popen[bytes], moment: float) -> None:
    """End it and its children in that many seconds, as a machine does that has no memory left."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)


def _end(process: subprocess.Popen[bytes], log: Path, *, killed: bool = False) -> Iterator[str]:
    try:
        status = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        yield f"it did not end within {_PATIENCE:.0f} s"
        return
    if killed:
        return
    said = log.read_text(errors="replace")
    if status != 0 or any(words in said for words in _BAD_WORDS):
        yield f"status {status}: {said[-1500:]}"


def value_faults(folder: Path, name: str) -> Iterator[str]:
    """What is wrong with what a built model computes."""
    artifact = folder / f"{name}.hetero"
    if not artifact.exists():
        yield "it has no artifact"
        return
    with Executor(load_artifact(artifact)) as executor:
        inputs = executor.random_inputs(0)
        found = [as_array(value) for value in executor.run(inputs)]
    session = onnxruntime.InferenceSession(folder / f"{name}.onnx")
    off = largest_relative_error(session.run(None, inputs), found)
    if off > TOLERANCE:
        yield f"its output is off by {off:.3g} of the largest value"


def _cache_faults(cache: Path) -> Iterator[str]:
    databases = sorted(cache.glob("*.sqlite"))
    if not databases:
        yield "the cache has no database"
    for path in databases:
        with contextlib.closing(sqlite3.connect(path)) as database:
            if database.execute("pragma integrity_check").fetchall() != [("ok",)]:
                yield f"damaged: {path.name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds; the status says whether all went well."""
    parser = harness_parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=3, help="how many at once")
    given = parser.parse_args(arguments)
    outcomes = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="shared_cache.") as folder:
        for seed in seeds(given):
            faults = run_round(seed, Path(folder), given.models)
            outcomes["faults" if faults else "well"] += 1
            print(f"round {seed}: {'; '.join(faults) or 'well'}", flush=True)
    return conclude(__file__, given.first, outcomes, outcomes["faults"])


if __name__ == "__main__":
    sys.exit(main())
