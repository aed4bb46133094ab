"""A server as a process: it is up, and says what it serves. How it ends: `test_lifecycle`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.server import name_models


@pytest.fixture(scope="module")
def server(start_server):
    return start_server("branchy", "dense")


def test_it_says_what_it_is_and_that_it_is_ready(server):
    assert server.get("/v2/health/live").json == {"live": True}
    assert server.get("/v2/models/dense/ready").json == {"name": "dense", "ready": True}
    assert server.get("/v2").json["name"] == "tvm_hetero"


def test_what_is_not_there_is_told_so_without_paths(server, served_models):
    unknown = server.get("/v2/models/nets/ready")
    assert unknown.status == 404
    assert unknown.json["error"] == "there is no model 'nets'; there are: branchy, dense"
    assert str(served_models) not in unknown.body.decode()
    assert server.get("/v1/no/such/thing").status == 404


def test_a_page_of_strangers_cannot_call_a_server_on_loopback(server):
    assert server.get("/v2", {"Host": "evil.example"}).status == 421
    assert server.get("/v2", {"Host": "localhost:1"}).status == 200


@pytest.mark.parametrize("given", ["=a.hetero", "stats=a.hetero", ".", "x" * 300 + "=a.hetero"])
def test_names_that_no_path_can_name_are_refused(given):
    with pytest.raises(UsageError, match="NAME=PATH"):
        name_models([given])
    assert name_models(["a/b=c.hetero"]) == {"a/b": (Path("c.hetero"),)}


def test_several_artifacts_of_one_model_have_one_name(tmp_path):
    assert name_models(["x/a.hetero,b"]) == {"a": (Path("x/a.hetero"), Path("b"))}
    (tmp_path / "a,b.hetero").mkdir()
    assert name_models([str(tmp_path / "a,b.hetero")]) == {"a,b": (tmp_path / "a,b.hetero",)}
    for given in ("a,", "n=a,,b"):
        with pytest.raises(UsageError, match="commas between"):
            name_models([given])


@pytest.mark.parametrize("key", ["short", "line\nof a longer key", "k" * 5000])
def test_keys_that_no_client_can_send_are_refused(key):
    with pytest.raises(UsageError, match="16 to 4096 of ASCII"):
        ServeOptions(key=key)
    assert ServeOptions(key="k" * 4096).key
