"""With ``--best-effort`` what would be refused for its deadline is answered late, and counted."""

from __future__ import annotations

import json

import pytest

from tests.serve.faults.raw_socket import RawSocket
from tests.serve.server_thread import ServerThread
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.server import policy_of

BODY = json.dumps(
    {"inputs": [{"name": "input0", "datatype": "FP32", "shape": [1, 32], "data": [0.0] * 32}]}
).encode()


@pytest.mark.parametrize(("best_effort", "status"), [(False, 503), (True, 200)])
def test_what_cannot_be_in_time_is_refused_or_answered_late(served_models, best_effort, status):
    options = ServeOptions(port=0, slo={"dense": 1e-6}, best_effort=best_effort)
    models = {"dense": served_models / "dense.hetero"}
    with ServerThread(models, options) as server, RawSocket(server.address) as client:
        client.head("POST", "/v2/models/dense/infer", f"Content-Length: {len(BODY)}").send(BODY)
        assert client.reply().status == status
        rows = server.ask(lambda: list(server.server.metrics.ledger))
        ((_, _, row),) = rows
        assert (row.missed, row.outcomes["refused"]) == (int(best_effort), int(not best_effort))


@pytest.mark.parametrize("name", sorted(SHARE_POLICIES))
def test_every_policy_can_be_had_so(name):
    made = policy_of(name, best_effort=True)(ServiceProfile({}, places=2), 2)
    assert type(made) is SHARE_POLICIES[name]
