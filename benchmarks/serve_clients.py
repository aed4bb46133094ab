"""What `tvm-hetero load-test` says of a server, beside what wrk says of it.

    python -m benchmarks.serve_clients           writes results/serve_clients.json
    python -m benchmarks.serve_clients --small   a few seconds, writes nothing

wrk (Debian's package) knows closed loops only, so both ask in closed loops: so many connections,
each of which asks again when it is answered, with the same bytes. They take turns, several times,
because the machine is not equally quick all the time; medians are compared. The request takes some
10 ms: clients share the server's cores, and one in Python takes more of them than one in C.
Throughput and the median latency should agree within 5 %.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.documents import write_document
from benchmarks.execution.cases import TINY, make_model, two_devices
from benchmarks.execution.contenders import build_plan
from benchmarks.serve_soaking.process import SoakedServer, soaked_server
from tvm_hetero.problem import Objective
from tvm_hetero.serve.load_test.bodies import RequestHead, infer_request
from tvm_hetero.serve.load_test.client import ClientPool
from tvm_hetero.serve.load_test.run import closed_loop, fetch_metadata, in_loop
from tvm_hetero.util.statistics import summarize

RESULTS = Path(__file__).parent / "results" / "serve_clients.json"
MODEL = "model"
_SERVICE = 0.01
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class ClientFigures:
    """What a client says: requests/s that were answered, and quantiles of their latency (s)."""

    rate: float
    p50: float
    p90: float


@dataclass(frozen=True)
class ClientRow:
    """Medians of both at one concurrency, and of ours as a multiple of wrk's in the same turn."""

    at_once: int
    ours: ClientFigures
    wrk: ClientFigures
    rate_ratio: float
    p50_ratio: float
    p90_ratio: float


def main(arguments: Sequence[str] | None = None) -> list[ClientRow]:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--output", type=Path, default=None)
    args = parser.parse_args(arguments)
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not there: apt-get install wrk")
    seconds, rounds = (1, 1) if args.small else (2, 12)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / f"{MODEL}.hetero"
        model = make_model(TINY)
        built = build_plan(model, two_devices(), Objective("throughput"), 2.0, small=True,
                           adaptable=True)  # fmt: skip
        built.executable.save(path)
        with soaked_server([str(path)]) as server:
            request = in_loop(make_request(server))
            rows = [compare(server, request, folder, n, seconds, rounds) for n in (1, 4)]
    for row in rows:
        print(f"{row.at_once} at once: ours {row.ours.rate:.4g}/s, p50 {1e3 * row.ours.p50:.3g} ms;"
              f" wrk {row.wrk.rate:.4g}/s, p50 {1e3 * row.wrk.p50:.3g} ms; ratios "
              f"{row.rate_ratio:.3f}, {row.p50_ratio:.3f}, p90 {row.p90_ratio:.3f}")  # fmt: skip
    output = args.output or (None if args.small else RESULTS)
    if output is not None:
        write_document(output, "python -m benchmarks.serve_clients", map(asdict, rows),
                       seconds=seconds, rounds=rounds)  # fmt: skip
    return rows


async def make_request(server: SoakedServer) -> bytes:
    """A request that takes some 10 ms."""
    pool = ClientPool("127.0.0.1", server.port, 1)
    head = RequestHead(f"127.0.0.1:{server.port}", None, {})
    metadata = await fetch_metadata(pool, head, MODEL)
    one = {MODEL: infer_request(head, metadata, binary=True)}
    run = await closed_loop(pool, one, 1, 1.0)
    pool.close()
    items = max(1, round(_SERVICE / summarize([r.latency for r in run.records]).median))
    return infer_request(head, metadata, binary=True, items=items)


def compare(
    server: SoakedServer, request: bytes, folder: Path, at_once: int, seconds: int, rounds: int
) -> ClientRow:
    """Both in turns."""
    script = folder / "request.lua"
    write_script(script, request)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(in_loop(ask_ourselves(server.port, request, at_once, seconds)))
        command = ["wrk", "-t1", f"-c{at_once}", f"-d{seconds}s", "--latency", "-s", str(script),
                   f"http://127.0.0.1:{server.port}"]  # fmt: skip
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        theirs.append(read_wrk(said))
    pairs = [
        ClientFigures(a.rate / b.rate, a.p50 / b.p50, a.p90 / b.p90)
        for a, b in zip(ours, theirs, strict=True)
    ]
    return ClientRow(at_once, _medians(ours), _medians(theirs), *_as_tuple(_medians(pairs)))


async def ask_ourselves(port: int, request: bytes, at_once: int, seconds: float) -> ClientFigures:
    """A closed loop of our own client."""
    pool = ClientPool("127.0.0.1", port, at_once)
    run = await closed_loop(pool, {MODEL: request}, at_once, seconds)
    pool.close()
    assert all(record.status == 200 for record in run.records), "all are answered"
    found = summarize([record.latency for record in run.records])
    span = max(record.ended for record in run.records)
    return ClientFigures(len(run.records) / span, found.median, found.p90)


def write_script(path: Path, request: bytes) -> None:
    """A script by which wrk sends these very bytes."""
    quoted = "".join(f"\\{byte:03d}" for byte in request)
    path.write_text(f'local r = "{quoted}"\nrequest = function() return r end\n')


def read_wrk(text: str) -> ClientFigures:
    """What wrk printed.

    Raises
    ------
    RuntimeError
        If some of its requests failed.
    """
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(f"wrk had errors:\n{text}")
    found: Mapping[str, str] = dict(re.findall(r"^ +(\d+)% +([\d.]+\w+)$", text, re.M))
    rate = re.search(r"^Requests/sec: +([\d.]+)$", text, re.M)
    if rate is None or not {"50", "90"} <= set(found):
        raise RuntimeError(f"wrk printed what is not understood:\n{text}")
    return ClientFigures(float(rate[1]), _seconds(found["50"]), _seconds(found["90"]))


def _seconds(text: str) -> float:
    number = re.fullmatch(r"([\d.]+)(us|ms|s)", text)
    assert number is not None, text
    return float(number[1]) * _UNITS[number[2]]


def _medians(found: Sequence[ClientFigures]) -> ClientFigures:
    return ClientFigures(
        *(statistics.median(values) for values in zip(*map(_as_tuple, found), strict=True))
    )


def _as_tuple(figures: ClientFigures) -> tuple[float, float, float]:
    return figures.rate, figures.p50, figures.p90


if __name__ == "__main__":
    main()
