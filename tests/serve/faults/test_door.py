"""What comes to the door: slow, huge, broken and too many requests, each told what is wrong."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tornado.iostream import StreamClosedError

from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import eventually
from tvm_hetero.serve.application import all_routes
from tvm_hetero.serve.core.limits import MEBIBYTE, Limits
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.delegate import DoorDelegate
from tvm_hetero.serve.http.door_checks import Permission

_HURRIED = Limits(head_seconds=0.2, body_seconds=0.3, stalled=0.5)


@contextmanager
def _open(limits: Limits) -> Iterator[Hosted]:
    with Hosted(options=ServeOptions(port=0, limits=limits)) as server:
        server.open_gate()
        yield server
        assert eventually(lambda: server.ask(lambda: server.server.context.busy) == 0)


@pytest.fixture(scope="module")
def hosted() -> Iterator[Hosted]:
    with _open(Limits(body=4 * MEBIBYTE)) as server:
        yield server


@pytest.fixture(scope="module")
def hurried() -> Iterator[Hosted]:
    """For those who are slow; on a busy machine it would be too quick for all others."""
    with _open(_HURRIED) as server:
        yield server


@pytest.fixture
def client(hosted: Hosted) -> Iterator[RawSocket]:
    with RawSocket(hosted.address) as raw:
        yield raw


@pytest.fixture
def slow(hurried: Hosted) -> Iterator[RawSocket]:
    with RawSocket(hurried.address) as raw:
        yield raw


def test_a_body_that_is_too_large_is_refused_and_the_answer_is_read(client):
    client.head("POST", "/gated", f"Content-Length: {64 * MEBIBYTE}")
    client.send(bytes(64 * MEBIBYTE))
    reply = client.reply()
    assert reply.status == 413
    assert f"more than the {4 * MEBIBYTE} bytes" in reply.json["error"]
    assert client.is_ended()


def test_nothing_is_skipped_of_a_connection_that_has_ended(hosted, client):
    """Where the answer found nobody, its body was still to be thrown away: an exception, logged."""
    client.head("POST", "/gated", "Content-Length: 8").send(b"x")
    (stream,) = eventually(lambda: hosted.streams) and hosted.streams

    def end() -> None:
        stream.close()
        with pytest.raises(StreamClosedError):
            stream.skip(7)

    hosted.ask(end)
    assert client.is_ended()


@pytest.mark.parametrize(
    "length, status", [("9" * 4301, 413), ("0" * 4301 + "1", 400), ("0" * 4000 + "1", 200)]
)
@pytest.mark.parametrize("path", ["/gated", "/v2/models/none/infer"])
def test_a_length_of_thousands_of_digits_is_no_fault_of_the_server(client, path, length, status):
    client.head("POST", path, f"Content-Length: {length}").send(b"x")
    expected = 404 if path != "/gated" and status != 413 else status  # there is no such model
    assert client.reply().status == expected


def test_a_body_in_chunks_is_refused_when_it_has_become_too_large(client):
    client.head("POST", "/gated", "Transfer-Encoding: chunked")
    chunk = b"%x\r\n%b\r\n" % (MEBIBYTE, bytes(MEBIBYTE))
    for _ in range(6):
        client.send(chunk)
    assert client.reply().status == 413
    assert client.is_ended()


def test_a_body_in_chunks_is_taken(client):
    client.head("POST", "/gated", "Transfer-Encoding: chunked")
    assert client.send(b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n").reply().json == {"bytes": 7}


@pytest.mark.parametrize("pieces", [1, 40])
def test_a_head_that_is_too_large_is_told_so(client, pieces):
    line = "X-Bomb: " + "b" * (2 * MEBIBYTE // pieces)
    client.head("GET", "/v2", *[line] * pieces)
    assert client.reply().status == 431
    assert client.is_ended()


def test_a_head_of_many_lines_is_too_large(client):
    client.head("GET", "/v2", *(f"a{i}: b" for i in range(20_000)))
    assert client.reply().status == 431


def test_a_head_that_comes_byte_by_byte_is_cut_off(slow):
    slow.send("GET /v2 HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    reply = slow.reply()
    assert (reply.status, "too slowly" in reply.json["error"]) == (408, True)
    assert slow.is_ended()


def test_a_head_may_come_late_but_not_slowly(slow):
    time.sleep(2 * _HURRIED.head_seconds)
    assert slow.head("GET", "/v2").reply().status == 200
    time.sleep(2 * _HURRIED.head_seconds)
    assert slow.head("GET", "/v2").reply().status == 200


def test_a_body_that_comes_too_slowly_is_cut_off(slow):
    slow.head("POST", "/gated", "Content-Length: 100").send(b"few")
    assert slow.is_ended()


def test_who_does_not_read_the_answer_is_cut_off(hurried, slow):
    slow.head("GET", "/large")
    assert eventually(lambda: hurried.ask(lambda: hurried.server.connections) >= 1)
    assert eventually(lambda: hurried.ask(lambda: hurried.server.connections) == 0)


def test_pipelined_requests_are_answered_in_their_order(client):
    for size in range(5):
        client.head("POST", "/gated", f"Content-Length: {size}").send(bytes(size))
    assert [client.reply().json["bytes"] for _ in range(5)] == [0, 1, 2, 3, 4]


def test_who_expects_to_be_told_to_go_on_is_told(client):
    client.head("POST", "/gated", "Content-Length: 3", "Expect: 100-continue")
    assert client.reply().status == 100
    assert client.send(b"abc").reply().json == {"bytes": 3}


def test_who_expects_to_be_told_to_go_on_is_refused_instead(client):
    client.head("POST", "/gated", f"Content-Length: {5 * MEBIBYTE}", "Expect: 100-continue")
    assert client.reply().status == 413


def test_old_clients_are_answered_and_left(client):
    client.head("GET", "/v2", version="HTTP/1.0")
    assert client.reply().status == 200
    assert client.is_ended()


def test_old_clients_may_stay(client):
    for _ in range(2):
        client.head("GET", "/v2", "Connection: keep-alive", version="HTTP/1.0")
        assert client.reply().headers["connection"].lower() == "keep-alive"


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "get", "OPTIONS", "DELETE"])
def test_other_methods_are_not_allowed(client, method):
    assert client.head(method, "/v2", "Secret: 17").reply().status == 405


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2/models/a%00b/ready", 404),
        ("/v2/models/%ff%fe/ready", 400),
        ("/v2/models/..%2f..%2fetc%2fpasswd/ready", 404),
        ("/v2/models/%0d%0aX-Evil:%201/ready", 404),
        ("/v2/models/" + "n" * 300 + "/ready", 404),
        ("/v2//health/live", 404),
        ("/v2/health/live/../../../etc/passwd", 404),
        ("/v2/health/%6cive", 404),
        ("/V2", 404),
        ("http://localhost/v2", 404),
        ("*", 404),
    ],
)
def test_odd_paths_lead_nowhere(client, path, status):
    reply = client.head("GET", path).reply()
    assert reply.status == status
    assert "x-evil" not in reply.headers
    assert b"\x00" not in reply.body and b"Traceback" not in reply.body


@pytest.mark.parametrize(
    "head",
    [
        "GET /v2 HTTP/1.1\r\n\r\n",
        "GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /v2 HTTP/3.0\r\nHost: localhost\r\n\r\n",
        "GET\r\nHost: localhost\r\n\r\n",
        "POST /gated HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /gated HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
        "POST /gated HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\na",
        "POST /gated HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /gated HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "GET /v2 HTTP/1.1\r\nHost: localhost\r\nA\x00: b\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_what_is_not_http_is_told_so_and_left(client, head):
    reply = client.send(head).reply()
    assert (reply.status, reply.headers["connection"]) == (400, "close")
    assert "no request of HTTP/1.1: expected" in reply.json["error"]
    assert client.is_ended()


def test_connections_are_limited_in_all_and_of_each_address():
    limits = Limits(connections=4, connections_of_one=3)
    with Hosted(options=ServeOptions(port=0, limits=limits)) as server:
        held = [RawSocket(server.address) for _ in range(3)]
        assert all(each.head("GET", "/v2").reply().status == 200 for each in held)
        with RawSocket(server.address) as fourth:
            reply = fourth.reply()
            assert (reply.status, reply.headers["retry-after"]) == (429, "1")
            assert reply.headers["tvm-hetero-reason"] == "connections"
            assert fourth.is_ended()
        held.pop().close()
        assert eventually(lambda: server.ask(lambda: server.server.connections) == 2)
        with RawSocket(server.address) as again:
            assert again.head("GET", "/v2").reply().status == 200


def test_who_hangs_up_with_half_a_request_unread_is_noticed():
    with Hosted() as server:
        with RawSocket(server.address) as client:
            client.head("POST", "/gated", "Content-Length: 0").head("POST", "/gated").send(bytes(9))
            assert eventually(lambda: server.gate.waiting == 1)
        assert eventually(lambda: server.gate.cancelled == 1)


def test_every_route_asks_for_the_key_but_those_that_are_open():
    options = ServeOptions(port=0, admin=True, key="k" * 16, admin_key="a" * 16)
    with Hosted(options=options) as server:
        for route in all_routes():
            path = _a_path_of(route.pattern)
            for method in ("GET", "POST", "HEAD", "PUT", "DELETE"):
                with RawSocket(server.address) as client:
                    client.head(method, path, "Content-Length: 0", "Authorization: Bearer wrong")
                    status = int(client.socket.recv(12)[9:])
                is_open = route.handler.permission is Permission.OPEN
                assert is_open or status in (401, 405), f"{method} {path}: {status}"
                assert status != 500, f"{method} {path}"


def test_what_has_no_route_asks_for_the_key_too():
    with Hosted(options=ServeOptions(port=0, key="k" * 16)) as server:
        with RawSocket(server.address) as client:
            assert client.head("GET", "/nothing").reply().status == 401
            client.head("GET", "/nothing", "Authorization: Bearer " + "k" * 16)
            assert client.reply().status == 404


def _a_path_of(pattern: str) -> str:
    """Some path that a route's pattern matches: groups are filled in, what is optional is left."""
    text = re.sub(r"\(\?:[^()]*(\([^()]*\))?[^()]*\)\?", "", pattern)
    text = re.sub(r"\(\?P<version>[^()]*\)", "1", text)
    text = re.sub(r"\(\?P<\w+>[^()]*\)|\([^()]*\)", "x", text).replace("\\", "")
    text = re.sub(r".\?", "", text).rstrip("$")
    assert re.fullmatch(pattern, text), f"{text!r} is no path of {pattern!r}"
    return text


