"""A server at twice what it can do, with clients who hang up, and models that come and go.

    python -m benchmarks.serve_soak                      600 s, writes results/serve_soak.json
    python -m benchmarks.serve_soak --seconds 60 --output FILE
    python -m benchmarks.serve_soak --cycles 5           fewer loads, where they take long
    python -m benchmarks.serve_soak --goodput            a minute of overload alone, no file
    python -m benchmarks.serve_soak --small              seconds, of a tiny model (the tests run it)

Four parts, one server (a process of its own; clients share its cores, so nothing is said of pace):

cycles      the model is loaded anew so many times; memory, threads and files before and after
beside      p99 of clients at a tenth of the capacity, alone and beside strangers (`abuse`)
overload    twice the capacity by a Poisson clock; a tenth hang up, a third are in a hurry
the end     SIGTERM: the server has to end by itself, with status 0

It must hold that each request ends as one of: answered, told that its deadline has passed, refused
with a reason, hung up by its client; none is lost. The server's books and the clients' agree: it
answered those that got an answer, and at most those who hung up besides. Memory is flat.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.documents import write_document
from benchmarks.execution.cases import TINY, make_model, two_devices
from benchmarks.execution.contenders import build_plan
from benchmarks.serve_soaking.abuse import abuse
from benchmarks.serve_soaking.clients import ANSWERED, ENDS, HUNG_UP, LOST, UNTOLD, SoakClients
from benchmarks.serve_soaking.process import SoakedServer, soaked_server
from tvm_hetero.problem import Objective
from tvm_hetero.serve.load_test.arrivals import poisson
from tvm_hetero.serve.load_test.bodies import RequestHead, infer_request
from tvm_hetero.serve.load_test.client import ClientPool
from tvm_hetero.serve.load_test.run import closed_loop, fetch_metadata, in_loop, open_loop
from tvm_hetero.util.statistics import summarize

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "serve_soak.json"
MODEL = "model"
_SERVICE = 0.01  # seconds that a request should take, that clients can offer twice of
_SAMPLES = 60


@dataclass(frozen=True)
class MemorySample:
    """The server after so many seconds of overload."""

    seconds: float
    rss_bytes: int
    threads: int
    files: int


@dataclass(frozen=True)
class ServeSoak:
    """What came out.

    Attributes
    ----------
    capacity, offered : requests/s that four clients in a closed loop got, and that were due.
    ends, reasons : how requests ended; for what they were refused.
    goodput : answers a second, by the capacity.
    unasked : answers in the server's books beyond those that clients got and hung up on.
    p99_alone, p99_beside : seconds, of quiet clients without and with strangers.
    cycles, cycle_bytes : loads, and by how much memory grew over the last half of them.
    growth : of resident memory, last third of the overload against the first.
    """

    capacity: float
    offered: float
    requests: int
    ends: dict[str, int]
    reasons: dict[str, int]
    odd: list[str]
    goodput: float
    unasked: int
    p99: float
    p99_alone: float
    p99_beside: float
    cycles: int
    cycle_bytes: int
    more_threads: int
    more_files: int
    growth: float
    samples: list[MemorySample]


def main(arguments: Sequence[str] | None = None) -> ServeSoak:
    """Soak, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--cycles", type=int, default=None, help="loads and unloads (200)")
    parser.add_argument("--goodput", action="store_true", help="the overload alone, no file")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--output", type=Path, default=None)
    args = parser.parse_args(arguments)
    seconds = args.seconds or (2.0 if args.small else 60.0 if args.goodput else 600.0)
    name, cycles = (TINY, 3) if args.small else ("squeezenet", 200)
    cycles = 0 if args.goodput else args.cycles or cycles
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{MODEL}.hetero"
        objective = Objective("throughput")
        built = build_plan(make_model(name), two_devices(), objective, 2.0 if args.small else 60.0,
                           small=args.small, adaptable=True)  # fmt: skip
        built.executable.save(path)
        with soaked_server(["--admin", str(path)]) as server:
            found = in_loop(_soak(server, seconds, cycles))
    print(summary(found, seconds))
    is_part = args.small or args.goodput or args.seconds
    output = args.output or (None if is_part else RESULTS)
    if output is not None:
        head = {key: value for key, value in asdict(found).items() if key != "samples"}
        write_document(output, "python -m benchmarks.serve_soak", map(asdict, found.samples),
                       **head, model=name, seconds=seconds)  # fmt: skip
        print(f"written to {output}")
    return found


