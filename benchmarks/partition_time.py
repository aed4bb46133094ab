"""What a user waits for ``tvm-hetero partition``, step by step, with an empty cache and a full one.

    python -m benchmarks.partition_time               writes results/partition_time.json
    python -m benchmarks.partition_time --small       a tiny model, no file (the tests run it)
    python -m benchmarks.partition_time --models yolov8n --modes full --tree ../before
    python -m benchmarks.partition_time --files 320n.onnx --shape images=1x3x320x320

Light models of the onnx wheel, and networks that PyTorch exports
(`benchmarks.execution.torch_nets`, of 171 to 540 nodes), on this machine as the verb divides it:
where all cores as one device may be quicker, that is measured and compiled, too.
Every row is a process of its own, from its start to its end, so what it imports and writes counts:
first with an empty cache (*cold*: links, kernels and network are measured and compiled),
then again with what the first one left (*warm*). Modes: *full*, as the verb does by default, and
*quick* (``--quick``). CPU seconds, children included, stand beside the wall's: on a machine that
others use, they are what to compare. `--tree` measures another checkout of this repository.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

from benchmarks.documents import write_document
from benchmarks.execution.arguments import RESULTS, ROOT
from benchmarks.execution.cases import TINY, make_model

LIGHT = ("squeezenet", "resnet50", "inception_v1", "densenet121")
EXPORTED = ("mobilenet_v3", "yolov8n", "minilm")
MODES = {"full": (), "quick": ("--quick",)}
# The step that is what a process takes beside its steps: it starts, and ends.
START = "Start Python"


@dataclass(frozen=True)
class Row:
    """One process. `seconds` by its steps, wall; `value` is what its plan is predicted to take."""

    model: str
    mode: str
    cache: str
    nodes: int
    tasks: int
    kernels: int
    wall_s: float
    cpu_s: float
    value_s: float
    seconds: dict[str, float]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, quick only, no file")
    parser.add_argument("--models", help="names with commas between (default: all)")
    parser.add_argument("--files", help="ONNX files instead, with commas between")
    parser.add_argument("--shape", action="append", default=[], help="of a file's open input")
    parser.add_argument("--modes", default=",".join(MODES), help="full, quick")
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout whose code is measured")
    parser.add_argument("--output", type=Path, help="JSON file (of all: results/, of some: none)")
    args = parser.parse_args(arguments)
    names = args.models.split(",") if args.models else [*LIGHT, *EXPORTED]
    names = args.files.split(",") if args.files else [TINY] if args.small else names
    modes = ["quick"] if args.small else args.modes.split(",")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for model in names:
            path = make_file(model, Path(name))
            for mode in modes:
                for row in measure(model, path, mode, args.tree, args.shape):
                    print(line(row), flush=True)
                    rows.append(row)
    some = args.small or args.models or args.files or args.tree != ROOT
    output = args.output or (None if some else RESULTS / "partition_time.json")
    if output is not None:
        what = "seconds of `tvm-hetero partition`, with an empty cache and a full one"
        write_document(output, what, map(asdict, rows))
    return rows


def make_file(model: str, folder: Path) -> Path:
    """The ONNX file of a model by its name; a name that is a file's is this file."""
    if Path(model).is_file():
        return Path(model)
    path = folder / f"{model}.onnx"
    if model in EXPORTED:
        from benchmarks.execution.torch_nets import export

        export(model, path)
    else:
        onnx.save(make_model(model), path)
    return path


def measure(
    model: str, path: Path, mode: str, tree: Path = ROOT, shapes: Sequence[str] = ()
) -> list[Row]:
    """A model with an empty cache, then with what that left."""
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [
            sys.executable, "-m", "tvm_hetero", "partition", str(path.resolve()), "--json",
            "-o", str(folder / "net.hetero"), *MODES[mode],
            *(text for shape in shapes for text in ("--shape", shape)),
        ]  # fmt: skip
        return [
            _row(model, mode, cache, nodes, command, folder, tree) for cache in ("cold", "warm")
        ]


def _row(
    model: str, mode: str, cache: str, nodes: int, command: list[str], folder: Path, tree: Path
) -> Row:
    paths = [str(tree.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        "TVM_HETERO_CACHE": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    began, worked = time.perf_counter(), _cpu_seconds()
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=folder, capture_output=True, text=True
    )
    wall, worked = time.perf_counter() - began, _cpu_seconds() - worked
    if done.returncode != 0:
        raise RuntimeError(f"{model}, {mode}, {cache}: {done.stderr}")
    said = json.loads(done.stdout)
    steps = said["seconds"]
    return Row(
        model, mode, cache, nodes, said["tasks"], said["kernels"],
        wall_s=wall,
        cpu_s=worked,
        value_s=said["objective"]["value"],
        seconds={START: wall - sum(steps.values()), **steps},
    )  # fmt: skip


def _cpu_seconds() -> float:
    """CPU time of the children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def line(row: Row) -> str:
    """A row as it is printed: steps of a tenth of a second or more."""
    steps = (f"{step} {one:.1f}" for step, one in row.seconds.items() if one >= 0.1)
    where = f"{row.model} ({row.nodes} nodes), {row.mode}, {row.cache}"
    return f"{where}: {row.wall_s:.1f} s, CPU {row.cpu_s:.1f} s: {', '.join(steps)}"


if __name__ == "__main__":
    main()
