"""Documents: read strictly, written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tvm_hetero.errors import FormatError
from tvm_hetero.util.documents import (
    canonical_json,
    check_format,
    check_keys,
    parse_document,
    read_document,
    write_atomic,
)
from tvm_hetero.util.strict_json import _may_hold_no_float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "expected a mapping at the top, got list"),
        ('{"a": NaN}', "plain finite numbers, got NaN"),
        ('{"a": -Infinity}', "plain finite numbers, got -Infinity"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' is given twice"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "plain finite numbers, got 999"),
    ],
)
def test_bad_json(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as error:
        parse_document(text, "x.json")
    assert str(error.value).startswith("x.json: ")


def test_bad_yaml() -> None:
    with pytest.raises(FormatError, match="not valid YAML"):
        parse_document("a: [1", "x.yaml", as_yaml=True)
    with pytest.raises(FormatError, match="not valid YAML"):
        parse_document("a: !!python/object/apply:os.system [ls]", "x.yaml", as_yaml=True)


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "a: {b: 1, b: 2}", "a:\n  - {c: 1, d: 2, c: 3}", "&x a: 1\n*x : 2"]
)
def test_a_key_given_twice_in_yaml(text: str) -> None:
    with pytest.raises(FormatError, match=r"x\.yaml: key '[abc]' is given twice"):
        parse_document(text, "x.yaml", as_yaml=True)


def test_yaml_merges_still_let_own_keys_win() -> None:
    text = "base: &b {a: 1, c: 2}\nmine: {<<: *b, a: 3}"
    assert parse_document(text, "x", as_yaml=True)["mine"] == {"a": 3, "c": 2}


@pytest.mark.parametrize("text", ["? {a: 1}\n: 2", "? [1]\n: 2", "a: &x\n  *x : 1", "&a [*a]: 1"])
def test_hostile_yaml_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_document(text, "x.yaml", as_yaml=True)


def test_an_empty_yaml_file_has_nothing() -> None:
    with pytest.raises(FormatError, match="expected a mapping at the top, got nothing"):
        parse_document("", "x.yaml", as_yaml=True)


def test_the_suffix_decides(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("a: {b: 1}")
    (tmp_path / "a.json").write_text('{"a": {"b": 1}}')
    assert read_document(tmp_path / "a.yml") == read_document(tmp_path / "a.json")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        read_document(tmp_path / "missing.json")
    with pytest.raises(FormatError, match="cannot be read"):
        read_document(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(FormatError, match="not UTF-8"):
        read_document(tmp_path / "latin.json")


def test_a_hostile_size_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse: takes no space
    with pytest.raises(FormatError, match="larger than"):
        read_document(path)


def test_write_replaces_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, "old")
    write_atomic(path, "new ä")
    assert path.read_text(encoding="utf-8") == "new ä"
    assert os.listdir(tmp_path) == ["a.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError, match="cannot be written"):
        write_atomic(tmp_path / "folder", "x")
    with pytest.raises(FormatError, match="cannot be written"):
        write_atomic(tmp_path / "missing" / "a.json", "x")
    assert os.listdir(tmp_path) == ["folder"]


def test_equal_data_equal_text() -> None:
    assert canonical_json({"b": [1, 2.5], "a": "é"}) == '{"a":"\\u00e9","b":[1,2.5]}'
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})


def test_keys() -> None:
    assert check_keys({"a": 1}, "x", ["a"], ["b"]) == {"a": 1}
    with pytest.raises(FormatError, match="x: key 'a' is missing"):
        check_keys({}, "x", ["a"])
    with pytest.raises(FormatError, match=r"x: unknown key 'bandwith'; did you mean 'bandwidth'\?"):
        check_keys({"bandwith": 1}, "x", [], ["bandwidth", "latency"])
    with pytest.raises(FormatError, match="x: expected a mapping, got 3"):
        check_keys(3, "x", [])
    with pytest.raises(FormatError, match="unknown key 7"):
        check_keys({7: 1}, "x", [], ["a"])


def test_format() -> None:
    check_format({"format": "f/1"}, "f/1", "x")
    with pytest.raises(FormatError, match='x: expected "format": "f/1", got \'f/2\''):
        check_format({"format": "f/2"}, "f/1", "x")


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, "text")
    assert os.read(reader, 100) == b"text" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "/dev/full", "/dev/tty0", "link", "loop"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for suffix in ("", ".json", ".yaml"):
        path = tmp_path / f"p{suffix}"
        path.symlink_to(tmp_path / name)
        with pytest.raises(FormatError, match="cannot be read"):
            read_document(path)


def test_names_with_numbers_are_no_large_exponents() -> None:
    """A hook for every number takes as long as all the rest of reading."""
    assert not _may_hold_no_float('{"node100": 1, "stage123": "device128", "e100": 1.5e-300}')
    assert all(map(_may_hold_no_float, ("1e100", "2.5E+999", "9" * 250 + "e99")))


def test_a_file_that_grows_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain file of /proc says that it has 0 bytes, whatever it has."""
    monkeypatch.setattr("tvm_hetero.util.documents.MAX_DOCUMENT_BYTES", 10)
    with pytest.raises(FormatError, match="it is larger than 10 bytes"):
        read_document("/proc/self/status")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1e999}', "plain finite numbers, got 1e999"),
        ('{"a": ' + "9" * 400 + "}", "plain finite numbers, got 999"),
        ('{"a": ' + "9" * 250 + "e99}", "plain finite numbers, got 999"),
        ('{"a": "\\ud800"}', r"half a surrogate pair, '\\ud800'"),
        ('{"\\udc00": 1}', "half a surrogate pair"),
        ('{"a": ' * 65 + "1" + "}" * 65, "nested more than 64 levels deep"),
        ('{"a": [' + "[]," * 4_000_000 + "1]}", "more than 8000000 values"),
        ('\ufeff{"a": 1}', "not valid JSON"),
    ],
)  # fmt: skip
def test_json_that_could_mean_nothing(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_document(text, "x.json")
    assert parse_document('{"a": "\\ud83d\\ude00", "b": 1e00001}', "x")["a"] == "\U0001f600"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: .inf", "plain finite numbers, got .inf"),
        ("a: 2020-01-02", "got a timestamp '2020-01-02'; put texts into quotation marks"),
        ("a: !!set {b, c}", "got a set"),
        ("a: !!binary aGk=", "got a binary"),
        ("a: " + "1:" * 501 + "1", "a number of 1003 characters"),
        ("a: [" + "1," * 30_000 + "1]", "more than 30000 values; write it as JSON"),
        ("a: " + "x" * 2**20, "larger than 1048576 characters of YAML"),
        ('a: "\\ud800"', "half a surrogate pair"),
        ("a: " + "[" * 65 + "]" * 65, "nested more than 64 levels deep"),
    ],
)  # fmt: skip
def test_yaml_that_json_could_not_say(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_document(text, "x.yaml", as_yaml=True)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_a_full_device_is_an_error() -> None:
    """Of the kernel's own making: every write fails for want of room."""
    with pytest.raises(FormatError, match="/dev/full: cannot be written: No space left"):
        write_atomic("/dev/full", "text")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
