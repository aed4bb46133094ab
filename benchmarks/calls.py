"""What a run costs from Python beside ONNX Runtime, of models that take a few microseconds or less.

    python -m benchmarks.calls                     writes results/calls.json
    python -m benchmarks.calls --small             one model, made-up costs (the tests run it)

Each model is partitioned by `tvm-hetero partition`, as a user's file is, and timed as the files of
`benchmarks.zoo_of_files` are: from NumPy arrays to NumPy arrays, each side in a process of its own
on all cores, blocks of runs in turns. The least of all runs counts, which noise moves least; the
median stands beside it.

    relu       one kernel of 16 numbers: all of its time is the call's
    pair       two inputs, two outputs
    wake-word  1,536 numbers, three dense layers: as the files of openwakeword are
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.conforming.rows import ROOT
from benchmarks.documents import write_document
from benchmarks.file_zoo.attempt import FileRow, whole
from benchmarks.file_zoo.cases import FileCase

RESULTS = ROOT / "benchmarks" / "results" / "calls.json"
SMALL = "relu"
_LIMIT = 300.0
_SEED = 0


def main(arguments: Sequence[str] | None = None) -> list[FileRow]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="one model, made-up costs, no file")
    args = parser.parse_args(arguments)
    names = [SMALL] if args.small else list(MODELS)
    print(f"{'model':<12}{'ours us':>9}{'median':>9}{'ORT us':>9}{'median':>9}{'ratio':>7}")
    rows = []
    for name in names:
        rows.append(measured(name, args.small))
        print(line_of(rows[-1]), flush=True)
    if not args.small:
        write_document(RESULTS, "python -m benchmarks.calls", map(asdict, rows))
        print(f"written to {RESULTS}")
    return rows


def measured(name: str, quick: bool) -> FileRow:
    """A model in both, in turns."""
    with tempfile.TemporaryDirectory(prefix="calls") as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(MODELS[name](), path)
        return whole(FileCase(name, "made here", path.name), path, _LIMIT, quick)


def line_of(row: FileRow) -> str:
    """A model's line of the table."""
    times = (row.ours_s, row.ours_median_s, row.runtime_s, row.runtime_median_s)
    if row.ratio is None:
        return f"{row.name:<12}{row.outcome}: {row.reason}"
    text = "".join(f"{1e6 * (seconds or 0):>9.1f}" for seconds in times)
    return f"{row.name:<12}{text}{row.ratio:>7.2f}"


def _relu() -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"])
    return _model([node], {"x": (1, 16)}, {"y": (1, 16)})


def _pair() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Mul", ["a", "b"], ["product"]),
    ]
    shape = (1, 16)
    return _model(nodes, {"a": shape, "b": shape}, {"sum": shape, "product": shape})


def _wake_word() -> onnx.ModelProto:
    sizes = (1536, 128, 128, 1)
    rng = np.random.default_rng(_SEED)
    weights, nodes = [], [helper.make_node("Flatten", ["x"], ["h0"])]
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        weight = rng.standard_normal((columns, rows)).astype("float32") / np.sqrt(rows)
        weights += [
            numpy_helper.from_array(weight.astype("float32"), f"w{i}"),
            numpy_helper.from_array(np.zeros(columns, "float32"), f"b{i}"),
        ]
        nodes += [
            helper.make_node("Gemm", [f"h{i}", f"w{i}", f"b{i}"], [f"g{i}"], transB=1),
            helper.make_node("Sigmoid" if columns == 1 else "Relu", [f"g{i}"], [f"h{i + 1}"]),
        ]
    return _model(nodes, {"x": (1, 16, 96)}, {"h3": (1, 1)}, weights)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    weights: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    def declared(types: dict[str, tuple[int, ...]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in types.items()
        ]

    graph = helper.make_graph(nodes, "calls", declared(inputs), declared(outputs), weights)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "relu": _relu, "pair": _pair, "wake-word": _wake_word,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(any(row.outcome != "right" for row in main()))
