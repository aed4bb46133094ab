"""What a server adds to a model: CPU time, latency, requests a second, beside other servers.

    python -m benchmarks.serve_overhead            writes results/serve_overhead.json
    python -m benchmarks.serve_overhead --models relu    that one; rows of the other are kept
    python -m benchmarks.serve_overhead --folder F       models are built there once, and stay
    python -m benchmarks.serve_overhead --small    ours and tornado, one tiny model, no file

The same model is served by `tvm-hetero serve`, by FastAPI with ONNX Runtime, and by MLServer with
ONNX Runtime, each in a process of its own on the same cores, asked in turns by the same client over
one open connection. MLServer knows no binary tensors. `tornado` is a handler that takes the same
bytes and has an answer of the same length: what HTTP alone costs under the server that we stand on.

    relu        one kernel of 16 numbers: all that is measured is the server
    squeezenet  150,528 numbers in, 3.1 MB as JSON, 0.6 MB as bytes

`cpu_us` is the server's CPU time a request, the least of all rounds: of ours that of Python's
threads, without the kernels'; of the others that of the process less that of `session.run` alone.
`p50_us` and `p99_us` are of requests one by one; `added_` is without what the same request takes
in-process (`executor.run`, `session.run`). `requests_s` is of four clients at once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import tvm_hetero
from benchmarks.calls import MODELS
from benchmarks.conforming.engines import two_cpus
from benchmarks.conforming.rows import ROOT
from benchmarks.documents import dated, write_document
from benchmarks.execution.cases import make_model
from benchmarks.result_rows import read_rows
from benchmarks.serving.client import cores, input_of, one_by_one, request_of, together
from benchmarks.serving.servers import SERVERS, RunningServer, ServedFiles

RESULTS = ROOT / "benchmarks" / "results" / "serve_overhead.json"
SMALL = "relu"
NETWORKS = (SMALL, "squeezenet")
_CLIENTS = 4


@dataclass
class OverheadRow:
    """A server, a model, a form; times in microseconds, None where it was not measured."""

    model: str
    server: str
    form: str
    cpu_us: float = float("inf")
    p50_us: float = 0.0
    p99_us: float = 0.0
    added_p50_us: float = 0.0
    added_p99_us: float = 0.0
    requests_s: float = 0.0
    times: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> list[OverheadRow]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="ours alone, one model, no file")
    parser.add_argument("--models", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--folder", type=Path, default=None, help="where models are, or built")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each block")
    args = parser.parse_args(arguments)
    rounds, seconds = (1, 0.1) if args.small else (args.rounds, args.seconds)
    names = ["ours", "tornado"] if args.small else list(SERVERS)
    print(f"{'model':<12}{'server':<10}{'form':<8}{'CPU us':>9}{'p50 us':>10}{'p99 us':>10}"
          f"{'+p50 us':>10}{'+p99 us':>10}{'req/s':>9}")  # fmt: skip
    rows = []
    with tempfile.TemporaryDirectory(prefix="serve_overhead") as folder:
        for model in (SMALL,) if args.small else args.models:
            files = make_files(model, args.folder or Path(folder), quick=args.small)
            for row in measured(files, names, Path(folder), rounds, seconds):
                rows.append(row)
                print(line_of(row), flush=True)
    if not args.small:
        write_document(RESULTS, "python -m benchmarks.serve_overhead", _merged(rows))
        print(f"written to {RESULTS}")
    return rows


def measured(
    files: ServedFiles, names: Sequence[str], folder: Path, rounds: int, seconds: float
) -> list[OverheadRow]:
    """All servers on one model, in turns."""
    x = input_of(files)
    threads = cores()
    direct = {"ours": direct_run(files, x, seconds), "tornado": (0.0, 0.0, 0.0)}
    if {"fastapi", "mlserver"} & set(names):
        direct["others"] = direct_session(files, x, threads, seconds)
    rows: dict[tuple[str, str], OverheadRow] = {}
    with ExitStack() as stack:
        servers: list[RunningServer] = [
            stack.enter_context(SERVERS[name](files, folder, threads))  # type: ignore[arg-type]
            for name in names
        ]
        for _ in range(rounds):
            for server in servers:
                for form in server.paths:
                    request = request_of(server, form, files, x)
                    row = rows.setdefault(
                        (server.name, form), OverheadRow(files.name, server.name, form)
                    )
                    _measure(row, server, request, seconds)
    for row in rows.values():
        _finish(row, direct.get(row.server) or direct["others"])
    return list(rows.values())


def direct_run(files: ServedFiles, x: Any, seconds: float) -> tuple[float, float, float]:
    """Median, 99th percentile and CPU (not asked for) of `executor.run`, s."""
    with tvm_hetero.load(files.artifact) as executor:
        times, _ = _timed(lambda: executor.run({files.input: x}), seconds)
    return float(np.median(times)), float(np.quantile(times, 0.99)), 0.0


def direct_session(
    files: ServedFiles, x: Any, threads: int, seconds: float
) -> tuple[float, float, float]:
    """Median, 99th percentile and CPU of ONNX Runtime's `session.run`, s."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(files.onnx), options)
    times, cpu = _timed(lambda: session.run(None, {files.input: x}), seconds)
    return float(np.median(times)), float(np.quantile(times, 0.99)), cpu


