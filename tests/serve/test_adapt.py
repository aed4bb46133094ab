"""A server with ``--adapt``: what happens to plans on all cores is told where one looks."""

from __future__ import annotations

import json

from tests.serve.faults.raw_socket import RawSocket
from tests.serve.server_thread import ServerThread
from tvm_hetero.serve.core.events import INTERFERENCE, SWITCH, ServerEvent
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.models.adapted_share import AdaptedShare


def _fetch(server: ServerThread, path: str) -> str:
    with RawSocket(server.address) as client:
        client.head("GET", path)
        return client.reply().body.decode()


def test_what_is_told_of_a_plan_is_on_the_page_and_in_the_metrics(served_models):
    models = {"dense": served_models / "dense.hetero"}
    with ServerThread(models, ServeOptions(port=0, adapt=True)) as server:
        found = server.ask(lambda: server.server.context.repository.find("dense"))
        kept = found.tensors.instances._kept
        watched = {key for key, executor in kept.items() if isinstance(executor, AdaptedShare)}
        cores = found.tensors.instances.plans.cores
        assert watched == {(cores, "single"), (cores, "stream")}
        adaptation = server.server._adaptation
        before = adaptation.loop_seconds()
        for kind in (INTERFERENCE, SWITCH, INTERFERENCE):
            adaptation.tell(ServerEvent(kind, f"some {kind}", "dense"))
        events = json.loads(_fetch(server, "/page/state.json"))["events"]
        assert [each["text"] for each in events[:3]] == [
            "some interference", "some switch", "some interference",
        ]  # fmt: skip
        metrics = _fetch(server, "/metrics")
        assert 'tvm_hetero_events_total{kind="interference"} 2.0' in metrics
        assert 'tvm_hetero_events_total{kind="switch"} 1.0' in metrics
        assert adaptation.loop_seconds() >= before
