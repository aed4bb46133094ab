"""Numbers from JSON are those that are written, in the places that the shape says, or refused."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.serve.oip import numbers
from tvm_hetero.serve.oip.messages import cut_arrays, read_message
from tvm_hetero.serve.oip.numbers import read_numbers, write_numbers

SHAPES = array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
TYPES = st.sampled_from(["bool", "uint8", "int32", "int64", "uint64", "float32", "float64"])


def all_steps(steps: Generator[None, None, Any]) -> Any:
    """What steps return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def read(text: str, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
    """All steps of reading."""
    return all_steps(read_numbers(text.encode(), shape, np.dtype(dtype)))


@given(st.data(), st.booleans(), st.sampled_from([None, 1]))
def test_what_is_written_is_read(data, is_flat, indent):
    dtype = np.dtype(data.draw(TYPES))
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
    array = data.draw(arrays(dtype, SHAPES, elements=finite or None))
    text = json.dumps((array.ravel() if is_flat else array).tolist(), indent=indent)
    assert read(text, array.shape, dtype.name).tobytes() == array.tobytes()
    written = all_steps(write_numbers(array))
    assert read(written.decode(), array.shape, dtype.name).tobytes() == array.tobytes()


def test_a_long_text_is_read_in_pieces_and_comes_out_the_same(monkeypatch):
    array = np.random.default_rng(0).standard_normal((3, 50, 7))
    monkeypatch.setattr(numbers, "_PIECE", 100)
    monkeypatch.setattr(numbers, "_LARGE", 1 << 30)  # by lists
    monkeypatch.setattr(numbers, "_WRITTEN", 13)
    for text in (json.dumps(array.tolist()), json.dumps(array.ravel().tolist())):
        steps = read_numbers(text.encode(), array.shape, array.dtype)
        assert next(steps) is None  # others have their turn
        assert all_steps(steps).tobytes() == array.tobytes()
        with pytest.raises(RequestError, match="1050 numbers"):
            read(text[:-1] + ",1]", array.shape, "float64")
    assert json.loads(all_steps(write_numbers(array))) == array.ravel().tolist()


@pytest.mark.parametrize(
    "text",
    ["[1,2,3]", "[1,2,3,4,5]", "[[1,2],[3,4]]]", "[[1,2],[3]]", "[[1,2,3],[4]]", "[1,2],[3,4]",
     "[[1,2],[3 4]]", "[[1,2][3,4]]", "[[1,2],[3,]]", "[[[1,2],[3,4]]]", "1,2,3,4", "[]", "{}", "",
     "[[1],[2],[3],[4]]", "[1,2,3,4", '["1",2,3,4]', "[true,2,3,4]", "[null,2,3,4]", "[NaN,2,3,4]",
     "[Infinity,2,3,4]", "[1e400,2,3,4]", "[1e39,2,3,4]", "[[1,2],[3,4]] x", "[01,2,3,4]",
     "[1,2,3,4],", "[[1,2],[3,4],[]]", "[[1,[2]],3,4]"],
)  # fmt: skip
def test_what_is_not_just_the_shapes_numbers_is_refused(text):
    assert read("[[1,2],[3,4]]", (2, 2)).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RequestError):
        read(text, (2, 2))


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("[256]", "uint8"), ("[-1]", "uint64"), ("[1.5]", "int32"), ("[true]", "int32"),
     ("[1]", "bool"), ("[9223372036854775808]", "int64"), ("[18446744073709551616]", "uint64")],
)  # fmt: skip
def test_what_a_type_cannot_hold_is_refused(text, dtype):
    with pytest.raises(RequestError, match="its data"):
        read(text, (1,), dtype)


def test_an_enormous_shape_is_refused_before_memory_is_taken():
    with pytest.raises(RequestError, match="got 1 or fewer"):
        read("[1]", (1 << 40, 1 << 20))


def test_json_has_no_word_for_infinity():
    with pytest.raises(RequestError, match="binary_data"):
        all_steps(write_numbers(np.array([1.0, np.inf])))


def test_arrays_are_cut_out_of_large_documents_and_put_back():
    data = list(range(20_000))
    document = {
        "id": 'a "data": [1] \\"data\\": [2',
        "data": [3],
        "inputs": [
            {"name": "a", "shape": [20_000], "datatype": "INT64", "data": data},
            {"data": data[::-1], "name": "b", "shape": [20_000], "datatype": "INT64"},
        ],
    }
    text = json.dumps(document, indent=1).encode()
    rest, arrays = cut_arrays(text)
    assert len(rest) < 1000
    assert [json.loads(bytes(each)) for each in arrays] == [[3], data, data[::-1]]
    message = read_message(text)
    assert message.id == document["id"]
    assert [json.loads(bytes(each.data)) for each in message.inputs] == [data, data[::-1]]


def test_a_large_document_that_is_no_json_is_refused():
    data = b"[" + b"1," * 50_000 + b"1]"
    head = b'{"inputs":[{"name":"a","shape":[50001],"datatype":"INT64","data":'
    assert read_message(head + data + b"}]}").inputs[0].shape == [50001]
    for text in (head + data, head + data + b"]}", head[1:] + data + b"}]}", data):
        with pytest.raises(RequestError):
            read_message(text)