def make_files(name: str, folder: Path, quick: bool) -> ServedFiles:
    """A model as a file, and partitioned as a user would, where it is not yet; quick: by made-up
    costs."""
    model = MODELS[name]() if name in MODELS else make_model(name)
    path, artifact = folder / f"{name}.onnx", folder / f"{name}.hetero"
    onnx.save(model, path)
    command = [sys.executable, "-m", "tvm_hetero", "partition", str(path), "-o", str(artifact)]
    if quick:
        two_cpus().save(folder / "platform.yaml")
        command += ["--cost-model", "analytical", "--no-measure", "--time-limit", "1",
                    "--platform", str(folder / "platform.yaml")]  # fmt: skip
    if not artifact.exists():
        subprocess.run(command, check=True, cwd=ROOT, capture_output=quick)
    session = onnxruntime.InferenceSession(str(path))
    [info], [made] = session.get_inputs(), session.run(None, _zeros(session))
    return ServedFiles(name, path, artifact, info.name, tuple(info.shape), made.nbytes)


def _zeros(session: onnxruntime.InferenceSession) -> dict[str, Any]:
    return {each.name: np.zeros(each.shape, "float32") for each in session.get_inputs()}


def line_of(row: OverheadRow) -> str:
    """A row of the table."""
    times = (row.cpu_us, row.p50_us, row.p99_us, row.added_p50_us, row.added_p99_us)
    widths = (9, 10, 10, 10, 10)
    text = "".join(f"{value:>{width}.0f}" for value, width in zip(times, widths, strict=True))
    return f"{row.model:<12}{row.server:<10}{row.form:<8}{text}{row.requests_s:>9.1f}"


def _measure(row: OverheadRow, server: RunningServer, request: bytes, seconds: float) -> None:
    times, cpu = one_by_one(server, request, seconds)
    row.times += times
    row.cpu_us = min(row.cpu_us, 1e6 * cpu)
    row.requests_s = max(row.requests_s, together(server, request, seconds, _CLIENTS))


def _finish(row: OverheadRow, direct: tuple[float, float, float]) -> None:
    median, high, cpu = (1e6 * value for value in direct)
    row.p50_us, row.p99_us = (1e6 * float(np.quantile(row.times, q)) for q in (0.5, 0.99))
    row.added_p50_us, row.added_p99_us = row.p50_us - median, row.p99_us - high
    row.cpu_us -= cpu


def _timed(run: Callable[[], object], seconds: float) -> tuple[list[float], float]:
    for _ in range(3):
        run()
    times: list[float] = []
    cpu, end = time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return times, (time.process_time() - cpu) / len(times)


def _merged(rows: Sequence[OverheadRow]) -> list[dict[str, Any]]:
    """These rows, and those of other models that were measured before."""
    anew = {row.model for row in rows}
    found = [*map(_told, rows), *(row for row in read_rows(RESULTS) if row["model"] not in anew)]
    return sorted(found, key=lambda row: NETWORKS.index(row["model"]))


def _told(row: OverheadRow) -> dict[str, Any]:
    return dated({name: value for name, value in asdict(row).items() if name != "times"})


if __name__ == "__main__":
    main()
