"""How far interpolated costs of a size are from measured ones.

    python -m benchmarks.open_sizes --file rec.onnx --shape x=1x3x48x160..640/32
    python -m benchmarks.open_sizes --small           a tiny model, one size between two

Of the range the smallest, the middle and the largest size are measured, kernel by kernel
(``profiled-alone``), and then sizes halfway between them, for which
`tvm_hetero.sizes.interpolated_costs` is asked too. A row a size: seconds of all kernels, measured
and interpolated, and by which factor single kernels are off.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_hetero.cli.shared.open_shapes import parse_open_shapes
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import CostModel
from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.sizes.axes import OpenShapes, Size, size_name
from tvm_hetero.sizes.interpolated_costs import InterpolatedCosts
from tvm_hetero.sizes.read_axes import read_axes


@dataclass(frozen=True)
class SizeRow:
    """One size between measured ones: sums of seconds, and kernels' factors (1: no error)."""

    size: str
    kernels: int
    measured_s: float
    interpolated_s: float
    median_factor: float
    p90_factor: float


def main(arguments: Sequence[str] | None = None) -> list[SizeRow]:
    """Measure and print; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model")
    parser.add_argument("--file", type=Path, help="an ONNX model")
    parser.add_argument("--shape", action="append", help="with a range")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path, shapes = args.file, args.shape
        if args.small:
            path, shapes = write_tiny(Path(folder) / "tiny.onnx"), ["x=1x8x8x16..64/16"]
        opened = parse_open_shapes(shapes)
        if path is None or opened is None:
            raise UsageError("give --file and --shape with a range, or --small")
        rows = compare(path, read_axes(path, opened), one_device())
    for row in rows:
        print(line(row))
    return rows


def one_device() -> Platform:
    """This machine's first device, alone."""
    found = Platform.detect()
    return Platform((found.devices[0],), (), name=found.name)


def compare(path: Path, inputs: OpenShapes, platform: Platform) -> list[SizeRow]:
    """Measure the first sizes of a range, and those between them against their interpolation."""
    first = inputs.first_sizes
    halfway = [_between(inputs, *pair) for pair in pairwise(first)]

    def problem(size: Size, costs: CostModel) -> Problem:
        module = from_onnx(path, shapes=inputs.shapes_at(size))
        return make_problem(module, platform, PartitionOptions(cost_model=costs)).problem

    known = [problem(size, ProfiledCosts(in_place=False)) for size in first]
    rows = []
    for size in [size for size in halfway if size not in first]:
        measured = problem(size, ProfiledCosts(in_place=False))
        guess = problem(size, InterpolatedCosts(known, ProfiledCosts(in_place=False)))
        rows.append(_row(size, measured, guess))
    return rows


def line(row: SizeRow) -> str:
    """A row, in words."""
    return (
        f"size {row.size}: {row.kernels} kernels take {1e3 * row.measured_s:.2f} ms, interpolated "
        f"{1e3 * row.interpolated_s:.2f} ms; kernels are off by a factor of "
        f"{row.median_factor:.2f} (median), {row.p90_factor:.2f} (nine in ten less)"
    )


def _between(inputs: OpenShapes, low: Size, high: Size) -> Size:
    """A size of the range in the middle of two."""
    return tuple(
        min(axis.sizes, key=lambda n: abs(2 * n - a - b))
        for axis, a, b in zip(inputs.axes, low, high, strict=True)
    )


def _row(size: Size, measured: Problem, guess: Problem) -> SizeRow:
    device = measured.platform.names[0]
    both = measured.costs, guess.costs
    pairs = np.array([[c[t.id][device].seconds(1) for c in both] for t in measured.tasks])
    off = np.exp(np.abs(np.log(pairs[:, 1] / pairs[:, 0])))
    total = pairs.sum(axis=0)
    return SizeRow(
        size_name(size), len(pairs), float(total[0]), float(total[1]),
        float(np.median(off)), float(np.quantile(off, 0.9)),
    )  # fmt: skip


def write_tiny(path: Path) -> Path:
    """Two convolutions on a picture of open width."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (16, 8, 3, 3), "w1": (8, 16, 3, 3)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["y"], pads=[1, 1, 1, 1]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, "width"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "tiny", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opset), path)
    return path


if __name__ == "__main__":
    main()
