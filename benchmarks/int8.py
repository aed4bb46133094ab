"""Networks in bytes, on one core: one QDQ file by our kernels, ONNX Runtime and OpenVINO.

    python -m benchmarks.int8                         all networks, results/int8.json
    python -m benchmarks.int8 --models resnet50       this one's row of the file alone
    python -m benchmarks.int8 --small                 squeezenet, few runs, no file
    python -m benchmarks.int8 --folder F --make       make what F lacks of the networks, no runs;
    python -m benchmarks.int8 --folder F              then run what is in F

Each light model of the onnx wheel with seeded random weights, cut off before its softmax, and other
networks at their full size (`benchmarks.execution.networks`), is quantised as ``tvm-hetero
partition --precision int8`` does where every node is worth it
(`tvm_hetero.frontends.onnx.post_training`): what these nodes read becomes codes, their sums stay
float32 until the next one reads them. That one file runs by all three in turns, beside our float32.
Errors are the largest relative ones from our float32, on inputs that calibration has not seen.
Where OpenVINO is not installed its column is empty. VGG-19, of 575 MB of weights, is left out.

Rows are written one by one; each says of which commit and day it is, the file's head what holds of
the last one.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import dated, write_document
from benchmarks.execution.int8_networks import is_made, make_int8_network, read_int8_network
from benchmarks.execution.networks import NETWORKS
from benchmarks.models import in_turns, model_parser, parse_with_folder
from benchmarks.result_rows import read_rows
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import largest_relative_error

RESULTS = Path(__file__).resolve().parent / "results" / "int8.json"
FLOAT32, OURS, ORT, OPENVINO = "float32", "int8", "onnxruntime", "openvino"
MODELS = tuple(name for name in NETWORKS if name != "vgg19")
_ROUNDS = 15
_FRESH = range(5000, 5003)

Inputs = dict[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Int8Row:
    """One model on one core.

    Attributes
    ----------
    nodes : that were quantised.
    tasks : of ours.
    seconds : of one run, the least, by program.
    errors : of outputs, against our float32.
    """

    model: str
    nodes: int
    tasks: int
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)

    def share(self, other: str) -> float | None:
        """Our time over that of the other; None where it was not measured."""
        return self.seconds[OURS] / self.seconds[other] if other in self.seconds else None


def main(arguments: Sequence[str] | None = None) -> list[Int8Row]:
    """Make networks, measure, print and write; the rows."""
    args = _arguments(arguments)
    names = args.models or (("squeezenet",) if args.small else MODELS)
    rows = []
    with ExitStack() as stack:
        root = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(_HEAD)
        for name in names:
            if not is_made(root / name):
                make_int8_network(name, root / name)
            if args.make:
                continue
            row, commit = measure(name, root / name, 1 if args.small else _ROUNDS)
            rows.append(row)
            print(_line(row), flush=True)
            if not args.small:
                _write(row, commit)
    if rows:
        print(summary(rows))
    return rows


def _write(row: Int8Row, commit: str) -> None:
    """Put a row into the file, in place of the model's last one."""
    rows = {each["model"]: each for each in read_rows(RESULTS)} if RESULTS.exists() else {}
    rows[row.model] = dated(asdict(row)) | {"commit": commit}
    write_document(RESULTS, "python -m benchmarks.int8", [rows[name] for name in sorted(rows)])


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = model_parser(__doc__, MODELS)
    return parse_with_folder(parser, arguments)


def measure(name: str, folder: Path, rounds: int) -> tuple[Int8Row, str]:
    """One model that was made, by all programs in turns; the commit that made it."""
    note, plain, codes, file = read_int8_network(folder)
    with ExitStack() as stack:
        ours, narrow = (stack.enter_context(Executor(each)) for each in (plain, codes))
        runs = {
            FLOAT32: lambda values: [each.numpy() for each in ours.run(values)],
            OURS: lambda values: [each.numpy() for each in narrow.run(values)],
            ORT: _onnxruntime(file),
            **_openvino(file),
        }
        errors = _errors(runs, [ours.random_inputs(seed) for seed in _FRESH])
        given = ours.random_inputs(_FRESH[0])
        calls = [partial(run, given) for run in runs.values()]
        times = in_turns(calls, time.perf_counter, rounds)
    seconds = {key: min(taken) for key, taken in zip(runs, times, strict=True)}
    return Int8Row(name, note.nodes, note.tasks, seconds, errors), note.commit


Run = Callable[[Inputs], Any]


def _onnxruntime(file: bytes) -> Run:
    """ONNX Runtime on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda values: session.run(None, values)


def _openvino(file: bytes) -> dict[str, Run]:
    """OpenVINO on one thread, by its defaults else; nothing where it is not installed."""
    if importlib.util.find_spec("openvino") is None:
        return {}
    import openvino

    core = openvino.Core()
    how = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    model = core.read_model(io.BytesIO(file))
    request = core.compile_model(model, "CPU", how).create_infer_request()

    def run(values: Inputs) -> list[np.ndarray[Any, Any]]:
        found = request.infer(list(values.values()))
        return [np.asarray(value) for value in found.values()]

    return {OPENVINO: run}


def _errors(runs: dict[str, Run], fresh: Sequence[Inputs]) -> dict[str, float]:
    """The worst error of each program on inputs that nobody has seen."""
    worst = {key: 0.0 for key in runs if key != FLOAT32}
    for values in fresh:
        expected = runs[FLOAT32](values)
        for key in worst:
            worst[key] = max(worst[key], largest_relative_error(expected, runs[key](values)))
    return worst


_HEAD = (
    f"{'model':<14}{'nodes':>6}{'tasks':>6}{'float32':>9}{'int8':>9}{'ORT':>9}{'OV':>9}"
    f"{'/f32':>7}{'/ORT':>7}{'/OV':>7}{'error':>9}{'ORT':>9}{'OV':>9}"
)


def _line(row: Int8Row) -> str:
    times = [row.seconds.get(key) for key in (FLOAT32, OURS, ORT, OPENVINO)]
    shares = [row.share(key) for key in (FLOAT32, ORT, OPENVINO)]
    errors = [row.errors.get(key) for key in (OURS, ORT, OPENVINO)]
    parts = [f"{'-' if s is None else f'{1e3 * s:.2f}':>9}" for s in times]
    parts += [f"{'-' if s is None else f'{s:.2f}':>7}" for s in shares]
    parts += [f"{'-' if e is None else f'{e:.1e}':>9}" for e in errors]
    return f"{row.model:<14}{row.nodes:>6}{row.tasks:>6}{''.join(parts)}"


def summary(rows: Sequence[Int8Row]) -> str:
    """Geometric means of our time over the others'."""
    parts = []
    for title, key in (("float32", FLOAT32), ("ONNX Runtime", ORT), ("OpenVINO", OPENVINO)):
        shares = [share for row in rows if (share := row.share(key)) is not None]
        if shares:
            parts.append(f"{title} {geometric_mean(shares):.2f}")
    return f"geometric means of our time in int8 over: {', '.join(parts)}"


if __name__ == "__main__":
    main()