@pytest.mark.parametrize("half", ["GET /v2 HT", "POST /gated HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Length: 4\r\n\r\nha"], ids=["head", "body"])  # fmt: skip
def test_a_server_that_was_halted_itself_cuts_no_client_off(half):
    with Hosted() as server, RawSocket(server.address) as client:
        server.open_gate()
        client.send(half)
        assert eventually(
            lambda: server.ask(lambda: server.streams and not server.streams[0].is_idle)
        )
        door = server.server._http
        assert door is not None
        server.ask(lambda: door._look(time.monotonic() + 1000.0))
        rest = "TP/1.1\r\nHost: localhost\r\n\r\n" if half.startswith("GET") else "lf"
        assert client.send(rest).reply().status == 200


@pytest.mark.parametrize("rest", ["GET /v2 HT", "", "POST /gated HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Length: 5\r\n\r\nha"])  # fmt: skip
def test_who_dawdles_after_a_halt_is_cut_off_as_before_it(rest):
    """What it does began when the server had woken, but before that looked at its connections."""
    limits = Limits(head_seconds=20.0, idle=20.0, body_seconds=20.0)
    with _open(limits) as server, RawSocket(server.address) as client:
        client.head("GET", "/v2").reply()
        client.send(rest)
        assert eventually(lambda: not rest or server.ask(lambda: not server.streams[0].is_idle))
        door = server.server._http
        assert door is not None

        def is_cut_off(seconds: float) -> bool:
            (stream,) = server.streams
            stream.check_pace(time.monotonic() + seconds, limits)
            return stream.closed()

        def halt() -> None:
            door._looked -= 1000.0
            door._look(time.monotonic())

        server.ask(halt)
        assert not server.ask(lambda: is_cut_off(10.0))
        assert server.ask(lambda: is_cut_off(21.0))


