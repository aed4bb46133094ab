"""Models come and go over HTTP, for those who may."""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest

from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.serve.server_process import ServerProcess
from tests.waiting import eventually
from tvm_hetero.serve.core.options import ServeOptions

client = pytest.importorskip("tritonclient.http", reason="make peers installs it")
utils = pytest.importorskip("tritonclient.utils")


@pytest.fixture
def home(served_models, tmp_path):
    """A folder with a model that a test may break."""
    shutil.copytree(served_models / "dense.hetero", tmp_path / "mine.hetero")
    return tmp_path


@pytest.fixture
def process(home, served_models):
    """A server with administration, that serves ``mine`` and ``branchy``."""
    models = [str(home / "mine.hetero"), str(served_models / "branchy.hetero")]
    with ServerProcess([*models, "--admin"]) as each:
        yield each


def states(triton):
    """State and version of each name."""
    return {e["name"]: (e["state"], e["version"]) for e in triton.get_model_repository_index()}


def test_a_model_is_unloaded_loaded_and_keeps_serving_when_loading_fails(process, home):
    with client.InferenceServerClient(process.url.removeprefix("http://")) as triton:
        assert states(triton) == {"branchy": ("READY", "1"), "mine": ("READY", "1")}
        triton.unload_model("mine")
        assert states(triton)["mine"] == ("UNAVAILABLE", "")
        assert not triton.is_model_ready("mine")
        assert process.post("/v2/repository/index", {"ready": True}).json[0]["name"] == "branchy"
        refused = process.post("/v2/models/mine/infer", {"inputs": []})
        assert (refused.status, "not ready" in refused.json["error"]) == (503, True)
        triton.load_model("mine")
        assert triton.is_model_ready("mine")
        triton.load_model("mine")  # a new version takes over
        assert states(triton)["mine"] == ("READY", "3")  # unloading does not begin the count anew
        assert process.get("/v2/models/mine/versions/1").status == 404
        shutil.rmtree(home / "mine.hetero")
        failed = process.post("/v2/repository/models/mine/load")
        assert failed.status == 500
        assert str(home) not in failed.body.decode()
        assert str(home) not in process.post("/v2/repository/index").body.decode()
        assert states(triton)["mine"] == ("READY", "3")
        with pytest.raises(utils.InferenceServerException, match="not found"):
            triton.load_model("../../etc")


def test_without_the_option_no_one_may():
    with Hosted() as server:
        for verb in ("load", "unload"):
            with RawSocket(server.address) as raw:
                raw.head("POST", f"/v2/repository/models/dense/{verb}", "Content-Length: 0")
                refused = raw.reply()
            assert (refused.status, "--admin" in refused.json["error"]) == (403, True)


def test_too_many_changes_of_a_name_are_told_to_come_later(served_models):
    options = ServeOptions(port=0, admin=True)
    with Hosted({"dense": served_models / "dense.hetero"}, options) as server, ExitStack() as all_:
        clients = [all_.enter_context(RawSocket(server.address)) for _ in range(14)]
        lock = server.server.context.repository._locks["dense"]
        server.call(lock.acquire())
        for each, verb in zip(clients, ["load", "unload"] * 7, strict=True):
            each.head("POST", f"/v2/repository/models/dense/{verb}", "Content-Length: 0")
        busy = server.server.context.active
        assert eventually(lambda: server.ask(lambda: len(busy)) == 8)
        server.ask(lock.release)
        replies = [each.reply() for each in clients]
    refused = [reply for reply in replies if reply.status != 200]
    assert [reply.status for reply in refused] == [503] * 6
    assert {reply.headers["tvm-hetero-reason"] for reply in refused} == {"queue_full"}
    assert all(reply.headers["retry-after"] == "1" for reply in refused)


def test_administration_asks_for_the_key_of_all_if_it_has_none_of_its_own(served_models):
    key = "0123456789abcdef"
    options = ServeOptions(port=0, admin=True, key=key)
    with Hosted({"dense": served_models / "dense.hetero"}, options) as server:
        statuses = []
        for header in (), (f"Authorization: Bearer {key}",):
            with RawSocket(server.address) as client:
                client.head(
                    "POST", "/v2/repository/models/dense/unload", "Content-Length: 0", *header
                )
                statuses.append(client.reply().status)
    assert statuses == [401, 200]
