"""Requests a second of a model that mostly reads weights, with a plan for four and without.

    python -m benchmarks.serve_batching            writes results/serve_batching.json
    python -m benchmarks.serve_batching --build F  only makes the artifacts, in a folder
    python -m benchmarks.serve_batching --from F   measures with those
    python -m benchmarks.serve_batching --small    seconds, no file (the tests run it)

AlexNet, of which nine weights of ten are in dense layers: read once for four elements they cost a
quarter. So many clients ask for one element each, and ask again when they are answered; client
and server share the cores. Both servers run at once and are asked in turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.documents import rounded, write_document
from benchmarks.execution.cases import TINY, make_model, two_devices
from benchmarks.execution.contenders import build_plan
from benchmarks.serve_soaking.process import SoakedServer, soaked_server
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.problem import Objective
from tvm_hetero.serve.load_test.bodies import RequestHead, infer_request
from tvm_hetero.serve.load_test.client import ClientPool
from tvm_hetero.serve.load_test.run import closed_loop, fetch_metadata, in_loop
from tvm_hetero.util.statistics import quantile

RESULTS = Path(__file__).with_name("results") / "serve_batching.json"
MODEL = "model"
_NETWORK = "bvlc_alexnet"
BATCH = 4
_CLIENTS = (1, 2, 4, 8, 16)
_TURNS = 2

Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Build, measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="only make the artifacts")
    parser.add_argument("--from", type=Path, metavar="FOLDER", help="artifacts that were made")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS})")
    given = parser.parse_args(arguments)
    if given.build:
        make_artifacts(given.build, small=given.small)
        return []
    made: Path | None = vars(given)["from"]
    with tempfile.TemporaryDirectory() as own:
        if made is None:
            make_artifacts(Path(own), small=given.small)
        rows = _measure(made or Path(own), given.small)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in rounded(row).items()), flush=True)
    output = given.output or (None if given.small else RESULTS)
    if output is not None:
        write_document(output, "python -m benchmarks.serve_batching", rows)
    return rows


def make_artifacts(folder: Path, *, small: bool) -> None:
    """One for an element, one for `BATCH` at once, as users make them."""
    folder.mkdir(parents=True, exist_ok=True)
    for size in (1, BATCH):
        path = folder / f"{size}.hetero"
        if small:
            built = build_plan(make_model(TINY), two_devices(), Objective("latency", size), 2.0,
                               small=True, adaptable=True)  # fmt: skip
            built.executable.save(path)
            continue
        subprocess.run(
            [sys.executable, "-m", "tvm_hetero", "partition", str(light_models()[_NETWORK]),
             "--random-weights", "0", "--batch", str(size), "--no-measure", "-o", str(path)],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def _measure(folder: Path, small: bool) -> list[Row]:
    """A row for each number of clients and each server; of the turns the best."""
    counts, seconds = ((1, 6), 0.3) if small else (_CLIENTS, 1.5)
    with _servers(folder, small) as servers:
        rows = []
        for count in counts:
            turns = [
                [_row(name, server, count, seconds) for name, server in servers.items()]
                for _ in range(1 if small else _TURNS)
            ]
            rows += [
                max(row, key=lambda one: float(one["requests_s"]))
                for row in zip(*turns, strict=True)
            ]
        return rows


@contextmanager
def _servers(folder: Path, small: bool) -> Iterator[Mapping[str, SoakedServer]]:
    one, many = folder / "1.hetero", folder / f"{BATCH}.hetero"
    with ExitStack() as stack:
        found = {}
        for name, given in (("one by one", f"{one}"), (f"batches of {BATCH}", f"{one},{many}")):
            if not small or name != "one by one":
                found[name] = stack.enter_context(soaked_server([f"{MODEL}={given}"]))
        yield found


def _row(name: str, server: SoakedServer, clients: int, seconds: float) -> Row:
    before = _counts(server)
    taken = in_loop(_ask(server, clients, seconds))
    items, runs = (now - was for now, was in zip(_counts(server), before, strict=True))
    return {
        "clients": clients, "server": name, "requests_s": len(taken) / seconds,
        "p50_ms": 1e3 * quantile(taken, 0.5), "p99_ms": 1e3 * quantile(taken, 0.99),
        "a_run": items / max(1, runs),
    }  # fmt: skip


async def _ask(server: SoakedServer, clients: int, seconds: float) -> list[float]:
    pool = ClientPool("127.0.0.1", server.port, clients)
    head = RequestHead(f"127.0.0.1:{server.port}", None, {})
    request = infer_request(head, await fetch_metadata(pool, head, MODEL), binary=True)
    run = await closed_loop(pool, {MODEL: request}, clients, seconds)
    wrong = [record for record in run.records if record.status != 200]
    if wrong:
        raise RuntimeError(f"expected answers, got {wrong[0]}")
    return sorted(record.latency for record in run.records)


def _counts(server: SoakedServer) -> tuple[int, int]:
    """Elements that were computed, and runs of plans that did it."""
    [row] = server.fetch(f"/v2/models/{MODEL}/stats")["model_stats"]
    return int(row["inference_count"]), int(row["execution_count"])


if __name__ == "__main__":
    main()
