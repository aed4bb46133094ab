"""Bodies in gzip, read in pieces: what was packed, or an error; never more than the limit."""

from __future__ import annotations

import gzip
import random

import pytest

from tvm_hetero.errors import HeteroError
from tvm_hetero.serve.oip import gzip_body

PIECE = 64


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(gzip_body, "_UNPACKED", PIECE)


def _texts():
    draw = random.Random(0)
    for size in (1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 5000):
        yield bytes(size)  # a piece of the stream is many pieces of the text
        yield draw.randbytes(size)  # and the other way round


def test_what_was_packed_comes_out():
    for text in (b"", *_texts()):
        packed = gzip.compress(text)
        assert gzip_body.decompress(packed, len(text)) == text


def test_what_is_cut_or_goes_on_is_refused():
    for text in _texts():
        packed = gzip.compress(text)
        for broken in (packed[:-1], packed[: len(packed) // 2], packed + b"x", 2 * packed):
            with pytest.raises(HeteroError, match="ends before its end, or after it"):
                gzip_body.decompress(broken, 2 * len(text))
    with pytest.raises(HeteroError, match="is no gzip"):
        gzip_body.decompress(b"no gzip at all", 100)


def test_what_is_too_large_is_refused_before_it_is_there():
    for text in _texts():
        with pytest.raises(HeteroError, match="more than"):
            gzip_body.decompress(gzip.compress(text), len(text) - 1)
