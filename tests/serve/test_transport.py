"""A query that could be computed in time, but not read and written, is refused, and tried again."""

from __future__ import annotations

import json

from tests.serve.faults.raw_socket import RawSocket
from tests.serve.server_thread import ServerThread
from tvm_hetero.serve.core.deadline import TIMEOUT_HEADER
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.models.transport_times import FEW, form_of

BODY = json.dumps(
    {"inputs": [{"name": "input0", "datatype": "FP32", "shape": [1, 32], "data": [0.0] * 32}]}
).encode()


def test_reading_and_writing_count_at_the_door_and_are_doubted_when_they_refuse(served_models):
    options = ServeOptions(port=0, slo={"dense": 600.0})
    models = {"dense": served_models / "dense.hetero"}
    form = form_of("json", str(len(BODY)))
    with ServerThread(models, options) as server, RawSocket(server.address) as client:

        def statuses(count: int, *headers: str) -> list[int]:
            found, length = [], f"Content-Length: {len(BODY)}"
            for _ in range(count):
                client.head("POST", "/v2/models/dense/infer", length, *headers)
                found.append(client.send(BODY).reply().status)
            return found

        assert statuses(FEW) == [200] * FEW
        model = server.ask(lambda: server.server.context.repository.find("dense"))
        times = model.statistics
        assert 0 < server.ask(lambda: times.reading.typical(form)) < 60
        assert 0 < server.ask(lambda: times.writing.typical(form)) < 60
        for phase in (times.reading, times.writing):
            for _ in range(FEW + 1):
                server.ask(lambda phase=phase: phase.add(form, 3600.0))
        # What would be late without them, too, says nothing of them.
        assert statuses(FEW + 3, f"{TIMEOUT_HEADER}: 1") == [503] * (FEW + 3)
        assert server.ask(lambda: times.reading.typical(form)) == 3600.0
        assert server.ask(lambda: times.writing.typical(form)) == 3600.0
        # Each refusal forgets a sample; with fewer than `FEW` nothing is predicted.
        assert statuses(FEW + 3) == [503] * (FEW + 2) + [200]
