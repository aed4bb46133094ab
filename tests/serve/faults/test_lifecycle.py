"""A server as a process: signals at every time, and what it says when it cannot start."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.serve.faults.raw_socket import RawSocket
from tests.serve.server_process import ServerProcess
from tests.waiting import LIMIT, eventually
from tvm_hetero.cli.main import app


def _address(server: ServerProcess) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return host, int(port)


@pytest.mark.parametrize(("second", "status"), [(None, 0), (signal.SIGINT, 130)])
def test_the_first_signal_drains_and_the_second_ends_at_once(start_server, second, status):
    server = start_server("dense")
    with RawSocket(_address(server)) as client:
        client.head("POST", "/v2/models/dense/infer", "Content-Length: 4")
        client.send(b"ha")  # accepted, not all there
        with RawSocket(_address(server)) as other:
            assert other.head("GET", "/v2").reply().status == 200  # so the first one's head is, too
        server.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: server.get("/v2/health/ready").status == 503)
        assert server.process.poll() is None
        if second is None:
            client.send(b"lf")
            assert client.reply().status == 400  # `half` is no JSON, but it was looked at
            assert server.process.wait(LIMIT) == status
        else:
            assert server.end(second) == status
    server.end()
    assert any("draining" in line for line in server.lines)


_SLOW_TO_LOAD = """
import asyncio, subprocess, sys, time
sys.modules["torch"] = None  # as the verb does; it takes longer to load than all the rest
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.lifecycle import serve_until_signal
from tvm_hetero.serve.models.load_thread import in_thread
from tvm_hetero.serve.server import ModelServer
from tvm_hetero.util.leftovers import make_folder

class SlowToLoad(ModelServer):
    async def start(self):
        self.listen()
        print("loading", flush=True)
        make_folder("left.", sys.argv[1])
        subprocess.Popen(["sleep", "1000"])
        work = in_thread(lambda: time.sleep(1000))
        await asyncio.shield(self.context.repository.spawn(work))

async def main():
    server = SlowToLoad({}, ServeOptions(port=0, drain=float(sys.argv[2])))
    return await serve_until_signal(server, lambda text: print(text, flush=True))

raise SystemExit(asyncio.run(main()))
"""


@pytest.mark.parametrize(("drain", "status"), [("0.2", 0), ("1000", 130)])
def test_signals_while_models_load_end_it_and_nothing_is_left(tmp_path, drain, status):
    """By itself, or by the second one; the pipe ends with the last process that writes to it."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW_TO_LOAD, str(tmp_path), drain],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGTERM)
    if status:
        assert "draining" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == status
    assert status or "ending without it" in out
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_loaded_is_an_error_with_its_name(tmp_path):
    (tmp_path / "broken.hetero").mkdir()
    ended = CliRunner().invoke(app, ["serve", "--port", "0", str(tmp_path / "broken.hetero")])
    assert ended.exit_code == 2
    assert "broken.hetero" in ended.output
    assert "Traceback" not in ended.output


def test_a_port_that_is_taken_is_told_so(served_models):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        dense = str(served_models / "dense.hetero")
        ended = CliRunner().invoke(app, ["serve", "--port", port, dense])
    assert ended.exit_code == 2
    assert f"port {port}" in ended.output and "--port" in ended.output


def test_a_key_that_others_can_read_is_no_key(tmp_path):
    from tvm_hetero.cli.shared.serving import read_key
    from tvm_hetero.errors import UsageError

    path = tmp_path / "key"
    path.write_text("k" * 20)
    path.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        read_key(path)
    path.chmod(0o600)
    assert read_key(path) == "k" * 20
