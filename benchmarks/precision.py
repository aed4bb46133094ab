"""Networks in float32, in bfloat16 and by ``auto``, on one core: time and error, beside OpenVINO.

    python -m benchmarks.precision                    all networks, results/precision.json
    python -m benchmarks.precision --models resnet50,squeezenet --accuracy 3e-3
    python -m benchmarks.precision --small            squeezenet, few runs, no file
    python -m benchmarks.precision --models NAME --output FILE        rows beside those of FILE
    python -m benchmarks.precision --folder F --make  make what F lacks of the networks, no runs;
    python -m benchmarks.precision --folder F         then run what is in F

Each light model of the onnx wheel with seeded random weights, cut off before its softmax, and other
networks at their full size (`benchmarks.execution.networks`). A model is partitioned for a platform
of one core three times (kernels are measured once), and the three artifacts run in turns. Errors
are the largest relative ones of outputs, on inputs that neither calibration nor its check has seen
(`benchmarks.precision_errors` says more of them).
Where OpenVINO is installed it runs in the same turns, by default (bfloat16, where the processor has
it) and with the hint float32; else these columns are empty.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.documents import dated, write_document
from benchmarks.execution.argument_types import output_file
from benchmarks.execution.fresh_inputs import FIRST
from benchmarks.execution.networks import NETWORKS, load_network
from benchmarks.execution.precision_networks import (
    is_made,
    make_precision_network,
    read_precision_network,
)
from benchmarks.models import SMALL, in_turns, model_parser, parse_with_folder
from benchmarks.precision_errors import EACH
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.executor.executor import Executor
from tvm_hetero.pipeline.options import ACCURACY, CHECKS
from tvm_hetero.problem.precision_promise import AUTO, BFLOAT16, FLOAT32

RESULTS = Path(__file__).resolve().parent / "results" / "precision.json"
_ROUNDS = 15
# Fresh inputs of each kind, and inputs that are held out for the promise.
_SMALL_COUNTS = 2, 30
_OPENVINO = ("openvino", "openvino f32")


@dataclass(frozen=True)
class PrecisionRow:
    """One model on one core.

    Attributes
    ----------
    seconds : of one run, the least, by precision (and by OpenVINO's, where it is there).
    errors, narrow, predicted, tasks : as they are of a `PrecisionNetwork`.
    """

    model: str
    tasks: int
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    narrow: dict[str, int] = field(default_factory=dict)
    predicted: float | None = None

    def share(self, one: str, other: str) -> float | None:
        """The time of one over that of the other; None where one was not measured."""
        if one not in self.seconds or other not in self.seconds:
            return None
        return self.seconds[one] / self.seconds[other]


def main(arguments: Sequence[str] | None = None) -> list[PrecisionRow]:
    """Measure, print and write; the rows."""
    args = _arguments(arguments)
    names = args.models or (SMALL if args.small else NETWORKS)
    complete = (names, args.accuracy) == (NETWORKS, ACCURACY)
    output = None if args.small else args.output or (RESULTS if complete else None)
    kept = _rows_of_others(args.output, names) if args.output and args.output.exists() else []
    rows = []
    print(_HEAD)
    with ExitStack() as stack:
        root = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in names:
            if not is_made(root / name):
                counts = _SMALL_COUNTS if args.small else (EACH, CHECKS)
                make_precision_network(name, args.accuracy, root / name, *counts)
            if args.make:
                continue
            row, commit = measure(name, root / name, 1 if args.small else _ROUNDS)
            rows.append(row)
            print(_line(row), flush=True)
            if output is not None:  # each time: the next takes long
                kept.append(dated(asdict(row)) | {"commit": commit})
                write_document(
                    output, "python -m benchmarks.precision", kept, accuracy=args.accuracy
                )
    if args.make:
        return []
    print(summary(rows))
    return rows


def _rows_of_others(path: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """A file's rows of other models, each with the commit and the day on which it was measured."""
    document = json.loads(path.read_text("utf-8"))
    head = {key: document[key] for key in ("commit", "date") if key in document}
    return [{**head, **row} for row in document["rows"] if row["model"] not in names]


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = model_parser(__doc__, NETWORKS)
    parser.add_argument("--accuracy", type=float, default=ACCURACY, help="of auto")
    parser.add_argument("--output", type=output_file, help="a file of results, whose rows stay")
    return parse_with_folder(parser, arguments)


def measure(name: str, folder: Path, rounds: int) -> tuple[PrecisionRow, str]:
    """One model that was made, in all precisions in turns; the commit that made it."""
    network, executables = read_precision_network(folder)
    with ExitStack() as stack:
        executors = {
            precision: stack.enter_context(Executor(executable))
            for precision, executable in executables.items()
        }
        inputs = executors[FLOAT32].random_inputs(FIRST)
        runs: dict[str, Callable[[], Any]] = {
            precision: partial(executor.run, inputs) for precision, executor in executors.items()
        }
        runs |= _openvino(load_network(name), inputs)
        times = in_turns(list(runs.values()), time.perf_counter, rounds)
    seconds = {key: min(taken) for key, taken in zip(runs, times, strict=True)}
    known = {
        each.name: getattr(network, each.name)
        for each in fields(PrecisionRow)
        if each.name not in ("model", "seconds")
    }
    return PrecisionRow(name, seconds=seconds, **known), network.commit


def _openvino(
    proto: onnx.ModelProto, inputs: dict[str, np.ndarray[Any, Any]]
) -> dict[str, Callable[[], Any]]:
    """OpenVINO on one thread, by default and in float32; nothing where it is not installed."""
    if importlib.util.find_spec("openvino") is None:
        return {}
    import io

    import openvino

    core = openvino.Core()
    model = core.read_model(io.BytesIO(proto.SerializeToString()))
    hints = ({}, {"INFERENCE_PRECISION_HINT": "f32"})
    runs: dict[str, Callable[[], Any]] = {}
    for key, hint in zip(_OPENVINO, hints, strict=True):
        how = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", **hint}
        request = core.compile_model(model, "CPU", how).create_infer_request()
        runs[key] = partial(request.infer, list(inputs.values()))
    return runs


_HEAD = (
    f"{'model':<14}{'tasks':>6}{'float32':>9}{'bfloat16':>9}{'auto':>9}{'bf16/f32':>9}"
    f"{'auto/f32':>9}{'narrow':>9}{'error':>9}{'auto':>9}{'predicted':>10}"
    f"{'OV ms':>9}{'OV f32':>9}"
)


def _line(row: PrecisionRow) -> str:
    times = "".join(f"{1e3 * row.seconds[key]:>9.2f}" for key in (FLOAT32, BFLOAT16, AUTO))
    shares = "".join(f"{row.share(key, FLOAT32):>9.2f}" for key in (BFLOAT16, AUTO))
    counts = f"{row.narrow[BFLOAT16]}, {row.narrow[AUTO]}"
    errors = "".join(f"{row.errors[key]:>9.1e}" for key in (BFLOAT16, AUTO))
    predicted = "-" if row.predicted is None else f"{row.predicted:.1e}"
    peers = [row.seconds.get(key) for key in _OPENVINO]
    others = "".join(f"{'-' if s is None else f'{1e3 * s:.2f}':>9}" for s in peers)
    return f"{row.model:<14}{row.tasks:>6}{times}{shares}{counts:>9}{errors}{predicted:>10}{others}"


def summary(rows: Sequence[PrecisionRow]) -> str:
    """Geometric means, and the worst error of auto."""
    parts = []
    default, plain = _OPENVINO
    pairs = [
        ("bfloat16 / float32", BFLOAT16, FLOAT32), ("auto / float32", AUTO, FLOAT32),
        ("bfloat16 / OpenVINO", BFLOAT16, default), ("float32 / OpenVINO's", FLOAT32, plain),
    ]  # fmt: skip
    for title, one, other in pairs:
        shares = [share for row in rows if (share := row.share(one, other)) is not None]
        if shares:
            parts.append(f"{title} {geometric_mean(shares):.2f}")
    worst = max(row.errors[AUTO] for row in rows)
    return f"geometric means of times: {', '.join(parts)}; worst error of auto {worst:.1e}"


if __name__ == "__main__":
    main()