async def _soak(server: SoakedServer, seconds: float, cycles: int) -> ServeSoak:
    pool = ClientPool("127.0.0.1", server.port, 512)
    head = RequestHead(f"127.0.0.1:{server.port}", None, {})
    metadata = await fetch_metadata(pool, head, MODEL)
    one = {MODEL: infer_request(head, metadata, binary=True)}
    latency = summarize([r.latency for r in (await closed_loop(pool, one, 1, 1.0)).records]).median
    items = max(1, round(_SERVICE / latency))
    plain = infer_request(head, metadata, binary=True, items=items)
    requests = {MODEL: plain}
    closed = await closed_loop(pool, requests, 4, max(min(2.0, seconds / 4), seconds / 20))
    capacity = len(closed.records) / max(record.ended for record in closed.records)
    cycle_bytes, more_threads, more_files = await _cycle(server, cycles)
    alone = beside = 0.0
    if cycles:
        alone, beside = await _beside(server, pool, requests, capacity, max(2.0, seconds / 10))
    service = 4 / capacity
    hurried = RequestHead(head.authority, None, {MODEL: 3 * service})
    clients = SoakClients(
        pool, plain, infer_request(hurried, metadata, binary=True, items=items)
    )  # fmt: skip
    before = server.answered(MODEL)
    arrivals = poisson(2 * capacity, seconds, {MODEL: 1.0})
    watching = asyncio.ensure_future(_watch(server, seconds))
    await clients.run(arrivals, 4 * service)
    samples = await watching
    pool.close()
    answered = await asyncio.to_thread(server.answered, MODEL) - before
    beyond = answered - clients.ends[ANSWERED]
    third = max(1, len(samples) // 3)
    first, last = (
        statistics.mean(s.rss_bytes for s in part) for part in (samples[:third], samples[-third:])
    )
    return ServeSoak(
        capacity, len(arrivals) / seconds, len(arrivals),
        {end: clients.ends[end] for end in ENDS}, dict(sorted(clients.reasons.items())),
        clients.odd, clients.ends[ANSWERED] / seconds / capacity,
        max(0, beyond - clients.ends[HUNG_UP]) + max(0, -beyond),
        summarize(clients.latencies).p99 if clients.latencies else 0.0, alone, beside, cycles,
        cycle_bytes, more_threads, more_files, last / first - 1, samples,
    )  # fmt: skip


async def _cycle(server: SoakedServer, cycles: int) -> tuple[int, int, int]:
    """By how much memory grew over the last half, and threads and files over all but the first."""
    rows = [(server.resident_bytes(), *server.held())]
    for _ in range(cycles):
        for verb in ("unload", "load"):
            path = f"/v2/repository/models/{MODEL}/{verb}"
            await asyncio.to_thread(server.fetch, path, b"{}")
        rows.append((server.resident_bytes(), *server.held()))
    half = rows[len(rows) // 2]  # the first is of before, of which nothing is said
    return rows[-1][0] - half[0], rows[-1][1] - half[1], rows[-1][2] - half[2]


async def _beside(
    server: SoakedServer, pool: ClientPool, requests: dict[str, bytes], capacity: float, long: float
) -> tuple[float, float]:
    found = []
    for is_abused in (False, True):
        strangers = asyncio.ensure_future(abuse(server.port, MODEL)) if is_abused else None
        arrivals = poisson(capacity / 10, long, {MODEL: 1.0}, seed=7)
        run = await open_loop(pool, requests, arrivals, "beside", long)
        found.append(summarize([record.latency for record in run.records]).p99)
        if strangers is not None:
            strangers.cancel()
    return found[0], found[1]


async def _watch(server: SoakedServer, seconds: float) -> list[MemorySample]:
    begin = time.perf_counter()
    samples = []
    for number in range(_SAMPLES):
        await asyncio.sleep(max(0.0, begin + number * seconds / _SAMPLES - time.perf_counter()))
        now = time.perf_counter() - begin
        samples.append(MemorySample(now, server.resident_bytes(), *server.held()))
    return samples


def summary(found: ServeSoak, seconds: float) -> str:
    """What must hold, beside what does."""
    ends = ", ".join(f"{count} {end}" for end, count in found.ends.items())
    reasons = ", ".join(f"{count} {reason}" for reason, count in found.reasons.items())
    mebibytes = [sample.rss_bytes / 2**20 for sample in found.samples]
    wrong = found.ends[LOST] + found.ends[UNTOLD]
    lines = [
        f"{found.requests} requests in {seconds:g} s, {found.offered:.4g}/s where "
        f"{found.capacity:.4g}/s can be answered: {ends}",
        f"answered a second of what can be: {100 * found.goodput:.0f} % (goal 75 %)",
        f"lost, or refused without a reason: {wrong} (goal 0); refused: {reasons or 'none'}",
        f"books that do not agree: {found.unasked} requests (goal 0)",
        f"p99 of who was answered {1e3 * found.p99:.3g} ms; of quiet clients "
        f"{1e3 * found.p99_alone:.3g} ms alone, {1e3 * found.p99_beside:.3g} ms beside strangers "
        "(goal: less than twice)",
        f"{found.cycles} unloads and loads: {found.cycle_bytes / 2**20:+.2f} MiB over the last "
        f"half, threads {found.more_threads:+d}, files {found.more_files:+d} (goal 0)",
        f"resident memory {min(mebibytes):.1f} to {max(mebibytes):.1f} MiB, growth "
        f"{100 * found.growth:+.2f} %",
    ]
    return "\n".join([*lines, *found.odd])


if __name__ == "__main__":
    main()
