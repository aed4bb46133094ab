"""Many clients at once, each with a script of `lane_scripts`: all are answered, or told why not.

    python -m tests.fuzz.serve_crowd [--count N] [--seconds S] [--first SEED]

Their requests load and unload the one model that all of them ask, make others wait at a gate,
come in pieces, are wrong, or their client is gone. What each is answered depends on the others;
whatever it is, it must hold that

- no request is answered with error 500, and nothing is logged as an error;
- what comes back is HTTP, and every connection ends: a client that says no more is told, or closed;
- in the end no request is open, and the model can be loaded and answers.
"""

from __future__ import annotations

import itertools
import random
import re
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.lane_scripts import KEY, End, LaneRequest, Mark, Script, draw_script
from tests.fuzz.serve_lane import captured_errors
from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import eventually
from tvm_hetero.serve.core.limits import Limits
from tvm_hetero.serve.core.options import ServeOptions

CROWD = 24  # clients at once
_LIMITS = Limits(head_seconds=0.5, body_seconds=0.5, idle=1.0)
# Looks until a connection has to end, a second each: far more than the limits. Who is stopped with
# the whole process, for however long, has looked once.
_PATIENCE = 60
_PAUSE, _SHUT = 0.01, 0.05  # seconds between packets at most, and for which the gate is shut
# Asked before a script, now and then: what tells of models that come and go.
_TOLD_OF_ALL = (
    "/metrics", "/page/state.json", "/v2", "/v2/models/stats", "/v2/models/dense/stats",
    "/v2/models/dense/config", "/v2/health/ready", "/v1/models", "/openapi.json", "/",
)  # fmt: skip
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_BUG = b"500"


def visit(server: Hosted, seed: int) -> tuple[list[str], str]:
    """Say what a seed's script says; the statuses that came back, and what is wrong with them."""
    script, rng = draw_script(seed), random.Random(seed)
    with socket.create_connection(server.address, timeout=_PATIENCE) as sock:
        try:
            _say(server, sock, script, rng)
            if script.end is End.HANG_UP:
                return ["hung up"], ""
            if script.end is End.HALF:
                sock.shutdown(socket.SHUT_WR)
            answers = _all_of(sock)
        except TimeoutError:
            return ["stalled"], f"neither answered nor closed within {_PATIENCE} s"
        except OSError:  # reset: it had said more than was read
            return ["reset"], ""
    statuses = _STATUS.findall(answers)
    if answers and not answers.startswith(b"HTTP/1.1 "):
        return ["no HTTP"], f"answered {answers[:80]!r}"
    said = [status.decode() for status in statuses] or ["closed"]
    return said, f"answered {answers[-400:]!r}" if _BUG in statuses else ""


def _all_of(sock: socket.socket) -> bytes:
    """What comes until the server closes."""
    answers, looks = bytearray(), 0
    sock.settimeout(1.0)
    while looks < _PATIENCE:
        try:
            data = sock.recv(1 << 16)
        except TimeoutError:
            looks += 1
            continue
        if not data:
            return bytes(answers)
        answers += data
    raise TimeoutError


def _say(server: Hosted, sock: socket.socket, script: Script, rng: random.Random) -> None:
    if rng.random() < 0.3:
        sock.sendall(LaneRequest(rng.choice(_TOLD_OF_ALL), b"", method="GET").data)
    for step in script.steps:
        if isinstance(step, bytes):
            sock.sendall(step)
        elif step is Mark.SHUT:
            server.ask(server.gate.event.clear)
        elif step is Mark.OPEN:
            server.open_gate()
        elif step is Mark.SETTLE:
            time.sleep(rng.uniform(0, _PAUSE))


@contextmanager
def _gate_is_opened(server: Hosted) -> Iterator[None]:
    """Meanwhile, again and again: nobody who shut it has to."""
    is_over = threading.Event()

    def keep_opening() -> None:
        while not is_over.wait(_SHUT):
            server.open_gate()

    thread = threading.Thread(target=keep_opening)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def rest(server: Hosted) -> list[str]:
    """What is wrong when all clients are gone."""
    server.open_gate()
    found = []
    if not eventually(lambda: server.ask(lambda: server.server.context.busy) == 0):
        found.append(f"{server.server.context.busy} requests are still open in the server")
    server.call(server.server.context.repository.load("dense"))
    with RawSocket(server.address) as client:
        client.send(LaneRequest("/v2/models/dense", b"", method="GET").data)
        if (status := client.reply().status) != 200:
            found.append(f"in the end the model is said to be {status}")
    return found


def fuzz(folder: Path, seeds: Iterator[int]) -> tuple[Counter[str], int, int]:
    """How often which status was answered, and how many scripts there were, and faults."""
    outcomes, count, faults = Counter[str](), 0, 0
    options = ServeOptions(port=0, key=KEY, admin=True, limits=_LIMITS)
    models = {"dense": folder / "dense.hetero"}
    with (
        Hosted(models, options) as server, captured_errors() as errors, _gate_is_opened(server),
        ThreadPoolExecutor(CROWD) as pool,
    ):  # fmt: skip
        while crowd := list(itertools.islice(seeds, CROWD)):
            found = []
            for seed, (said, fault) in zip(
                crowd, pool.map(lambda seed: visit(server, seed), crowd), strict=True
            ):
                outcomes.update(said)
                found += [f"seed {seed}: {fault}"] if fault else []
            found += [*(f"logged: {line}" for line in errors), *rest(server)]
            errors.clear()
            count, faults = count + len(crowd), faults + bool(found)
            for text in found:
                print(f"seeds {crowd[0]} to {crowd[-1]}: {text}", flush=True)
    return outcomes, count, faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Visit for a while, by default with seeds that no run has had; the exit status."""
    from tests.serve.build_models import build_tensor_models

    asked = harness_parser(__doc__, first=None).parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        build_tensor_models(Path(name))
        outcomes, count, faults = fuzz(Path(name), seeds(asked))
    return conclude(__file__, asked.first, outcomes, faults, count)


if __name__ == "__main__":
    sys.exit(main())
