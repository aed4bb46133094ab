"""A network that ends early where it is sure: predicted beside measured, and ONNX Runtime.

    python -m benchmarks.early_exit             writes results/early_exit.json
    python -m benchmarks.early_exit --small     seconds (the tests run it)

Convolutions, a classifier behind the first few, and an ``If``: on bright images the classifier's
answer is the network's; else the other convolutions run and the classifier behind them answers.
Plans are for two devices of a core each. The value of the first one is that of a request of which
both branches ran (docs/control-flow.md); the others are told how often requests end early, and
their value is that of the mean request. Measured are requests that end early, and requests that do
not, in turns with ONNX Runtime, which is a process of its own with its defaults.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

import tvm_hetero as th
from benchmarks.documents import write_document
from benchmarks.execution.cases import two_devices
from benchmarks.execution.onnxruntime_peer import median_ms, serve_onnxruntime
from benchmarks.spawned_process import SpawnedProcess
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition

OUTPUT = Path(__file__).parent / "results" / "early_exit.json"
PROBABILITIES = (None, 0.5, 0.9)
_CLASSES, _PAUSE = 10, 0.3

Array = NDArray[np.float32]


@dataclass(frozen=True)
class EarlyExitRow:
    """One network: milliseconds, medians. `probability` is how often requests end early, as the
    plan was told, None if it was not; `predicted` is its value, and `mean` what it predicts: of so
    many early and late requests, or of late ones. `difference` is the largest deviation from ONNX
    Runtime, relative.
    """

    stages: int
    channels: int
    probability: float | None
    predicted: float
    mean: float
    early: float
    late: float
    ort_early: float
    ort_late: float
    difference: float


def network(stages: int, channels: int, pixels: int) -> onnx.ModelProto:
    """The network: `stages` convolutions, the exit behind the first quarter of them."""
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {"sure": np.array(0.0, np.float32)}
    first = max(1, stages // 4)
    nodes = [
        *_convolutions(rng, weights, "image", range(first), channels),
        *_classifier(rng, weights, f"h{first - 1}", "early", channels),
        helper.make_node("ReduceMean", ["image"], ["brightness"], keepdims=0),
        helper.make_node("Greater", ["brightness", "sure"], ["ends"]),
    ]
    rest = _convolutions(rng, weights, f"h{first - 1}", range(first, stages), channels)
    rest += _classifier(rng, weights, f"h{stages - 1}", "late", channels)
    shape = [1, _CLASSES]
    value = helper.make_tensor_value_info
    then = helper.make_graph(
        [helper.make_node("Identity", ["early"], ["answer"])],
        "then",
        [],
        [value("answer", 1, shape)],
    )
    other = helper.make_graph(rest, "other", [], [value("late", 1, shape)])
    nodes.append(helper.make_node("If", ["ends"], ["logits"], then_branch=then, else_branch=other))
    graph = helper.make_graph(
        nodes, f"early_exit_{stages}",
        [value("image", 1, [1, channels, pixels, pixels])], [value("logits", 1, shape)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _convolutions(
    rng: np.random.Generator, weights: dict[str, Any], source: str, stages: range, channels: int
) -> list[NodeProto]:
    nodes = []
    for stage in stages:
        scale = np.sqrt(2 / (9 * channels))
        weights[f"w{stage}"] = (rng.standard_normal((channels, channels, 3, 3)) * scale).astype(
            np.float32
        )
        nodes += [
            helper.make_node("Conv", [source, f"w{stage}"], [f"c{stage}"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"c{stage}"], [f"h{stage}"]),
        ]
        source = f"h{stage}"
    return nodes


def _classifier(
    rng: np.random.Generator, weights: dict[str, Any], source: str, name: str, channels: int
) -> list[NodeProto]:
    weights[f"{name}_w"] = rng.standard_normal((channels, _CLASSES)).astype(np.float32)
    return [
        helper.make_node("GlobalAveragePool", [source], [f"{name}_pooled"]),
        helper.make_node("Flatten", [f"{name}_pooled"], [f"{name}_flat"]),
        helper.make_node("MatMul", [f"{name}_flat", f"{name}_w"], [name]),
    ]


def images(channels: int, pixels: int) -> tuple[Array, Array]:
    """One that ends early, and one that does not."""
    noise = np.random.default_rng(1).standard_normal((1, channels, pixels, pixels))
    return (noise + 1).astype(np.float32), (noise - 1).astype(np.float32)


def measured(
    size: tuple[int, int, int],
    probability: float | None,
    *,
    runs: int,
    rounds: int,
    cost_model: str = "profiled",
) -> EarlyExitRow:
    """Build the network, and measure it in turns with ONNX Runtime."""
    stages, channels, pixels = size
    model, feeds = network(*size), images(channels, pixels)
    given = {} if probability is None else {"ends": probability}
    options = PartitionOptions(time_limit=5, probabilities=given, cost_model=cost_model)
    placed = partition(from_onnx(model), two_devices(), options)
    own: list[list[float]] = [[], []]
    their: list[list[float]] = [[], []]
    with (
        SpawnedProcess(serve_onnxruntime, model.SerializeToString(), feeds, runs) as peer,
        th.Executor(th.build(placed.module, single=False)) as executor,
    ):
        found = [executor.run({"image": image})[0].numpy() for image in feeds]
        for _ in range(rounds):
            for column, image in zip(own, feeds, strict=True):
                column.append(median_ms(partial(executor.run, {"image": image}), runs))
            time.sleep(_PAUSE)
            peer.pipe.send("once more")
            times, results = peer.pipe.recv()
            for column, each in zip(their, times, strict=True):
                column.append(each)
            time.sleep(_PAUSE)
    pairs = zip(found, results, strict=True)
    early, late, ort_early, ort_late = (statistics.median(column) for column in (*own, *their))
    return EarlyExitRow(
        stages=stages,
        channels=channels,
        probability=probability,
        predicted=1e3 * float(placed.schedule.value),
        mean=late if probability is None else probability * early + (1 - probability) * late,
        early=early,
        late=late,
        ort_early=ort_early,
        ort_late=ort_late,
        difference=max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args(arguments)
    sizes = [(4, 8, 16)] if args.small else [(8, 64, 56), (16, 128, 28), (32, 64, 28)]
    effort = {"runs": 3, "rounds": 1} if args.small else {"runs": 30, "rounds": 7}
    cost_model = "quick" if args.small else "profiled"
    given = PROBABILITIES[-1:] if args.small else PROBABILITIES
    rows = [measured(size, p, **effort, cost_model=cost_model) for size in sizes for p in given]
    for row in rows:
        of = "late requests" if row.probability is None else f"{row.probability:.0%} early ones"
        print(
            f"{row.stages} stages of {row.channels}, {of}: predicted {row.predicted:.3f} ms, "
            f"measured {row.mean:.3f} ({row.late:.3f} late, {row.early:.3f} early); ONNX Runtime "
            f"{row.ort_late:.3f}, {row.ort_early:.3f}; difference {row.difference:.1e}"
        )
    output = args.output or (None if args.small else OUTPUT)
    if output is not None:
        write_document(output, "early exits", [asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
