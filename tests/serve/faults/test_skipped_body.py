"""A body that is refused is thrown away as it comes, and its connection goes on behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import eventually
from tvm_hetero.serve.core.limits import MEBIBYTE, Limits
from tvm_hetero.serve.core.options import ServeOptions

_LENGTH = MEBIBYTE
_NEXT = b"POST /gated HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"


@pytest.fixture(scope="module")
def hosted() -> Iterator[Hosted]:
    with Hosted() as server:
        server.open_gate()
        yield server
        assert eventually(lambda: server.ask(lambda: server.server.context.busy) == 0)


def _refused(client: RawSocket, *lines: str, version: str = "HTTP/1.1") -> bool:
    """Ask for what there is not, with a body to come; says if the connection is to go on."""
    client.head("POST", "/nothing", f"Content-Length: {_LENGTH}", *lines, version=version)
    reply = client.reply()  # not a byte of the body has been sent
    assert reply.status == 404
    return reply.headers.get("connection") != "close"


def _asks_on(client: RawSocket) -> None:
    reply = client.send(_NEXT).reply()
    assert (reply.status, reply.json) == (200, {"bytes": 3})


def test_the_next_request_is_answered_behind_a_body_that_was_refused(hosted: Hosted) -> None:
    with RawSocket(hosted.address) as client:
        for _ in range(3):
            assert _refused(client)
            client.send(bytes(_LENGTH))
            _asks_on(client)


def test_a_body_in_pieces_ends_where_it_ends(hosted: Hosted) -> None:
    # Requests in it are none, and the one right behind it is one.
    body = _NEXT * (_LENGTH // len(_NEXT) + 1)
    with RawSocket(hosted.address) as client:
        for cut in (1, len(_NEXT), 1 << 16, _LENGTH - 1):
            assert _refused(client)
            client.send(body[:cut])
            client.send(body[cut:_LENGTH] + _NEXT)
            assert client.reply().json == {"bytes": 3}
            _asks_on(client)


def test_a_body_that_comes_with_its_head_is_thrown_away_too(hosted: Hosted) -> None:
    head = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % _LENGTH
    with RawSocket(hosted.address) as client:
        for _ in range(3):
            client.send(head + bytes(_LENGTH) + _NEXT)
            assert client.reply().status == 404
            assert client.reply().json == {"bytes": 3}


@pytest.mark.parametrize("lines", [("Expect: 100-continue",), ("Connection: close",)])
def test_who_may_not_send_the_body_at_all_has_to_connect_anew(
    hosted: Hosted, lines: tuple[str, ...]
) -> None:
    with RawSocket(hosted.address) as client:
        assert not _refused(client, *lines)
        assert client.is_ended()
    with RawSocket(hosted.address) as client:
        assert not _refused(client, version="HTTP/1.0")
        assert client.is_ended()


def test_who_hangs_up_within_it_leaves_nothing(hosted: Hosted) -> None:
    for sent in (0, 1000):
        client = RawSocket(hosted.address)
        assert _refused(client)
        client.send(bytes(sent)).close()
    assert eventually(lambda: hosted.ask(lambda: hosted.server.connections) == 0)


def test_who_sends_it_too_slowly_is_cut_off() -> None:
    limits = Limits(body_seconds=0.3)
    with (
        Hosted(options=ServeOptions(port=0, limits=limits)) as server,
        RawSocket(server.address) as client,
    ):
        assert _refused(client)
        client.send(b"few")
        assert client.is_ended()
