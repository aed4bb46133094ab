"""A limit leaves as many descriptors as it says, wherever those that are open lie."""

from __future__ import annotations

import os

import pytest

from tests.descriptors import descriptors_left, open_descriptors


@pytest.mark.parametrize("high", [False, True], ids=["dense", "with gaps"])
@pytest.mark.parametrize("count", [0, 7])
def test_just_so_many_more_can_be_opened(count: int, high: bool) -> None:
    opened = [os.dup(0) for _ in range(60)]
    if high:  # what is closed lies below what is open: a count of all is no number of any
        for number in opened[:50]:
            os.close(number)
        del opened[:50]
    kept: list[int] = []
    try:
        with descriptors_left(count), pytest.raises(OSError, match="Too many open files"):
            while True:
                kept.append(os.dup(0))
        assert len(kept) == count
    finally:
        for number in [*opened, *kept]:
            os.close(number)


def test_a_new_one_is_seen_and_its_number_taken_by_another_file_is_new() -> None:
    before = open_descriptors()
    number = os.open("/dev/null", os.O_RDONLY)
    try:
        assert open_descriptors() - before == {(number, "/dev/null")}
        other = os.open("/dev/zero", os.O_RDONLY)
        os.dup2(other, number)
        os.close(other)
        assert open_descriptors() - before == {(number, "/dev/zero")}
    finally:
        os.close(number)
    assert open_descriptors() <= before
