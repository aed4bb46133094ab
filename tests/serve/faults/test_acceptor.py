"""Connections that come when there are no descriptors left for them."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.descriptors import descriptors_left
from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import LIMIT, eventually
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.acceptor import Acceptor


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    with Hosted(options=ServeOptions(port=0)) as server:
        yield server


@contextmanager
def clients_without_servers(count: int) -> Iterator[list[socket.socket]]:
    """Sockets that have their descriptors, and are not connected yet."""
    clients = [socket.socket() for _ in range(count)]
    for each in clients:
        each.settimeout(LIMIT)
    try:
        yield clients
    finally:
        for each in clients:
            each.close()


def acceptor_of(server: Hosted) -> Acceptor:
    http = server.server._http
    assert http is not None
    [acceptor] = http.acceptors
    return acceptor


def test_who_finds_no_descriptor_is_told_so_and_costs_one_look(hosted: Hosted) -> None:
    acceptor = acceptor_of(hosted)

    def taken() -> int:
        return hosted.ask(lambda: hosted.server.connections) - 1  # but for the first one

    with RawSocket(hosted.address) as first, clients_without_servers(20) as clients:
        assert first.head("GET", "/v2").reply().status == 200
        with descriptors_left(3):
            for client in clients:
                client.connect(hosted.address)
            assert eventually(lambda: acceptor.turned_away + taken() == len(clients))
            assert first.head("GET", "/v2").reply().status == 200  # nobody else is held up
            assert acceptor.looks <= 1 + len(clients)
            told, _, _ = select.select(clients, [], [], 0)
            assert len(told) == acceptor.turned_away > 10
            for client in told:
                answer = client.recv(1 << 12)
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"Retry-After: 1\r\n" in answer
            served = [client for client in clients if client not in told]
            served[0].close()
            assert eventually(lambda: taken() == len(served) - 1)
            served[1].sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert served[1].recv(1 << 12).startswith(b"HTTP/1.1 200 ")
    with RawSocket(hosted.address) as later:
        assert later.head("GET", "/v2").reply().status == 200


def test_where_the_reserve_is_gone_too_the_socket_is_left_alone_for_a_while(
    hosted: Hosted,
) -> None:
    acceptor = acceptor_of(hosted)
    with clients_without_servers(1) as [client]:
        with descriptors_left(0):
            hosted.ask(acceptor._empty_reserve)
            taken = os.open(os.devnull, os.O_RDONLY)  # by another thread, as it might be
            client.connect(hosted.address)
            assert eventually(lambda: acceptor.looks > 0)
            looks, begun = acceptor.looks, time.monotonic()
            time.sleep(0.2)
            # Twice a second, however long it takes.
            assert acceptor.looks - looks <= 1 + 2 * (time.monotonic() - begun)
            os.close(taken)
        client.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1 << 12).startswith(b"HTTP/1.1 200 ")
