"""Fields of a document: of their type, or refused with the path, what was expected and what is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import FormatError
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.units import parse_bytes, parse_seconds


def row(value: Any) -> Fields:
    return Fields({"key": value}, "x.json: task 3", [], ["key"])


READERS: dict[str, Callable[[Fields], object]] = {
    "text": lambda f: f.text("key"),
    "name": lambda f: f.name("key"),
    "choice": lambda f: f.choice("key", ["a", "b"]),
    "flag": lambda f: f.flag("key"),
    "integer": lambda f: f.integer("key"),
    "bounded": lambda f: f.integer("key", least=1, most=9),
    "integers": lambda f: f.integers("key", least=0, distinct=True),
    "number": lambda f: f.number("key"),
    "names": lambda f: f.names("key"),
    "quantity": lambda f: f.quantity("key", parse_seconds),
    "mapping": lambda f: f.mapping("key"),
    "items": lambda f: f.items("key"),
    "rows": lambda f: f.rows("key", lambda data, where: Fields(data, where, ["id"]).name("id")),
    "fields": lambda f: f.fields("key", ["id"]).integer("id"),
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**4000), math.nan, math.inf, -0.0, "", "5us", "\x1b[31m"])
    | st.floats()
    | st.text(),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text() | st.just("id"), v, max_size=4),
    max_leaves=10,
)


@given(kind=st.sampled_from(sorted(READERS)), value=JSON)
def test_any_value_in_any_field_is_read_or_refused_with_its_path(kind: str, value: Any) -> None:
    try:
        READERS[kind](row(value))
    except FormatError as error:
        message = str(error)
        assert message.startswith(("x.json: task 3: key: ", "x.json: task 3: key["))
        assert len(message) < 500 and message.isprintable()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", ""), ("name", "a"), ("choice", "b"), ("flag", False), ("integer", -(10**30)),
        ("bounded", 9), ("integers", [0, 2]), ("number", 1.5), ("names", ["a", "b"]),
        ("mapping", {5: 1}), ("items", [1, "a"]),
    ],
)  # fmt: skip
def test_a_value_of_its_type_is_read_as_it_is(kind: str, value: Any) -> None:
    found = READERS[kind](row(value))
    assert found == (tuple(value) if kind in {"integers", "names"} else value)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("text", 5, "key: expected text, got 5"),
        ("name", "", "key: expected a name, got ''"),
        ("choice", "c", "key: expected one of 'a', 'b', got 'c'"),
        ("flag", 1, "key: expected true or false, got 1"),
        ("integer", True, "key: expected an integer, got True"),
        ("integer", 2.0, "key: expected an integer, got 2.0"),
        ("bounded", 10, "key: expected an integer from 1 to 9, got 10"),
        ("integers", 3, "key: expected a list of integers such as [0, 1], got 3"),
        ("integers", [0, -1], "key[1]: expected an integer of at least 0, got -1"),
        ("integers", [4, 4], "key: expected a list with each number once, got [4, 4]"),
        ("number", "1", "key: expected a finite number of at least 0, got '1'"),
        ("number", 10**400, "key: expected a finite number of at least 0, got a number of"),
        ("names", ["a", ""], "key: expected a list of names, got ['a', '']"),
        ("mapping", [], "key: expected a mapping, got []"),
        ("items", "ab", "key: expected a list, got 'ab'"),
        ("rows", [{"id": "a"}, {}], "key[1]: key 'id' is missing"),
        ("rows", [{"id": "a"}, {"id": 1}], "key[1]: id: expected a name, got 1"),
        ("fields", {"idd": 1}, "key: unknown key 'idd'; did you mean 'id'?"),
    ],
)
def test_a_wrong_value_is_named(kind: str, value: Any, message: str) -> None:
    with pytest.raises(FormatError) as error:
        READERS[kind](row(value))
    assert str(error.value).startswith(f"x.json: task 3: {message}")


def test_an_absent_field_stands_for_its_default() -> None:
    empty = Fields({}, "x", [], ["key"])
    assert (empty.text("key", ""), empty.name("key", "a"), empty.flag("key")) == ("", "a", False)
    assert (empty.integer("key", -1), empty.integers("key", ())) == (-1, ())
    assert empty.quantity("key", parse_bytes, 7) == 7
    assert empty.rows("key", lambda data, where: data, default=()) == ()
    assert "key" not in empty and not empty.has("key")
    assert "key" in row(None) and not row(None).has("key")


def test_an_absent_field_without_a_default_is_refused() -> None:
    with pytest.raises(FormatError, match="x: key: expected a name, got None"):
        Fields({}, "x", [], ["key"]).name("key")


def test_a_document_may_make_up_names() -> None:
    free = Fields({"format": "f", "a": "b"}, "x", ["format"], None)
    assert free.name("a") == "b"
    with pytest.raises(FormatError, match="expected a mapping, got 3"):
        Fields(3, "x", [], None)
    with pytest.raises(FormatError, match="unknown key 'a'"):
        Fields({"format": "f", "a": "b"}, "x", ["format"])


def test_a_name_that_a_document_makes_up_is_quoted() -> None:
    with pytest.raises(FormatError) as error:
        Fields({"\x1b[31m": 1}, "x", [], None).text("\x1b[31m")
    assert str(error.value) == r"x: '\x1b[31m': expected text, got 1"


def test_rows_are_called_by_what_they_are() -> None:
    with pytest.raises(FormatError, match=r"^x: device 1: expected a mapping, got 5"):
        Fields({"devices": [{}, 5]}, "x", ["devices"]).rows("devices", Fields, "device")
