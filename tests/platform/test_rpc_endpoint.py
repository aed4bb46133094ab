"""Where boards are: read, written, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.rpc_endpoint import PATIENCE, Remote, parse_remote, remote_row

ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
SERVER = Remote(server="10.0.0.7:9090")


@pytest.mark.parametrize(
    "remote",
    [
        SERVER,
        Remote(server="[::1]:9090", key="pi", timeout=2.5),
        Remote(tracker="tracker.local:9190", key="rpi4"),
    ],
)
def test_what_is_written_is_read_again(remote: Remote) -> None:
    assert parse_remote(remote_row(remote), "here") == remote


def test_times_have_units_and_there_is_a_default() -> None:
    assert parse_remote({"server": "pi:9090", "timeout": "250ms"}, "") == Remote(
        server="pi:9090", timeout=0.25
    )
    assert parse_remote({"server": "pi:9090"}, "") == Remote(server="pi:9090", timeout=PATIENCE)
    assert parse_remote(None, "") is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, "either server"),
        ({"server": "pi:9090", "tracker": "pi:9190", "key": "a"}, "either server"),
        ({"tracker": "pi:9190"}, "add key"),
        ({"server": "pi"}, "address such as"),
        ({"server": "pi:0"}, "address such as"),
        ({"server": "pi:70000"}, "address such as"),
        ({"server": 9090}, "address such as"),
        ({"server": "pi:9090 -timeout=1"}, "address such as"),
        ({"server": "pi:9090", "key": "two words"}, "expected a word"),
        ({"server": "pi:9090", "timeout": 0}, "more than 0 s"),
        ({"server": "pi:9090", "port": 1}, "port"),
        ("pi:9090", "expected"),
    ],
)
def test_what_is_no_place_is_refused(row: Any, words: str) -> None:
    with pytest.raises(FormatError, match=f"device 0: rpc.*{words}"):
        parse_remote(row, "device 0: rpc")


def test_address_and_words_of_a_place() -> None:
    assert SERVER.address == ("10.0.0.7", 9090)
    assert Remote(server="[::1]:9090").address == ("::1", 9090)
    assert Remote(tracker="t:9190", key="rpi4").text == "key 'rpi4' of RPC tracker t:9190"
    # How long one waits says nothing of where it is.
    assert Remote(server="pi:1", timeout=1).text == Remote(server="pi:1", timeout=9).text


def test_a_platform_file_keeps_its_boards(tmp_path: Path) -> None:
    platform = Platform((Device("cpu0", target={"kind": "llvm"}, cores=(0,)),
                         Device("pi", target=ARM, rpc=SERVER, memory=1 << 30)))  # fmt: skip
    assert Platform.from_dict(platform.to_dict()) == platform
    platform.save(tmp_path / "boards.yaml")
    assert Platform.load(tmp_path / "boards.yaml") == platform


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"target": None}, "give it a target"),
        ({"cores": (0,)}, "not this machine's"),
        ({"overlap": True}, "busy while tensors are moved"),
        ({"private": True}, "memory of its own anyway"),
    ],
)
def test_what_a_board_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(PlatformError, match=f"'pi' is reached by RPC.*{words}"):
        Platform((Device("pi", **{"target": ARM, "rpc": SERVER, **fields}),))


def test_one_server_is_one_device_but_a_key_may_be_many() -> None:
    with pytest.raises(PlatformError, match="'pi0' and 'pi1' are one RPC server"):
        Platform(tuple(Device(f"pi{i}", target=ARM, rpc=SERVER) for i in range(2)))
    lent = Remote(tracker="t:9190", key="rpi4")
    assert len(Platform(tuple(Device(f"pi{i}", target=ARM, rpc=lent) for i in range(2))).names) == 2
