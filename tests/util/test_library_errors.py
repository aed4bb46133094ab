"""Why a library does not load: what the loader says, read for the user."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tvm_hetero.util.library_errors import explain_load_error


def explained(path: Path) -> str:
    with pytest.raises(OSError) as raised:
        ctypes.CDLL(str(path))
    return explain_load_error(path, raised.value, "build it again")


@pytest.mark.parametrize("content", [b"", b"junk" * 300, b"\x7fELF and no more"])
def test_a_damaged_one_is_built_again(tmp_path, content):
    (tmp_path / "a.so").write_bytes(content)
    text = explained(tmp_path / "a.so")
    assert (
        text
        == f"{tmp_path}/a.so: the library is damaged (cut short, or overwritten); build it again"
    )


def test_one_that_is_not_there(tmp_path):
    assert "the library is not there; build it again" in explained(tmp_path / "none.so")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("a.so: failed to map segment from shared object", "mounted noexec"),
        ("a.so: cannot enable executable stack: Operation not permitted", "mounted noexec"),
        ("a.so: wrong ELF class: ELFCLASS32", "for another kind of processor; build it again"),
        ("a.so: cannot allocate memory: Cannot allocate memory", "no memory left"),
        ("libfoo.so.1: cannot open shared object file: No such file", "needs libfoo.so.1"),
        ("a.so: undefined symbol: \x1b[31mf", "undefined symbol: \\x1b[31mf); build it again"),
    ],
)
def test_what_the_loader_says_is_read(tmp_path, words, told):
    (tmp_path / "a.so").touch()
    error = OSError(f"Check failed: (lib_handle_ != nullptr) is false:\nFailed: {words}")
    text = explain_load_error(tmp_path / "a.so", error, "build it again")
    assert told in text
    assert ("noexec" in text) == ("build it again" not in text and "memory" not in text)