def test_a_small_refusal_keeps_the_connection_and_a_large_one_says_that_it_ends(hosted):
    with RawSocket(hosted.address) as client:
        for _ in range(3):
            client.head("POST", "/nothing", "Content-Length: 5").send(b"small")
            reply = client.reply()
            assert reply.status == 404
            assert "connection" not in reply.headers
        client.head("POST", "/nothing", f"Content-Length: {4 * MEBIBYTE + 1}")
        assert client.reply().headers["connection"] == "close"
        assert client.is_ended()


def test_a_connection_that_came_and_went_leaves_nothing_behind():
    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, DoorDelegate) for each in gc.get_objects())

    with Hosted() as server:
        before = kept()
        for _ in range(20):
            RawSocket(server.address).close()  # it has asked for nothing
        assert eventually(lambda: server.ask(lambda: server.server.connections) == 0)
        assert eventually(lambda: kept() <= before)


@pytest.mark.parametrize("path", ["/v2", "/nowhere", "/v1/nowhere", "/page/events"])
def test_methods_that_are_called_like_parts_of_a_handler_are_refused_as_others(hosted, path):
    for method in "REQUEST", "CLEAR", "_FINISHED", "SEND_ERROR", "CONTEXT", "ON_FINISH", "TRACE":
        with RawSocket(hosted.address) as client:
            reply = client.head(method, path).reply()
            assert reply.status in (404, 405), method
            assert reply.json["error"]
    assert eventually(lambda: hosted.ask(lambda: hosted.server.context.busy) == 0)
