"""What C++ reads of an array in JSON has the bits that lists have, or is left to these."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.serve.oip.test_numbers import all_steps
from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.serve.oip import native_numbers, numbers
from tvm_hetero.serve.oip.native_numbers import fill_from_json
from tvm_hetero.serve.oip.numbers import read_numbers

SHAPES = array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
TYPES = st.sampled_from([*INTEGERS, "float32", "float64"])
# Numbers as people and programs write them, and what only looks like one.
TEXTS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
)
NEARLY = st.text("0123456789.-+eE nainfxNI_", min_size=1, max_size=8)
SPACE = st.text(" \n\t\r", max_size=3)


def natively(
    text: bytes, shape: tuple[int, ...], dtype: str, *, is_nested: bool = False
) -> np.ndarray[Any, Any] | None:
    """The array, if C++ takes it."""
    array = np.empty(shape, dtype)
    return array if all_steps(fill_from_json(text, array, is_nested=is_nested)) else None


def slowly(text: bytes, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any] | None:
    """The array by way of lists, if it is one."""
    is_nested = text[:256].translate(None, b" \n\t\r").startswith(b"[[")
    steps = numbers._read_slowly(text, shape, np.dtype(dtype), is_nested=is_nested)
    try:
        array: np.ndarray[Any, Any] = all_steps(steps)
    except RequestError:
        return None
    return array


@given(st.data(), st.booleans(), st.sampled_from([None, 0, 1]))
def test_what_programs_write_is_read(data, is_nested, indent):
    dtype = np.dtype(data.draw(TYPES))
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
    array = data.draw(arrays(dtype, SHAPES, elements=finite or None))
    text = json.dumps((array if is_nested else array.ravel()).tolist(), indent=indent)
    read = natively(text.encode(), array.shape, dtype.name, is_nested=is_nested)
    assert read is not None
    assert read.tobytes() == array.tobytes()


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example(["-0", "-0.0", "-0e0", "0"])
@example(["9007199254740993", "18446744073709551615", "1e23", "8.41e21", "5e-324"])
@example(["1.00000017881393432617187499", "1.00000017881393432617187501"])
def test_the_bits_are_those_that_lists_have(texts):
    text = f"[{','.join(texts)}]".encode()
    for dtype in ("float64", "float32"):
        read, expected = (each(text, (len(texts),), dtype) for each in (natively, slowly))
        assert (read is None) == (expected is None)
        assert read is None or read.tobytes() == expected.tobytes()
        assert dtype == "float32" or read is not None


# Digits as tensors have them, of which most are read eight at a time: as many as 64 bits hold, and
# some more; and such as lie in the middle between two doubles, or next to it.
DECIMALS = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,25})?", fullmatch=True)
BETWEEN = [
    "4503599627370497.5", "4503599627370496.5", "4503599627370497.499", "-4503599627370497.501",
    "9007199254740993", "-9007199254740993.0", "18014398509481990", "18446744073709551615",
    "0.0000000000000000001", "-0.0", "-0", "0.1e1", "1.7976931348623157", "99999999999999999.99",
]  # fmt: skip


@given(st.lists(DECIMALS, min_size=8, max_size=30))
@example(BETWEEN)
def test_decimals_in_the_middle_of_a_text_have_the_bits_that_lists_have(decimals):
    texts = [*decimals, *["0.25"] * 20]  # what is near the end is read otherwise
    text = f"[{', '.join(texts)}]".encode()
    for dtype in ("float64", "float32"):
        read = natively(text, (len(texts),), dtype)
        assert read is not None
        assert (
            read.tobytes() == np.array([float(json.loads(each)) for each in texts], dtype).tobytes()
        )


@given(st.lists(DECIMALS | NEARLY, min_size=1, max_size=4), TYPES)
@example(["01.5"], "float32")
@example(["1.5.5"], "float64")
def test_what_is_none_in_the_middle_of_a_text_is_not_read(texts, dtype):
    texts = [*texts, *["7"] * 60]
    text = f"[{','.join(texts)}]".encode()
    read, expected = (each(text, (len(texts),), dtype) for each in (natively, slowly))
    if read is not None:
        assert expected is not None
        assert read.tobytes() == expected.tobytes()


@given(st.lists(TEXTS | NEARLY, min_size=1, max_size=4), SPACE, TYPES)
def test_what_is_read_is_what_lists_take(texts, space, dtype):
    text = f"[{f',{space}'.join(texts)}]".encode()
    read = natively(text, (len(texts),), dtype)
    if read is not None:
        expected = slowly(text, (len(texts),), dtype)
        assert expected is not None
        assert read.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "text",
    ["[1,2,3]", "[1,2,3,4,5]", "[[1,2],[3,4]]]", "[[1,2],[3]]", "[[1,2,3],[4]]", "[[1,2],[3 4]]",
     "[[1,2][3,4]]", "[[1,2],[3,]]", "[[[1,2],[3,4]]]", "1,2,3,4", "[]", "{}", "[[1],[2],[3],[4]]",
     "[1,2,3,4", "[[1,2],[3,4]", "[true,2,3,4]", "[NaN,2,3,4]", "[nan,2,3,4]", "[inf,2,3,4]",
     "[1e400,2,3,4]", "[1e39,2,3,4]", "[01,2,3,4]", "[1.,2,3,4]", "[1.e5,2,3,4]", "[.5,2,3,4]",
     "[+1,2,3,4]", "[--1,2,3,4]", "[-,2,3,4]", "[1e,2,3,4]", "[0x1,2,3,4]", "[1,2,3,4] ",
     "[1,2,3,4],", "[1,2,,3,4]", "[1,2,3,4,]", "[[1,2],[3,4]] x", '["1",2,3,4]'],
)  # fmt: skip
def test_what_is_not_just_the_shapes_numbers_is_left(text):
    assert natively(b"[[1,2],\n[3,4] ]", (2, 2), "float32", is_nested=True).tolist() == [
        [1, 2],
        [3, 4],
    ]
    for is_nested in (False, True):
        assert natively(text.encode(), (2, 2), "float32", is_nested=is_nested) is None


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_is_taken_if_its_type_holds_it(dtype):
    info = np.iinfo(dtype)
    for number in (int(info.min), int(info.max)):
        assert natively(b"[%d]" % number, (1,), dtype).tolist() == [number]
    for text in (b"[%d]" % (int(info.min) - 1), b"[%d]" % (int(info.max) + 1), b"[1.0]", b"[1e1]"):
        assert natively(text, (1,), dtype) is None


def test_a_long_text_is_read_in_pieces(monkeypatch):
    array = np.random.default_rng(0).standard_normal((3, 50, 7)).astype("float32")
    monkeypatch.setattr(native_numbers, "_PIECE", 100)
    for text in (json.dumps(array.tolist()), json.dumps(array.ravel().tolist())):
        turns = len(list(read_numbers(text.encode(), array.shape, array.dtype)))
        assert turns > len(text) // 200  # others have theirs between them
        read = all_steps(read_numbers(text.encode(), array.shape, array.dtype))
        assert read.tobytes() == array.tobytes()


def test_megabytes_of_space_are_left_and_a_large_wrong_text_is_told_what_is_wrong():
    assert natively(b"[1," + b" " * 5000 + b"2]", (2,), "float32") is None
    text = json.dumps([0.5] * 5000)
    shape, dtype = (5000,), np.dtype("float32")
    assert all_steps(read_numbers(text.encode(), shape, dtype)).tolist() == [0.5] * 5000
    with pytest.raises(RequestError, match="not 5000 numbers"):
        all_steps(read_numbers(f"{text[:-1]},1]".encode(), shape, dtype))
    with pytest.raises(RequestError, match="out of the range of float32"):
        all_steps(read_numbers(f"{text[:-4]}1e39]".encode(), shape, dtype))
