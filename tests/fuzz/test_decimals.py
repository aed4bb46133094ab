"""A few texts of decimals of each form; `tests.fuzz.decimals` draws millions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import decimals


def test_no_decimal_has_other_bits_than_python_gives_it() -> None:
    outcomes = [decimals.attempt(seed) for seed in range(9, 12)]
    assert {form for form, _ in outcomes} == set(decimals.FORMS)
    assert [fault for _, fault in outcomes if fault] == []


def test_a_decimal_that_is_rounded_wrongly_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(text: bytes, array: np.ndarray, **_: bool):  # type: ignore[no-untyped-def,type-arg]
        array[:] = [float(each) for each in text[1:-1].split(b",")]
        array[7] = np.nextafter(array[7], 0)
        return True
        yield

    monkeypatch.setattr(decimals, "fill_from_json", cut)
    form, fault = decimals.attempt(0)
    assert form in decimals.FORMS and "is read as" in fault
