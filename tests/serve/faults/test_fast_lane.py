"""Requests whose head came before: what they get is what they got before, whatever comes between.

Twice a head is read by tornado; the third request with it, if it comes in one piece, goes by the
lane.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.serve.server_process import Reply
from tests.waiting import eventually
from tvm_hetero.serve.core.limits import MEBIBYTE, Limits
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.known_heads import _MOST, _MOST_ONCE, KnownHeads

_HURRIED = Limits(head_seconds=0.2, idle=0.5, body_seconds=0.5, stalled=5.0)
_KEY = "a key of many letters"


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    with Hosted() as server:
        server.open_gate()
        yield server
        assert eventually(lambda: server.ask(lambda: server.server.context.busy) == 0)


@pytest.fixture
def client(hosted: Hosted) -> Iterator[RawSocket]:
    """Whose requests of `_request()` go by the lane."""
    with RawSocket(hosted.address) as raw:
        for _ in range(2):
            assert raw.send(_request()).reply().json == {"bytes": 4}
        assert hosted.taken == 0
        yield raw


def _request(*lines: str, body: bytes = b"body", path: str = "/gated") -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


def _same(a: Reply, b: Reply) -> bool:
    return (a.status, {**a.headers, "date": ""}, a.body) == (b.status, {**b.headers, "date": ""},
                                                             b.body)  # fmt: skip


def test_an_answer_by_the_lane_is_the_one_that_tornado_wrote(served_models):
    row = {"name": "input0", "datatype": "FP32", "shape": [1, 32]}
    as_json = json.dumps({"inputs": [{**row, "data": [0.5] * 32}]}).encode()
    size = {"binary_data_size": 128}
    told = json.dumps({"inputs": [{**row, "parameters": size}],
                       "parameters": {"binary_data_output": True}}).encode()  # fmt: skip
    path = "/v2/models/dense/infer"
    asked = [
        _request(body=as_json, path=path),
        _request(
            f"Inference-Header-Content-Length: {len(told)}", body=told + bytes(128), path=path
        ),
        _request(body=as_json.replace(b"FP32", b"FP64"), path=path),  # as long, and refused
        _request(body=b"x" * len(as_json), path=path),  # no JSON
    ]
    with Hosted({"dense": served_models / "dense.hetero"}) as server:
        replies = []
        for request in asked:
            with RawSocket(server.address) as other:  # a new connection, the head is known
                replies.append([other.send(request).reply() for _ in range(4)])
                taken = server.taken
        assert taken > 0
    assert [row[0].status for row in replies] == [200, 200, 400, 400]
    for row in replies:
        assert all(_same(row[0], each) for each in row[1:])
        assert len(row[0].headers) >= 4


def test_a_refusal_of_what_has_come_whole_costs_no_connection_by_any_way(served_models):
    row = {"name": "input0", "datatype": "FP32", "shape": [1, 32], "data": [0.5] * 32}
    body = json.dumps({"inputs": [row]}).encode() + b" " * 20_000
    known, other = (
        _request(*lines, body=body, path="/v2/models/dense/infer") for lines in ((), ("X-A: b",))
    )
    with Hosted({"dense": served_models / "dense.hetero"}) as server:
        with RawSocket(server.address) as client:
            assert [client.send(known).reply().status for _ in range(3)] == [200] * 3
            taken = server.taken
            server.call(server.server.context.repository.unload("dense"))
            replies = [client.send(each).reply() for each in (known, other, known)]
            assert server.taken == taken + 2
    assert [reply.status for reply in replies] == [503] * 3
    assert all(_same(replies[0], reply) for reply in replies)
    assert "connection" not in replies[0].headers


def test_a_known_head_is_known_on_every_connection(hosted, client):
    with RawSocket(hosted.address) as other:
        for number in range(3):
            assert other.send(_request()).reply().json == {"bytes": 4}
            assert hosted.taken == number + 1


def test_requests_that_are_sent_at_once_are_answered_in_their_order(hosted, client):
    bodies = [b"x" * length for length in (4, 4, 9, 4, 0, 4)]
    client.send(b"".join(_request(body=each) for each in bodies))
    assert [client.reply().json["bytes"] for _ in bodies] == [4, 4, 9, 4, 0, 4]
    client.send(_request())
    assert client.reply().json == {"bytes": 4}
    assert hosted.taken > 0


@pytest.mark.parametrize("later", [b"later", b"body"])
def test_a_request_that_comes_while_one_is_answered_waits_for_its_turn(hosted, client, later):
    hosted.ask(hosted.gate.event.clear)
    client.send(_request())
    assert eventually(lambda: hosted.gate.waiting == 1)
    assert hosted.taken == 1
    whole = _request(body=later)
    for piece in (whole[:20], whole[20:-2], whole[-2:]):
        client.send(piece)
        hosted.ask(lambda: None)
    assert hosted.gate.waiting == 1  # one of a connection at a time
    hosted.open_gate()
    assert client.reply().json == {"bytes": 4}
    assert client.reply().json == {"bytes": len(later)}


@pytest.mark.parametrize("unread", [b"", b"GET /v2 HTTP/1.1\r\n"])
def test_work_in_the_lane_ends_when_its_client_hangs_up(hosted, client, unread):
    hosted.ask(hosted.gate.event.clear)
    client.send(_request())
    assert eventually(lambda: hosted.gate.waiting == 1)
    assert hosted.taken == 1
    client.send(unread).close()
    assert eventually(lambda: hosted.gate.cancelled == 1)
    assert eventually(lambda: hosted.ask(lambda: hosted.server.connections) == 0)


@pytest.mark.parametrize("known", [True, False])
def test_what_was_sent_behind_it_is_not_begun_when_its_client_hangs_up(hosted, client, known):
    hosted.ask(hosted.gate.event.clear)
    client.send(_request(*(() if known else ("X-Known: no",))))
    assert eventually(lambda: hosted.gate.waiting == 1)
    assert hosted.taken == known
    client.send(_request() * 20)
    assert eventually(lambda: hosted.ask(lambda: hosted.streams[0]._read_buffer_size))
    client.close()
    assert eventually(lambda: hosted.gate.cancelled == 1)
    assert eventually(lambda: hosted.ask(lambda: hosted.server.connections) == 0)
    assert hosted.ask(lambda: hosted.server.context.busy) == 0
    assert hosted.gate.cancelled == 1


def test_a_body_in_parts_is_read_as_before(hosted, client):
    whole = _request()
    for cut in (10, len(whole) - 4, len(whole) - 1):
        client.send(whole[:cut])
        hosted.ask(lambda: None)
        assert client.send(whole[cut:]).reply().json == {"bytes": 4}


def test_what_is_behind_a_body_is_the_next_request(hosted, client):
    client.send(_request() + b"garbage\r\n\r\n")
    assert client.reply().json == {"bytes": 4}
    assert client.reply().status == 400
    assert client.is_ended()


def test_limits_of_time_hold_after_the_lane_too():
    with Hosted(options=ServeOptions(port=0, limits=_HURRIED)) as server:
        server.open_gate()
        for rest, status in ((b"GET /v2 HT", 408), (b"", 0), (_request()[:-1], 0)):
            with RawSocket(server.address) as client:
                for _ in range(4):
                    client.send(_request()).reply()
                assert server.taken > 0
                client.send(rest)
                if status:
                    assert client.reply().status == status
                assert client.is_ended()


def test_a_head_that_waited_for_its_turn_is_no_slow_one(hosted, client):
    hosted.ask(hosted.gate.event.clear)
    client.send(_request())
    assert eventually(lambda: hosted.gate.waiting == 1)
    client.send(_request())
    assert eventually(lambda: hosted.ask(lambda: hosted.streams[0]._read_buffer_size))
    hosted.open_gate()
    assert [client.reply().status for _ in range(2)] == [200] * 2
    assert hosted.taken == 2

    def look() -> None:
        limits = Limits(head_seconds=1.0, idle=75.0)
        hosted.streams[0].check_pace(time.monotonic() + 10.0, limits)

    hosted.ask(look)
    assert client.send(_request()).reply().status == 200


@pytest.mark.parametrize("known", [True, False])
def test_a_head_that_began_behind_the_request_before_may_not_dawdle(hosted, client, known):
    hosted.ask(hosted.gate.event.clear)
    client.send(_request(*(() if known else ("X-Known: no",))))
    assert eventually(lambda: hosted.gate.waiting == 1)
    client.send(_request()[:20])
    assert eventually(lambda: hosted.ask(lambda: hosted.streams[0]._read_buffer_size))
    hosted.open_gate()
    assert client.reply().status == 200
    limits = Limits(head_seconds=1.0)
    hosted.ask(lambda: hosted.streams[0].check_pace(time.monotonic() + 10.0, limits))
    assert client.reply().status == 408
    assert client.is_ended()


def test_a_head_that_is_too_large_is_told_so_after_the_lane_too(hosted, client):
    client.send(_request()).reply()
    assert hosted.taken == 1
    client.send(b"GET /v2 HTTP/1.1\r\nX-Bomb: " + b"b" * MEBIBYTE)
    assert client.reply().status == 431
    assert client.is_ended()


@pytest.mark.parametrize("size, count", [(60_000, 1), (60_000, 1000)], ids=["small", "60 MB"])
def test_answers_that_are_read_slowly_are_whole(hosted, size, count):
    """More than the kernel holds: the rest is written when there is room, and none is mixed up."""
    request = _request(f"X-Times: {count}", body=b"x" * size, path="/repeated")
    times = 300 if count == 1 else 4
    with RawSocket(hosted.address) as client:
        for _ in range(2):
            client.send(request).reply()
        sender = threading.Thread(target=lambda: [client.send(request) for _ in range(times)])
        sender.start()
        assert eventually(lambda: hosted.ask(lambda: hosted.server._http.is_writing))
        for _ in range(times):
            assert client.reply().body == b"x" * size * count
        sender.join()
        assert client.send(request).reply().status == 200


def test_a_server_that_drains_refuses_known_heads_too(hosted, client):
    client.send(_request()).reply()
    assert hosted.taken == 1
    hosted.call(hosted.server.drain())
    reply = client.send(_request()).reply()
    assert (reply.status, reply.headers["connection"]) == (503, "close")
    assert reply.headers["tvm-hetero-reason"] == "draining"
    assert hosted.taken == 2


def test_a_key_is_asked_for_at_every_request():
    with Hosted(options=ServeOptions(port=0, key=_KEY)) as server:
        server.open_gate()
        right, wrong = (_request(f"Authorization: Bearer {key}") for key in (_KEY, _KEY[::-1]))
        with RawSocket(server.address) as client:
            found = [client.send(each).reply().status for _ in range(4)
                     for each in (right, wrong, _request())]  # fmt: skip
            assert found == [200, 401, 401] * 4
            assert server.taken == 2  # of those that were let in


@pytest.mark.parametrize(
    "line", ["Connection: close", "Expect: 100-continue", "Connection: upgrade"]
)
def test_requests_that_are_not_the_usual_ones_never_go_by_the_lane(hosted, line):
    for _ in range(4):
        with RawSocket(hosted.address) as client:
            reply = client.send(_request(line)).reply()
            assert (client.reply() if reply.status == 100 else reply).json == {"bytes": 4}
            assert hosted.taken == 0


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.2"])
@pytest.mark.parametrize("line", ["X-Connection: none", "Connection: keep-alive"])
def test_clients_of_other_versions_are_told_whether_their_connection_stays(hosted, version, line):
    request = _request(line).replace(b"HTTP/1.1", version.encode())
    replies = []
    for _ in range(4):
        with RawSocket(hosted.address) as client:
            replies.append(client.send(request).reply())
            if line.startswith("X-"):
                assert client.is_ended()
    assert replies[0].json == {"bytes": 4}
    assert all(_same(replies[0], each) for each in replies[1:])


def test_strangers_to_this_machine_stay_strangers(hosted):
    with RawSocket(hosted.address) as client:
        for _ in range(4):
            request = _request().replace(b"localhost", b"example.com")
            assert client.send(request).reply().status == 421
        assert hosted.taken == 0


def test_heads_that_are_never_the_same_drive_none_out_and_take_no_room(hosted, client):
    known: KnownHeads = hosted.server._http.request_callback.heads
    for number in range(2 * _MOST_ONCE):
        assert client.send(_request(f"X-Request-Id: {number}")).reply().status == 200
    assert len(known._known) == 1
    assert len(known._once) <= _MOST_ONCE
    client.send(_request()).reply()
    assert hosted.taken == 1


def test_no_more_heads_are_kept_than_have_room(hosted, client):
    known: KnownHeads = hosted.server._http.request_callback.heads
    for number in range(_MOST + 10):
        for _ in range(2):
            client.send(_request(f"X-Number: {number}")).reply()
    assert len(known._known) == _MOST
    long = _request("X-Long: " + "x" * 4096)
    assert [client.send(long).reply().status for _ in range(3)] == [200] * 3
    assert hosted.taken == 0
