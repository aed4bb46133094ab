"""Units that can do some things only: how a platform says so, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.arithmetic_units import WORK_KINDS, Units


def document(units: Any) -> dict[str, Any]:
    return {
        "format": "tvm-hetero/platform/1",
        "name": "p",
        "devices": [{"name": "pim", "units": units}],
    }


def test_what_is_written_is_read_again() -> None:
    given = Platform.from_dict(document({"width": 2, "work": {"product": 1, "attention": 0.5}}))
    assert given.devices[0].units == Units(2, {"product": 1.0, "attention": 0.5})
    assert Platform.from_dict(given.to_dict()) == given
    assert Platform((Device("d"),)).to_dict()["devices"] == [{"name": "d"}]


def test_narrower_numbers_are_computed_and_wider_ones_are_not() -> None:
    units = Units(2, {"product": 1.0})
    assert [units.can_run("product", width) for width in (1, 2, 4)] == [True, True, False]
    assert not any(units.can_run(kind, 2) for kind in WORK_KINDS if kind != "product")


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ({"width": 2, "work": {"prodct": 1}}, "did you mean 'product'"),
        ({"width": 2, "work": {"product": 0}}, "product: expected a share above 0"),
        ({"width": 2, "work": {"product": 1.5}}, "product: expected a share above 0"),
        ({"width": 2, "work": {}}, "at least one kind of work"),
        ({"width": 0, "work": {"product": 1}}, "width: expected an integer from 1 to 16"),
        ({"width": 2}, "key 'work' is missing"),
        ({"width": 2, "work": {"product": 1}, "speed": 1}, "unknown key"),
        ([2], "expected a mapping"),
    ],
)
def test_refusals(units: Any, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        Platform.from_dict(document(units))


@pytest.mark.parametrize("work", [{"prodct": 1.0}, {"product": 0.0}, {"product": float("nan")}])
def test_python_is_refused_the_same(work: dict[str, float]) -> None:
    with pytest.raises(PlatformError, match="units: "):
        Units(2, work)
