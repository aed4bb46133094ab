"""Which sizes an open dimension has, and which size a request is of."""

from __future__ import annotations

import pytest

from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.sizes.axes import OpenAxis, OpenShapes, distance, size_name, sizes_text

WIDTH = OpenAxis("width", range(160, 641, 32))
TEXT = OpenShapes((WIDTH,), {"x": (1, 3, 48, "width"), "mask": (1, "width"), "scale": ()})


def test_both_ends_and_the_middle_of_a_range_come_first() -> None:
    assert TEXT.first_sizes == [(160,), (384,), (640,)]
    assert OpenShapes((OpenAxis("n", range(3, 5)),), {"x": ("n",)}).first_sizes == [(3,), (4,)]


def test_all_of_a_list_comes_first_whatever_its_order() -> None:
    assert OpenShapes((OpenAxis("n", [320, 160, 640]),), {"x": ("n",)}).first_sizes == [
        (160,), (320,), (640,)
    ]  # fmt: skip


def test_ranges_go_from_end_to_end_together_and_lists_are_combined() -> None:
    axes = (OpenAxis("n", (1, 8)), OpenAxis("h", range(10, 31, 10)), OpenAxis("w", range(5, 7)))
    shapes = OpenShapes(axes, {"x": ("n", "h", "w")})
    assert shapes.first_sizes == [
        (1, 10, 5), (1, 20, 6), (1, 30, 6), (8, 10, 5), (8, 20, 6), (8, 30, 6)
    ]  # fmt: skip


def test_a_request_has_the_size_that_its_inputs_say() -> None:
    given = {"x": (1, 3, 48, 200), "mask": (1, 200), "scale": ()}
    assert TEXT.size_of(given) == (200,)
    assert TEXT.shapes_at((200,)) == given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": (1, 3, 48, 160), "mask": (1, 192)}, "is 192, but 160 in input x"),
        ({"x": (1, 3, 32, 160)}, r"got shape \[1, 3, 32, 160\], expected x: \[1, 3, 48, width\]"),
        ({"x": (1, 3, 160)}, r"got shape \[1, 3, 160\]"),
        ({"scale": ()}, "no input tells the size of width: 160..640/32"),
    ],
)
def test_shapes_that_are_no_size_are_refused(given: dict, words: str) -> None:
    with pytest.raises(RunError, match=words):
        TEXT.size_of(given)


def test_a_size_outside_is_told_with_the_range_and_its_neighbours() -> None:
    assert TEXT.in_range((192,)) and not TEXT.in_range((200,))
    assert TEXT.refuse((200,)) == (
        "width is 200, and its sizes are 160..640/32 (next to it 192 and 224)"
    )
    assert TEXT.refuse((700,)).endswith("(next to it 640)")


@pytest.mark.parametrize("sizes", [(), range(5, 5), (0, 4), range(9)])
def test_an_axis_without_sizes_or_with_empty_tensors_is_refused(sizes: range | tuple) -> None:
    with pytest.raises(UsageError, match=r"dimension n: (there is no size|expected sizes of)"):
        OpenAxis("n", sizes)


def test_sizes_have_names_and_distances() -> None:
    assert (size_name((1, 160)), sizes_text(range(8, 17, 4)), sizes_text((8, 9))) == (
        "1x160", "8..16/4", "8,9"
    )  # fmt: skip
    assert distance((100,), (200,)) == pytest.approx(distance((200,), (100,)))
    assert distance((1, 100), (2, 100)) == pytest.approx(distance((1, 100), (1, 200)))


def test_a_range_of_any_length_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"expected sizes of 1 to 16777216, got 1\.\.99999999999"):
        OpenAxis("width", range(1, 99_999_999_999 + 1))


def test_the_sizes_on_either_side_are_those_of_a_search() -> None:
    for sizes in (range(160, 641, 32), (3, 8, 100)):
        axis = OpenAxis("width", sizes)
        for number in (1, 3, 5, 160, 170, 192, 640, 700):
            below = [n for n in sizes if n < number][-1:]
            above = [n for n in sizes if n > number][:1]
            assert axis.nearest(number) == " and ".join(map(str, below + above))
