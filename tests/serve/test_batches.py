"""Clients who ask at once, over HTTP: statistics and metrics tell that they were batched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.batch_models import FixedTimes, build_for, element, lookup
from tests.serve.faults.raw_socket import RawSocket
from tests.serve.server_thread import ServerThread
from tests.waiting import eventually
from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.server import ModelServer

COUNT = 5


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("batches")
    for batch in (1, 4):
        build_for(batch, lookup()).save(home / str(batch))
    return home / "1", home / "4"


@pytest.fixture(scope="module")
def server(folders) -> Iterator[ServerThread]:
    with ServerThread({"rows": folders}, ServeOptions(port=0, compatible_metrics=True)) as found:
        pool = found.server.context.dispatcher._dispatcher
        found.ask(lambda: pool.know("rows/1", FixedTimes(1.0, 0.6)))
        found.ask(lambda: pool.know("rows/1*4", FixedTimes(1.2, 0.7)))
        yield found


def _ask(client: RawSocket, row: int) -> None:
    data = element([row, 0, 0])["input0"].ravel().tolist()
    tensor = {"name": "input0", "datatype": "INT32", "shape": [1, 3], "data": data}
    body = json.dumps({"inputs": [tensor]}).encode()
    client.head("POST", "/v2/models/rows/infer", f"Content-Length: {len(body)}").send(body)


def test_those_who_wait_get_their_own_answers_and_are_counted_together(server):
    pool = server.server.context.dispatcher._dispatcher
    clients = [RawSocket(server.address) for _ in range(COUNT)]

    async def held() -> None:
        """All ask while somebody else has the cores."""
        async with pool.gate("other", "1", 1e-3).turn():
            for row, client in enumerate(clients):
                _ask(client, row)
            while pool.count_waiting("rows") < COUNT:
                await asyncio.sleep(0.001)

    server.call(held())
    for row, client in enumerate(clients):
        reply = client.reply()
        assert reply.status == 200
        [output] = reply.json["outputs"]
        assert output["shape"] == [1, 3, 4]
        assert output["data"][:4] == [2.0 * (4 * row + n) for n in range(4)]
        client.close()
    pool.remove("other", "1")
    with RawSocket(server.address) as client:
        client.head("GET", "/v2/models/rows/stats")
        [counts] = client.reply().json["model_stats"]
    assert (counts["inference_count"], counts["execution_count"]) == (COUNT, 2)
    sizes = {row["batch_size"]: row["compute_infer"]["count"] for row in counts["batch_stats"]}
    assert sizes == {4: 1, 1: 1}
    with RawSocket(server.address) as client:
        client.head("GET", "/metrics")
        text = client.reply().body.decode()
    label = '{model="rows",version="1"}'
    assert f"nv_inference_count{label} 5.0" in text
    assert f"nv_inference_exec_count{label} 2.0" in text
    assert f"tvm_hetero_executions_total{label} 2.0" in text
    assert f"tvm_hetero_joined_requests_total{label} 4.0" in text
    assert f"tvm_hetero_batches_total{label} 1.0" in text
    assert eventually(lambda: server.ask(lambda: pool.free == len(pool.owners)))


def test_policies_that_run_no_batches_refuse_their_plans(folders):
    with pytest.raises(UsageError, match="--policy fastest runs no batches"):
        ModelServer({"rows": folders}, ServeOptions(port=0, policy="fastest"))
