"""Large bodies, which are read from the socket straight to where they stay."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import eventually
from tvm_hetero.serve.core.limits import MEBIBYTE, Limits
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.core.refusal import DRAINING, RefusedError
from tvm_hetero.serve.http.body_reader import LARGE_BODY
from tvm_hetero.serve.http.handler import ApiHandler

HEAD = "X-Times: 1"


@pytest.fixture(scope="module")
def hosted() -> Iterator[Hosted]:
    limits = Limits(body=64 * MEBIBYTE, body_seconds=2.0)
    with Hosted(options=ServeOptions(port=0, limits=limits)) as server:
        yield server
        assert eventually(lambda: server.ask(lambda: server.server.context.busy) == 0)


@pytest.mark.parametrize("length", [LARGE_BODY + 1, MEBIBYTE, MEBIBYTE + 1, 5 * MEBIBYTE + 17])
def test_a_body_in_pieces_is_the_body_that_was_sent(hosted: Hosted, length: int) -> None:
    draw = random.Random(length)
    body = draw.randbytes(length)
    with RawSocket(hosted.address) as client:
        client.head("POST", "/repeated", HEAD, f"Content-Length: {length}")
        at = 0
        while at < length:
            size = draw.choice([1, 1000, 1 << 16, 1 << 20])
            client.send(body[at : at + size])
            at += size
        assert client.reply().body == body
        # What comes with its head, and before the answer, is the next request.
        head = f"POST /repeated HTTP/1.1\r\nHost: localhost\r\n{HEAD}\r\n"
        small = f"{head}Content-Length: 5\r\n\r\nsmall".encode()
        large = f"{head}Content-Length: {length}\r\n\r\n".encode() + body
        client.send(large + small + large)
        assert [client.reply().body for _ in range(3)] == [body, b"small", body]


def test_who_hangs_up_within_it_leaves_nothing(hosted: Hosted) -> None:
    for sent in 0, 1, LARGE_BODY, 3 * MEBIBYTE:
        with RawSocket(hosted.address) as client:
            client.head("POST", "/repeated", HEAD, f"Content-Length: {4 * MEBIBYTE}")
            client.send(bytes(sent))
        assert eventually(lambda: hosted.ask(lambda: hosted.server.connections) == 0)
        assert hosted.ask(lambda: hosted.server.context.busy) == 0


def test_memory_is_given_for_what_has_come_not_for_what_is_announced(hosted: Hosted) -> None:
    def given() -> int:
        handlers = hosted.server.context.active
        return sum(len(each.body) for each in handlers if isinstance(each, ApiHandler))

    with RawSocket(hosted.address) as client:
        client.head("POST", "/repeated", HEAD, f"Content-Length: {64 * MEBIBYTE}")
        assert eventually(lambda: hosted.ask(given) > 0)
        assert hosted.ask(given) == MEBIBYTE
        client.send(bytes(MEBIBYTE))
        assert eventually(lambda: hosted.ask(given) > MEBIBYTE)
        assert hosted.ask(given) == 4 * MEBIBYTE
        assert client.is_ended()  # the rest did not come in time


def test_who_is_told_that_the_server_ends_while_it_sends_is_told_so(hosted: Hosted) -> None:
    """Given up in the middle: the answer comes, and what still does is no harm."""
    ends = RefusedError("the server ended", reason=DRAINING)
    with RawSocket(hosted.address) as client:
        client.head("POST", "/repeated", HEAD, f"Content-Length: {2 * MEBIBYTE}")
        client.send(bytes(MEBIBYTE))
        assert eventually(lambda: hosted.ask(lambda: hosted.server.context.busy) == 1)
        hosted.ask(lambda: [each.give_up(ends) for each in list(hosted.server.context.active)])
        assert client.reply().json["error"] == "the server ended"
        client.send(bytes(MEBIBYTE))
        assert client.is_ended()
