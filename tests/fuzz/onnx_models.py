"""Random ONNX models against ONNX Runtime.

    python -m tests.fuzz.onnx_models [--seconds S] [--first SEED] [--nodes N] [--build]

For each seed a model grows (`growing`, `recipes`).  It is expanded and simplified, and ONNX Runtime
runs what is left beside the model itself; with ``--build`` it is also placed on two CPU devices,
compiled and run.  Differences are printed with their seeds, and the models kept in a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import tvm_hetero as th
from tests.fuzz import quantized_recipes, rarer_recipes  # noqa: F401  (register recipes)
from tests.fuzz.growing import BOOL, FLOAT, INT64, GrowingModel
from tests.fuzz.recipes import RECIPES
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.errors import HeteroError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.conversion import converters  # noqa: F401  (registers them)
from tvm_hetero.frontends.onnx.graph_import import rewrite_graph
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.opsets import convert_opset
from tvm_hetero.frontends.onnx.settled_windows import settle_windows
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition

Arrays = Sequence[np.ndarray[Any, Any]]
OPSETS = (13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)


def grow(seed: int, nodes: int = 12, *, wild: bool = False) -> GrowingModel:
    """A random model of about so many nodes."""
    model = GrowingModel(seed, int(np.random.default_rng(seed).choice(OPSETS)), wild=wild)
    dims = tuple(model.integer(1, 6) for _ in range(model.integer(1, 4)))
    model.add_input(FLOAT, dims)
    model.add_input(FLOAT, (1, 6, 5, 7))
    model.add_input(INT64, (model.integer(1, 5),))
    model.add_input(BOOL, dims)
    for _ in range(6 * nodes):
        if len(model.nodes) >= nodes:
            break
        model.choose(RECIPES)(model)
    return model


def by_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    """What ONNX Runtime makes of it, without its optimizations; None if it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = {i.name for i in session.get_inputs()}
        return list(session.run(None, {k: v for k, v in feeds.items() if k in names}))
    except Exception:
        return None


def expanded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as the importer would see it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    settle_windows(copy)
    convert_opset(copy)
    graph = OnnxGraph(copy)
    rewrite_graph(graph)
    return graph.to_model()


def by_us(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """What the placed and compiled model makes of it."""
    module = from_onnx(model)
    # This machine's own vectors, which users' kernels have, and short ones.
    devices = tuple(
        th.Device(f"cpu{core}", target={"kind": "llvm", "mcpu": mcpu}, cores=(core,),
                  peak_flops=1e11, bandwidth=1e10, launch=1e-6)
        for core, mcpu in enumerate((own_mcpu(), "x86-64-v2"))
    )  # fmt: skip
    link = [th.Link("cpu0", "cpu1", bandwidth=1e10, latency=1e-6),
            th.Link("cpu1", "cpu0", bandwidth=1e10, latency=1e-6)]  # fmt: skip
    placed = partition(
        module, th.Platform(devices, tuple(link)),
        PartitionOptions(cost_model="analytical", time_limit=1),
    )  # fmt: skip
    with th.Executor(th.build(placed.module, single=False)) as executor:
        names = [str(name) for name in module["main"].attrs["hetero_input_names"]]
        return [np.array(o.numpy()) for o in executor.run({n: feeds[n] for n in names})]


def difference(found: Arrays, wanted: Arrays) -> str | None:
    """In what two lists of outputs differ by more than rounding; None if they do not."""
    for i, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"output {i}: {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        scale = float(np.nanmax(np.abs(theirs.astype(np.float64)), initial=1.0))
        scale = scale if np.isfinite(scale) else 1e30
        if not np.allclose(ours, theirs, rtol=2e-3, atol=2e-5 * scale, equal_nan=True):
            return f"output {i}: {ours.ravel()[:6]}, not {theirs.ravel()[:6]}"
    return None


def attempt(seed: int, nodes: int, build: bool) -> tuple[str, str]:
    """What became of the model of a seed: same, refused, invalid, or wrong; and why."""
    grown = grow(seed, nodes)
    model, feeds = grown.model(), grown.feeds()
    wanted = by_onnxruntime(model, feeds)
    if wanted is None:
        return "invalid", ""
    try:
        left = by_onnxruntime(expanded(model), feeds)
        if left is None:
            return "wrong", "ONNX Runtime refuses what expansion makes"
        found = difference(left, wanted)
        if found is None and build:
            found = difference(by_us(model, feeds), wanted)
    except HeteroError as error:
        return "refused", str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    return ("same", "") if found is None else ("wrong", found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for models that differ")
    args = parser.parse_args(arguments)
    counts: dict[str, int] = {}
    for seed in seeds(args):
        status, why = attempt(seed, args.nodes, args.build)
        counts[status] = counts.get(status, 0) + 1
        if status in ("wrong", "refused"):
            print(seed, status, " ".join(why.split())[:300], flush=True)
        if status == "wrong" and args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            onnx.save(grow(seed, args.nodes).model(), args.keep / f"{seed}.onnx")
    return conclude(__file__, args.first, counts, counts.get("wrong", 0))


if __name__ == "__main__":
    sys.exit(main())
