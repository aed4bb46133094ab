"""The same packets to two servers, one without its fast lane: what comes back is the same.

    python -m tests.fuzz.serve_lane [--count N] [--seconds S] [--first SEED]

One server answers requests whose head is known beside tornado (`serve.http.fast_lane`); the other
has no lane. Both are sent a script (`lane_scripts`) as often as a head has to come until it is
known, and once more. At each moment at which a server has done what it can, it must hold that

- the bytes that came back are the same, but for dates and for what a refusal says of seconds;
- the connection is open at both, or closed at both, also when the client then dawdles;
- no request is left open, and as many were cancelled;
- no request is answered with error 500, and nothing is logged as an error;
- in the end as many requests have been counted, of each outcome, and models changed as often.

A script that ends its servers has two of its own.
"""

from __future__ import annotations

import logging
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.fuzz.lane_client import LaneClient
from tests.fuzz.lane_scripts import KEY, End, Mark, Script, draw_script
from tests.fuzz.serve_sockets import CapturedErrors
from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import eventually
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.delegate import DoorApplication, DoorDelegate
from tvm_hetero.serve.http.door_server import DoorServer
from tvm_hetero.serve.http.known_heads import KnownHeads

BY_LANE, BESIDE, ENDED = "by the lane", "by tornado alone", "server ended"
# A head is known from its second time on, so that the third goes by the lane.
_TIMES = 3
# A server that ends looks now and then whether all is answered, which may be before or after a
# request begins that was sent before: what differs has to differ every time.
_TRIES = 3
_COUNTED = re.compile(r"tvm_hetero_(?:requests|refused|items)_total.*")
_BUG = b"HTTP/1.1 500 "


class WithoutLane(DoorApplication):
    """An application whose connections have no lane."""

    def __init__(self, like: DoorApplication) -> None:
        super().__init__(like.context, (), like._nowhere)
        self._routes = like._routes

    def start_request(self, server_conn: object, request_conn: Any) -> DoorDelegate:
        """Called by tornado when it waits for the next request of a connection."""
        delegate = super().start_request(server_conn, request_conn)
        request_conn.stream.lane = None
        return delegate


@dataclass(frozen=True)
class Heard:
    """What a client had of a connection.

    Attributes
    ----------
    parts : what had come at each moment at which the server had done what it could.
    is_open : whether the server still listened in the end.
    cancelled : requests that were cancelled at the gate.
    version : of the model, or that of the last one that there was.
    """

    parts: tuple[bytes, ...]
    is_open: bool
    cancelled: int
    version: int


def difference(lane: Heard, plain: Heard) -> str:
    """Where two clients had not the same, in words; empty if they had."""
    for number, (one, other) in enumerate(zip(lane.parts, plain.parts, strict=True)):
        if one != other:
            return f"part {number}: the lane says {one[-400:]!r}, tornado {other[-400:]!r}"
        if _BUG in one:
            return f"part {number}: both say {one[-400:]!r}"
    if lane.is_open != plain.is_open:
        return f"the connection is open: {lane.is_open} with the lane, {plain.is_open} without"
    if lane.cancelled != plain.cancelled:
        return f"{lane.cancelled} were cancelled with the lane, {plain.cancelled} without"
    if lane.version != plain.version:
        return f"the model is version {lane.version} with the lane, {plain.version} without"
    return ""


def play(server: Hosted, script: Script) -> tuple[Heard, int]:
    """Do what a script says; what its client had of it, and how many requests the lane took."""
    cancelled = server.gate.cancelled
    server.open_gate()
    client = LaneClient(server)
    try:
        for step in script.steps:
            _do(client, step)
        client.settle()
        _end(client, script)
    finally:
        client.close()
    if not eventually(lambda: server.ask(lambda: not (server.server.connections or _busy(server)))):
        raise TimeoutError(f"requests are left open: {_busy(server)}")
    cancelled = server.gate.cancelled - cancelled
    return Heard(tuple(client.parts), client.is_open, cancelled, version(server)), client.taken


def version(server: Hosted) -> int:
    """Of the newest model that was ever loaded."""
    return server.server.context.repository._versions["dense"]


def _busy(server: Hosted) -> int:
    return server.server.context.busy


def _do(client: LaneClient, step: bytes | Mark) -> None:
    event = client.server.gate.event
    if isinstance(step, bytes):
        client.send(step)
    elif step is Mark.SETTLE:
        client.settle()
    elif step is Mark.END:
        client.end_server()
    else:
        client.server.ask(event.clear if step is Mark.SHUT else event.set)


