"""``--shape`` with several sizes of a dimension."""

from __future__ import annotations

import pytest

from tvm_hetero.cli.shared.open_shapes import parse_open_shapes
from tvm_hetero.errors import UsageError


def test_ranges_and_lists_are_read() -> None:
    assert parse_open_shapes(["x=1x3x48x160..640/32"]) == {"x": (1, 3, 48, range(160, 641, 32))}
    assert parse_open_shapes(["x=1x3x48x160,320"]) == {"x": (1, 3, 48, (160, 320))}
    assert parse_open_shapes(["a=b=2..4", "y=1,8"]) == {"a=b": (range(2, 5),), "y": (1, 8)}


@pytest.mark.parametrize("texts", [None, [], ["x=1x3x8"], ["x=1,3,8"], ["x="], ["x=scalar"]])
def test_shapes_of_one_size_are_not_for_this_parser(texts: list[str] | None) -> None:
    assert parse_open_shapes(texts) is None


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["x=1x8..4"], "FROM <= TO"),
        (["x=1x0..4"], "1 <= FROM"),
        (["x=1x4..8/0"], "STEP >= 1"),
        (["x=1x160..650/32"], "does not end at 650, but at 640"),
        (["x=1x4..8..9"], "expected numbers, ranges and lists"),
        (["x=1x4..8", "x=1x4..8"], "given twice"),
        (["x=1x4..8", "y=?x3"], "expected numbers, ranges and lists"),
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(texts: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_open_shapes(texts)
