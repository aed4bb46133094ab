"""Units: text to numbers and back to text for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import FormatError
from tvm_hetero.util.units import (
    LEAST,
    MOST,
    format_bytes,
    format_seconds,
    parse_bytes,
    parse_number,
    parse_quantity,
    parse_rate,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (0, 0),
        (4096, 4096),
        (2**53 + 1, 2**53 + 1),
        ("17", 17),
        ("8GiB", 8 * 2**30),
        ("1.5 MB", 1_500_000),
        (" 2 KiB ", 2048),
        ("1kB", 1000),
        ("1KB", 1000),
        ("3TiB", 3 * 2**40),
    ],
)
def test_sizes(given_: object, expected: int) -> None:
    assert parse_bytes(given_) == expected
    assert isinstance(parse_bytes(given_), int)


def test_rates_and_times() -> None:
    assert parse_rate("20GB/s") == 20e9
    assert parse_rate("1KiB/s") == 1024
    assert parse_rate(5) == 5.0
    assert parse_seconds("5us") == 5e-6  # not 4.9999999999999996e-06, which files would show
    assert parse_seconds("200us") == 0.0002
    assert parse_seconds("5µs") == parse_seconds("5us")
    assert parse_seconds("2min") == 120
    assert parse_number("1.0e12") == 1e12


@pytest.mark.parametrize(
    "value",
    [
        "",
        "GiB",
        "8 gigs",
        "-1",
        -1,
        math.nan,
        math.inf,
        "1e999",
        10**400,
        "1.2.3",
        True,
        None,
        [],
        "1e999999999 kB",
        "1e99999999999999999999",
    ],
)
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(FormatError) as error:
        parse_bytes(value, "device 0: memory")
    assert "device 0: memory" in str(error.value)
    assert "expected" in str(error.value)


@pytest.mark.parametrize("value", [1e308, 1.01e30, 5e-324, 9.9e-31, "1e300 s", 10**31])
def test_quantities_that_cannot_be_are_refused(value: object) -> None:
    """Sums of such are infinite, or 0 and "optimal"."""
    for parse in (parse_seconds, parse_quantity):
        with pytest.raises(FormatError, match=r"expected a \w+ of 0, or from 1e-30 to 1e\+30"):
            parse(str(value).split()[0] if parse is parse_quantity else value)


@pytest.mark.parametrize("value", [2**60 + 1, 2**70, "1025PiB", 1e19, 1e29])
def test_sizes_whose_sums_fit_no_64_bits_are_refused(value: object) -> None:
    assert parse_bytes(2**60) == 2**60
    with pytest.raises(FormatError, match="expected a size of at most 1 EiB"):
        parse_bytes(value)


def test_an_unknown_unit_lists_the_units() -> None:
    with pytest.raises(FormatError, match=r"got '8 GB/h'.*the units are .*GB/s"):
        parse_rate("8 GB/h")


@given(st.just(0.0) | st.floats(LEAST, MOST))
def test_a_number_is_read_as_it_is_written(value: float) -> None:
    assert parse_seconds(value) == value
    assert parse_seconds(repr(value)) == value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1234, "1234 s"),
        (0.0123, "12.3 ms"),
        (5e-6, "5.00 us"),
        (3e-8, "30.0 ns"),
        (0.9996, "1.00 s"),
        (0.9994, "999 ms"),
        (9.996, "10.0 s"),
    ],
)
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1.5 * 2**20, "1.50 MiB"), (2**41, "2.00 TiB")]
)
def test_bytes_for_people(size: float, text: str) -> None:
    assert format_bytes(size) == text


@given(st.floats(1e-9, 1e9))
def test_seconds_for_people_are_near_the_truth(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds, rel=0.0051)
