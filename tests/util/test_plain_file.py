"""Files that a user names are opened without waiting, and hold what fits."""

from __future__ import annotations

import os

import pytest

from tests.cli.invoke import tvm_hetero
from tvm_hetero.cli.shared.measure import read_inputs
from tvm_hetero.errors import UsageError
from tvm_hetero.serve.load_test.arrivals import read_trace
from tvm_hetero.util.plain_file import open_plain_file, read_plain_text


def test_a_file_is_read_through_links(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to("a")
    with open_plain_file(tmp_path / "b", 3) as file:
        assert file.read() == b"abc"
    assert read_plain_text(tmp_path / "a", 3) == "abc"


def test_what_is_none_is_refused_at_once_in_words(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"abcd")
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, told in (
        ("pipe", "it is no plain file"), ("/dev/zero", "it is no plain file"),
        (".", "it is a folder"), ("none", "No such file"), ("large", "it has 4 bytes, more than 3"),
        ("bytes", "it is not UTF-8 text"),
    ):  # fmt: skip
        with pytest.raises(OSError) as raised:
            read_plain_text(tmp_path / name, 3)
        assert told in raised.value.strerror


@pytest.mark.parametrize(
    "arguments",
    [("load-test", "http://localhost:1", "--model", "a", "--rate", 1), ("serve", "net.hetero")],
    ids=lambda arguments: arguments[0],
)
def test_no_option_waits_for_a_pipe(tmp_path, arguments):
    if arguments[0] == "serve":
        pytest.importorskip("tornado", reason="make peers installs it")
    os.mkfifo(tmp_path / "pipe")
    outcome = tvm_hetero(*arguments, "--key-file", tmp_path / "pipe")
    assert outcome.status == 2 and "it is no plain file" in outcome.err


def test_no_reader_waits_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = tmp_path / "pipe"
    for read in (lambda: read_trace(pipe, ["a"]), lambda: read_inputs(pipe)):
        with pytest.raises(UsageError, match="it is no plain file"):
            read()
