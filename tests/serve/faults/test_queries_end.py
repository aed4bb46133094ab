"""Queries that end early: their client hangs up, their time is over, there is no room for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import numpy as np
import pytest

from tests.executor.gated import Gate, gated
from tests.executor.threads import NotingPool
from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.serve.turn_dispatcher import TurnDispatcher
from tests.waiting import eventually
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.serve.core.limits import MEBIBYTE
from tvm_hetero.serve.models.dispatcher import Observed
from tvm_hetero.serve.models.served_model import READY, ServedModel, Standing
from tvm_hetero.serve.models.tensor_model import TensorModel, signature_of

_PATH = "/v2/models/gated/infer"
_QUEUE = 6


@pytest.fixture
def hosted(served_models) -> Iterator[tuple[Hosted, Gate]]:
    """A server whose one model, ``gated``, waits in its first step."""
    path = served_models / "dense.hetero"
    executable = load_artifact(path)
    with gated(executable) as (executor, gate), Hosted() as server:
        model = TensorModel("gated", "1", executable)
        model.instances.whole.close()
        model.instances.whole = executor
        gate.open.set()
        model.signature = signature_of(executor)
        gate.open.clear()
        gate.seen.clear()
        served = ServedModel("gated", "1", path, model, None)
        server.server.context.repository._standings["gated"] = Standing(READY, "", served)
        server.server.context.dispatcher = Observed(TurnDispatcher(_QUEUE))
        yield server, gate
        gate.open.set()


def _ask(client: RawSocket, *headers: str) -> None:
    value = {"name": "x", "datatype": "FP64", "shape": [2], "data": [1.0, 0.0]}
    body = json.dumps({"inputs": [value]}).encode()
    client.head("POST", _PATH, f"Content-Length: {len(body)}", *headers).send(body)


def _pending(server: Hosted) -> int:
    model = dict(server.server.context.repository)["gated"].model
    assert model is not None
    return server.ask(lambda: model.statistics.pending)


def test_work_of_clients_who_hang_up_ends_with_the_kernel_that_runs(hosted):
    server, gate = hosted
    threads = NotingPool()
    server.ask(lambda: asyncio.get_running_loop().set_default_executor(threads))
    clients = [RawSocket(server.address) for _ in range(4)]
    for client in clients:
        _ask(client)
    assert eventually(lambda: _pending(server) == 4)
    assert eventually(lambda: len(gate.seen) == 1)  # one is in its first kernel, three wait
    for client in clients:
        client.close()
    assert eventually(lambda: _pending(server) == 0)  # though the kernel still runs
    for _ in range(30):
        server.ask(lambda: None)  # the executor is told in one of the loop's next turns
    # Who waits for room in a thread has looked up.
    assert eventually(lambda: all(each.done() for each in threads.begun))
    gate.open.set()
    with RawSocket(server.address) as client:
        _ask(client)
        assert client.reply().status == 200
    assert len(gate.seen) == 2  # the first kernels of the other three never ran


def test_the_answer_comes_at_the_deadline_though_the_kernel_runs(hosted):
    server, gate = hosted
    with RawSocket(server.address) as client:
        _ask(client, "tvm-hetero-timeout-us: 50000")
        reply = client.reply()
        assert reply.status == 504
        assert "deadline" in reply.json["error"]
        assert not gate.open.is_set()
        assert "connection" not in reply.headers  # it may ask again on the same connection
    assert _pending(server) == 0


def test_a_full_queue_refuses_before_the_body_and_says_why(hosted):
    server, gate = hosted
    waiting = [RawSocket(server.address) for _ in range(_QUEUE)]
    for client in waiting:
        _ask(client)
    assert eventually(lambda: _pending(server) == _QUEUE)
    with RawSocket(server.address) as client:
        client.head("POST", _PATH, f"Content-Length: {64 * MEBIBYTE}")
        reply = client.reply()  # not a byte of the body has been sent
        assert (reply.status, reply.headers["tvm-hetero-reason"]) == (503, "queue_full")
        assert f"{_QUEUE} queries" in reply.json["error"]
        assert int(reply.headers["retry-after"]) >= 1
    with RawSocket(server.address) as client:  # one that does not look before all is sent
        client.head("POST", _PATH, f"Content-Length: {64 * MEBIBYTE}").send(bytes(64 * MEBIBYTE))
        assert client.reply().status == 503
    gate.open.set()
    for client in waiting:
        assert client.reply().status == 200
        client.close()


@pytest.fixture(scope="module")
def dense(served_models) -> Iterator[Hosted]:
    with Hosted({"dense": served_models / "dense.hetero"}) as server:
        yield server


def _post(client: RawSocket, body: bytes) -> None:
    client.head("POST", "/v2/models/dense/infer", f"Content-Length: {len(body)}").send(body)


def _dense(data: str, rows: int = 1, more: str = "") -> bytes:
    return (
        f'{{{more}"inputs":[{{"name":"input0","datatype":"FP32","shape":[{rows},32],"data":{data}}}]}}'
    ).encode()


@pytest.mark.parametrize(
    "body",
    [
        _dense("[NaN" + ",0" * 31 + "]"),
        _dense("[Infinity" + ",0" * 31 + "]"),
        _dense("[1e999" + ",0" * 31 + "]"),
        _dense("[" * 5000 + "]" * 5000),
        _dense("[" + "0," * 1_000_000 + "0]"),
        _dense("[0" + ",0" * 31 + "]", rows=1 << 62),
        _dense("[0" + ",0" * 31 + "]", rows=-1),
        b"\xff\xfe" * 100,
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b"",
        b"null",
        b'{"inputs":[' + b"{}," * 100_000 + b"{}]}",
    ],
    ids=["nan", "infinity", "too-great", "deep-data", "a-million", "many-rows", "minus-one-row",
         "no-text", "deep", "deep-objects", "empty", "null", "many-inputs"],
)  # fmt: skip
def test_bodies_that_are_no_queries_are_told_so_and_others_are_answered(dense, body):
    right = _dense(json.dumps(np.zeros(32).tolist()))
    with RawSocket(dense.address) as odd, RawSocket(dense.address) as other:
        _post(odd, body)
        for _ in range(5):
            _post(other, right)
            assert other.reply().status == 200
        reply = odd.reply()
        assert reply.status == 400
        assert 0 < len(reply.json["error"]) < 500


def test_an_id_is_echoed_as_json_and_nowhere_else(dense):
    body = _dense(json.dumps([0.0] * 32), more='"id":"a\\r\\nSet-Cookie: b\\u0000",')
    with RawSocket(dense.address) as client:
        _post(client, body)
        reply = client.reply()
        assert reply.json["id"] == "a\r\nSet-Cookie: b\0"
        assert "set-cookie" not in reply.headers
        _post(client, body.replace(b'"a', b'"' + b"a" * 600))
        assert client.reply().status == 400


def test_a_long_query_on_the_pool_ends_when_its_client_hangs_up(dense):
    rows = 4096  # as many as a query may have
    body = _dense("[0" + ",0" * (32 * rows - 1) + "]", rows=rows)
    with RawSocket(dense.address) as client:
        _post(client, body)
        model = dense.ask(lambda: dense.server.context.repository.find("dense"))
        assert eventually(lambda: model.statistics.pending == 1)
        before = model.statistics.executions
    assert eventually(lambda: model.statistics.pending == 0)
    assert eventually(lambda: dense.ask(lambda: dense.server.context.busy) == 0)
    assert model.statistics.executions - before < rows
    assert model.statistics.fail.count > 0
