"""A server that is told to end: nothing new, nothing lost, in the end a word to who still waits."""

from __future__ import annotations

from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import eventually
from tvm_hetero.serve.core.limits import MEBIBYTE
from tvm_hetero.serve.core.options import ServeOptions


def _is_draining(server: Hosted) -> bool:
    return server.ask(lambda: server.server.context.draining)


def test_what_was_accepted_is_answered_and_what_comes_then_is_told_to_go_elsewhere():
    with Hosted() as server, RawSocket(server.address) as early, RawSocket(server.address) as slow:
        early.head("POST", "/gated", "Content-Length: 4").send(b"here")
        slow.head("POST", "/gated", "Content-Length: 4").send(b"ha")  # accepted by its head
        assert eventually(lambda: server.ask(lambda: server.server.context.busy) == 2)
        assert eventually(lambda: server.gate.waiting == 1)
        draining = server.begin(server.server.drain())
        assert eventually(lambda: _is_draining(server))
        with RawSocket(server.address) as late:
            assert late.head("GET", "/v2/health/ready").reply().status == 503
            late.head("POST", "/gated", f"Content-Length: {64 * MEBIBYTE}")
            reply = late.send(bytes(64 * MEBIBYTE)).reply()
            assert reply.status == 503
            assert reply.json == {"error": "the server is shutting down"}
            assert (reply.headers["connection"], reply.headers["retry-after"]) == ("close", "1")
        assert not draining.done()
        slow.send(b"lf")
        server.open_gate()
        assert early.reply().json == slow.reply().json == {"bytes": 4}
        draining.result(60)


def test_an_answer_that_is_still_on_its_way_is_waited_for():
    with Hosted() as server, RawSocket(server.address) as client:
        client.head("GET", "/large")
        assert eventually(lambda: server.ask(lambda: server.server.connections) == 1)
        draining = server.begin(server.server.drain())
        assert eventually(lambda: _is_draining(server))
        assert len(client.reply().body) == 32 * MEBIBYTE
        draining.result(60)


def test_who_is_not_answered_in_time_is_told_so():
    options = ServeOptions(port=0, drain=0.1)
    with Hosted(options=options) as server, RawSocket(server.address) as client:
        client.head("POST", "/gated", "Content-Length: 0")
        assert eventually(lambda: server.gate.waiting == 1)
        server.call(server.server.drain())
        reply = client.reply()
        assert reply.status == 503
        assert "before the answer was there" in reply.json["error"]
        assert server.gate.cancelled == 1


def test_who_has_hung_up_is_not_waited_for():
    with Hosted() as server:
        for body in (b"", b"half"):  # while it is computed, and while its body comes
            with RawSocket(server.address) as client:
                client.head("POST", "/gated", f"Content-Length: {2 * len(body)}").send(body)
                assert eventually(lambda: server.ask(lambda: server.server.context.busy) == 1)
            assert eventually(lambda: server.ask(lambda: server.server.context.busy) == 0)
