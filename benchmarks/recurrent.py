"""LSTM, GRU and RNN beside ONNX Runtime, on one core.

    python -m benchmarks.recurrent              all, writes results/recurrent.json
    python -m benchmarks.recurrent --cell GRU   one of the cells
    python -m benchmarks.recurrent --small      seconds (the tests run it)

One node with constant weights, as many inputs as units: the input's product for all steps and the
recurrence (`tvm_hetero.kernels.recurrent`). Both sides run in one child process, pinned to one
core, in blocks that take turns; the time is that of the thread, the least and the median of all
runs.

Goal: ONNX Runtime's time, the geometric mean and for each case.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from benchmarks.child_rows import keep_to_cores, rows_of_child
from benchmarks.documents import write_document
from benchmarks.kernel_cases.contest import scheduled
from benchmarks.models import in_turns
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.executor.native import load_library
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "recurrent.json"
_AFTER = "GRU, reset after"
# Operator, gates, attributes.
CELLS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "LSTM": ("LSTM", 4, {}),
    "LSTM, both directions": ("LSTM", 4, {"direction": "bidirectional"}),
    "GRU": ("GRU", 3, {}),
    _AFTER: ("GRU", 3, {"linear_before_reset": 1}),
    "RNN": ("RNN", 1, {}),
}
# Steps, sequences, units.
_SIZES = (
    (200, 1, 64), (100, 1, 128), (100, 1, 200), (50, 1, 256), (50, 1, 512),
    (1, 1, 128), (100, 4, 128), (50, 16, 256),
)  # fmt: skip
_SMALL_SIZES = ((4, 2, 20),)
_ROUNDS = 15


@dataclass(frozen=True)
class RecurrentRow:
    """One node; seconds, and the largest difference of its results.

    ``others`` is how many cores other programs kept busy.
    """

    cell: str
    steps: int
    batch: int
    hidden: int
    ours_s: float
    ours_median_s: float
    ort_s: float
    ort_median_s: float
    error: float
    others: float

    @property
    def ratio(self) -> float:
        """Our time over ONNX Runtime's, the least of each."""
        return self.ours_s / self.ort_s


def main(arguments: Sequence[str] | None = None) -> list[RecurrentRow]:
    """Measure in a child process, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--cell", choices=list(CELLS), help="only this one")
    parser.add_argument("--small", action="store_true", help="tiny sizes, no file")
    parser.add_argument("--target", default=own_mcpu(), help="LLVM's -mcpu")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.child:
        _measure_all(args)
        return []
    rows = []
    print(
        f"{'cell':<24}{'steps':>6}{'batch':>6}{'units':>6}{'ours us':>10}{'ORT us':>10}{'ratio':>7}"
    )
    for row in _in_child(args):
        rows.append(row)
        sizes = f"{row.steps:>6}{row.batch:>6}{row.hidden:>6}"
        times = f"{1e6 * row.ours_s:>10.1f}{1e6 * row.ort_s:>10.1f}"
        print(f"{row.cell:<24}{sizes}{times}{row.ratio:>7.2f}", flush=True)
    worst = max(rows, key=lambda row: row.ratio)
    mean = geometric_mean([row.ratio for row in rows])
    print(f"our time / ONNX Runtime's: geometric mean {mean:.2f}, worst {worst.ratio:.2f} "
          f"({worst.cell}, {worst.hidden} units)")  # fmt: skip
    if not (args.small or args.cell):
        command = "python -m benchmarks.recurrent"
        write_document(RESULTS, command, map(asdict, rows), target=args.target)
        print(f"written to {RESULTS}")
    return rows


def _in_child(args: argparse.Namespace) -> Iterator[RecurrentRow]:
    """The rows that a process of its own prints as lines of JSON."""
    options = ["--target", args.target, *(["--cell", args.cell] if args.cell else [])]
    options += ["--small"] if args.small else []
    for row in rows_of_child("benchmarks.recurrent", options):
        yield RecurrentRow(**row)


def _measure_all(args: argparse.Namespace) -> None:
    """In the child: before any kernel, this process gets its core and TVM's threads theirs."""
    keep_to_cores(1)
    target = tvm.target.Target({"kind": "llvm", "mcpu": args.target, "num-cores": 1})
    load_library()  # kernels' workspaces are in huge pages, as in the executor
    for cell in [args.cell] if args.cell else CELLS:
        for sizes in _SMALL_SIZES if args.small else _SIZES:
            row = measure(cell, sizes, target, 1 if args.small else _ROUNDS)
            print(json.dumps(asdict(row)), flush=True)


def recurrent_node(cell: str, sizes: tuple[int, int, int]) -> onnx.ModelProto:
    """One node with random weights of about the size that training starts from."""
    (operator, gates, attributes), (steps, batch, hidden) = CELLS[cell], sizes
    rng, directions = np.random.default_rng(0), 2 if "direction" in attributes else 1
    shapes = {
        "W": (directions, gates * hidden, hidden), "R": (directions, gates * hidden, hidden),
        "B": (directions, 2 * gates * hidden),
    }  # fmt: skip
    weights = [
        numpy_helper.from_array(
            rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(hidden**0.5), name
        )
        for name, shape in shapes.items()
    ]
    names = ["x", *shapes]
    node = helper.make_node(operator, names, ["y", "y_h"], hidden_size=hidden, **attributes)
    kind = TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", kind, [steps, batch, hidden])]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name in node.output]
    graph = helper.make_graph([node], cell, inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def measure(
    cell: str, sizes: tuple[int, int, int], target: tvm.target.Target, rounds: int
) -> RecurrentRow:
    """Build one node, compare it with ONNX Runtime and time both."""
    model = recurrent_node(cell, sizes)
    module = scheduled(LowerToTasks([target])(from_onnx(model)), target)
    vm = relax.VirtualMachine(tvm.compile(module, target, tir_pipeline=PIPELINE), tvm.cpu())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    steps, batch, hidden = sizes
    x = np.random.default_rng(1).standard_normal((steps, batch, hidden), dtype=np.float32)
    tensor, function = tvm.runtime.tensor(x), vm["main"]
    pairs = zip(function(tensor), session.run(None, {"x": x}), strict=True)
    error = max(float(np.abs(ours.numpy() - theirs).max()) for ours, theirs in pairs)
    neighbours = Neighbours()
    sides = [lambda: function(tensor), lambda: session.run(None, {"x": x})]
    ours, ort = in_turns(sides, time.thread_time, rounds)
    return RecurrentRow(
        cell, *sizes, min(ours), statistics.median(ours), min(ort), statistics.median(ort),
        error, neighbours.busy_cores(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