def _end(client: LaneClient, script: Script) -> None:
    """Come to the end of a connection; who hangs up, or will say no more, does so with the gate as
    it is."""
    if script.end is End.HANG_UP:
        return
    if script.end is End.HALF:
        client.shut()
        client.settle()
    client.server.open_gate()
    client.settle()
    if script.end is End.DAWDLE:
        client.dawdle(script.wait)
        client.settle()


def compare(
    lane: Hosted, plain: Hosted, script: Script, heads: type[KnownHeads] = KnownHeads
) -> tuple[str, list[str]]:
    """Whether a request of a script went by the lane, and what is wrong with what came of it."""
    _application(lane).heads = heads()
    found, took = [], 0
    lasting = replace(script, steps=tuple(step for step in script.steps if step is not Mark.END))
    for number in range(1, _TIMES + 1):
        asked = script if number == _TIMES else lasting
        _bring_level(lane, plain)
        try:
            (one, taken), (other, none) = play(lane, asked), play(plain, asked)
        except TimeoutError as error:
            found.append(f"time {number}: {error}")
            continue
        took += taken
        found += [f"time {number}: {text}" for text in (difference(one, other),) if text]
        found += ["a request went by a lane that is not there"] * bool(none)
    return BY_LANE if took else BESIDE, found


def _bring_level(*servers: Hosted) -> None:
    """Have models of one version, whatever was loaded and unloaded before."""
    if all(server.server.models for server in servers) and len({*map(version, servers)}) == 1:
        return
    newest = max(map(version, servers)) + 1
    for server in servers:
        while version(server) < newest:
            server.call(server.server.context.repository.load("dense"))


def compare_ended(folder: Path, script: Script) -> list[str]:
    """What is wrong, every time, with what came of a script that ends its servers."""
    found: list[str] = []
    for _ in range(_TRIES):
        with two_servers(folder) as servers:
            _, found = compare(*servers, script)
        if not found:
            break
    return found


def _http(server: Hosted) -> DoorServer:
    http = server.server._http
    assert http is not None, "it has started"
    return http


def _application(server: Hosted) -> DoorApplication:
    application = _http(server).request_callback
    assert isinstance(application, DoorApplication)
    return application


def counts(server: Hosted) -> list[str]:
    """What a server has counted of its models."""
    with RawSocket(server.address) as client:
        text = client.head("GET", "/metrics", f"Authorization: Bearer {KEY}").reply().body.decode()
    return sorted(_COUNTED.findall(text))


@contextmanager
def two_servers(folder: Path) -> Iterator[tuple[Hosted, Hosted]]:
    """Of ``dense.hetero``, with the lane and without."""
    options = ServeOptions(port=0, key=KEY, admin=True)
    with ExitStack() as stack:
        lane, plain = (
            stack.enter_context(Hosted({"dense": folder / "dense.hetero"}, options))
            for _ in range(2)
        )
        _http(plain).request_callback = WithoutLane(_application(plain))
        yield lane, plain


@contextmanager
def captured_errors() -> Iterator[list[str]]:
    """What is logged as an error meanwhile."""
    errors = CapturedErrors()
    loggers = [logging.getLogger(name) for name in ("tornado", "tvm_hetero", "asyncio")]
    for logger in loggers:
        logger.addHandler(errors)
    try:
        yield errors.lines
    finally:
        for logger in loggers:
            logger.removeHandler(errors)


def fuzz(folder: Path, seeds: Iterator[int]) -> tuple[Counter[str], int]:
    """How many scripts went by the lane and how many did not, and how many were faults."""
    outcomes, faults = Counter[str](), 0
    with two_servers(folder) as servers, captured_errors() as errors:
        for seed in seeds:
            script = draw_script(seed)
            if Mark.END in script.steps:
                outcome, found = ENDED, compare_ended(folder, script)
            else:
                outcome, found = compare(*servers, script)
            found += [f"logged: {line}" for line in errors]
            errors.clear()
            outcomes[outcome] += 1
            faults += bool(found)
            for text in found:
                print(f"seed {seed}: {text}", flush=True)
        one, other = map(counts, servers)
        if one != other:
            faults += 1
            print(f"counted with the lane: {one}, without: {other}", flush=True)
    return outcomes, faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare for a while, by default with seeds that no run has had; the exit status."""
    from tests.serve.build_models import build_tensor_models

    asked = harness_parser(__doc__, first=None).parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        build_tensor_models(Path(name))
        outcomes, faults = fuzz(Path(name), seeds(asked))
    return conclude(__file__, asked.first, outcomes, faults)


if __name__ == "__main__":
    sys.exit(main())
