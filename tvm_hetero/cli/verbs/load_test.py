"""``tvm-hetero load-test``: what a server does under load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.options import check_writable
from tvm_hetero.cli.shared.serving import read_key, read_levels
from tvm_hetero.errors import UsageError
from tvm_hetero.util.units import format_seconds

if TYPE_CHECKING:
    from tvm_hetero.serve.load_test.bodies import RequestHead
    from tvm_hetero.serve.load_test.records import LoadRun


@dataclass(frozen=True)
class _Asked:
    """What is asked of a server, and how hard."""

    address: tuple[str, int]
    head: RequestHead
    models: Mapping[str, float]
    rates: Sequence[float]
    at_once: Sequence[int]
    trace: Path | None
    seconds: float
    seed: int
    binary: bool
    items: int
    connections: int


def load_test(
    url: Annotated[str, typer.Argument(metavar="URL", help="http://HOST:PORT of a server.")],
    model: Annotated[
        list[str], typer.Option("--model", metavar="NAME[=SHARE]", help="Asked; may be repeated.")
    ],
    rate: Annotated[
        list[float] | None,
        typer.Option("--rate", min=0.0, help="Requests/s of all models; one run for each."),
    ] = None,
    at_once: Annotated[
        list[int] | None,
        typer.Option("--at-once", min=1, help="A closed loop of so many clients instead."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Lines SECONDS[,MODEL] say when to ask.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.01, help="Of each run.")] = 10.0,
    slo: Annotated[
        list[str] | None,
        typer.Option("--slo", metavar="NAME=20ms", help="Counted against; several levels may be."),
    ] = None,
    deadline: Annotated[
        bool, typer.Option("--deadline", help="Tell the server the shortest SLO as a deadline.")
    ] = False,
    binary: Annotated[
        bool, typer.Option("--binary/--text", help="Tensors as bytes, or as JSON.")
    ] = True,
    items: Annotated[int, typer.Option("--items", min=1, help="Elements of a request.")] = 1,
    connections: Annotated[int, typer.Option("--connections", min=1, max=900)] = 256,
    key_file: Annotated[Path | None, typer.Option("--key-file", help="The server's key.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of arrivals and inputs.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write a page with charts.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
) -> None:
    """Ask a server by a clock, and print what it did."""
    from tvm_hetero.cli.shared.pages import write_page
    from tvm_hetero.serve.load_test.bodies import RequestHead
    from tvm_hetero.serve.load_test.client import split_url
    from tvm_hetero.serve.load_test.page import load_page
    from tvm_hetero.serve.load_test.run import in_loop

    if sum(map(bool, (rate, at_once, trace))) != 1:
        raise UsageError("say how hard to ask: one of --rate (--rate 20), --at-once and --trace")
    host, port = split_url(url)
    levels = read_levels(slo or ())
    limits = {name: times[0] for name, times in levels.items()} if deadline else {}
    key = read_key(key_file)
    check_writable(out, "--out")
    asked = _Asked(
        (host, port), RequestHead(f"{host}:{port}", key, limits), read_shares(model), rate or (),
        at_once or (), trace, seconds, seed, binary, items, connections,
    )  # fmt: skip
    steps = Steps(quiet=json_output)
    runs = in_loop(_run_all(asked, steps))
    _say(steps, runs, levels)
    if json_output:
        typer.echo(json.dumps([_facts(run, levels) for run in runs]))
    write_page(steps, out, "--out", lambda: load_page(url, runs, levels))


def read_shares(given: Sequence[str]) -> dict[str, float]:
    """How often each model is asked, from ``NAME[=SHARE]``.

    Raises
    ------
    UsageError
        If a share is no number above 0.
    """
    shares = {}
    for text in given:
        name, mark, share = text.partition("=")
        try:
            shares[name] = float(share) if mark else 1.0
        except ValueError:
            shares[name] = 0.0
        if not name or not 0 < shares[name] < float("inf"):
            raise UsageError(f"--model {text}: expected NAME or NAME=SHARE, such as resnet=2")
    return shares


async def _run_all(asked: _Asked, steps: Steps) -> list[LoadRun]:
    from tvm_hetero.serve.load_test.arrivals import poisson, read_trace
    from tvm_hetero.serve.load_test.bodies import infer_request
    from tvm_hetero.serve.load_test.client import ClientPool
    from tvm_hetero.serve.load_test.run import closed_loop, fetch_metadata, open_loop

    pool = ClientPool(*asked.address, asked.connections)
    try:
        requests = {
            name: infer_request(
                asked.head, await fetch_metadata(pool, asked.head, name), binary=asked.binary,
                items=asked.items, seed=asked.seed,
            )
            for name in asked.models
        }  # fmt: skip
        sizes = ", ".join(f"{name} {len(request)} bytes" for name, request in requests.items())
        steps.say(f"requests of {sizes}")
        runs = []
        for rate in asked.rates:
            arrivals = poisson(rate, asked.seconds, asked.models, asked.seed)
            with steps.step(f"{rate:g}/s", asked.seconds):
                runs.append(await open_loop(pool, requests, arrivals, f"{rate:g}/s", asked.seconds))
        for at_once in asked.at_once:
            with steps.step(f"{at_once} at once", asked.seconds):
                runs.append(await closed_loop(pool, requests, at_once, asked.seconds))
        if asked.trace is not None:
            arrivals = read_trace(asked.trace, list(asked.models))
            with steps.step(f"trace {asked.trace.name}", arrivals[-1].seconds):
                runs.append(
                    await open_loop(pool, requests, arrivals, "trace", arrivals[-1].seconds)
                )
        return runs
    finally:
        pool.close()


def _say(steps: Steps, runs: Sequence[LoadRun], levels: Mapping[str, Sequence[float]]) -> None:
    from tvm_hetero.serve.load_test.records import HEADERS, cells
    from tvm_hetero.util.text_tables import format_table

    steps.say()
    rows = [cells(row) for run in runs for row in run.rows(levels)]
    steps.say(format_table(HEADERS, rows))
    for run in runs:
        lag = run.lag()
        if lag is not None and run.rate is not None:
            steps.say(f"{run.load}: the client was {format_seconds(lag.median)} late (p50), "
                      f"{format_seconds(lag.p99)} (p99)")  # fmt: skip
        if run.doubts():
            steps.say(run.doubts(), "yellow", bold=True)


def _facts(run: LoadRun, levels: Mapping[str, Sequence[float]]) -> dict[str, object]:
    lag = run.lag()
    return {
        "load": run.load, "seconds": run.seconds, "rate": run.rate,
        "models": [row.as_dict() for row in run.rows(levels)],
        "lag": lag and lag.as_dict(), "connections": run.connections, "doubts": run.doubts(),
    }  # fmt: skip
