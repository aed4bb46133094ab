"""Medians by form and size of a request, and that they refuse nobody for ever."""

from __future__ import annotations

from tvm_hetero.serve.models.transport_times import FEW, WINDOW, TransportTimes, form_of


def test_sizes_within_a_factor_of_two_are_alike_and_forms_are_not() -> None:
    assert form_of("json", "1024") == form_of("json", "2047") != form_of("json", "2048")
    assert form_of("json", "1024") != form_of("binary", "1024")
    for untold in ("", "x", "9" * 13, "-1"):
        assert form_of("json", untold).magnitude == 0


def test_what_is_predicted_is_the_median_of_the_last_samples_of_enough() -> None:
    times, form = TransportTimes(), form_of("json", "100")
    for count in range(1, WINDOW + 1):
        times.add(form, 1.0)
        assert times.typical(form) == (1.0 if count >= FEW else 0.0)
    for _ in range(WINDOW):
        times.add(form, 3.0)
    assert times.typical(form) == 3.0
    assert times.typical(form_of("binary", "100")) == 0.0


def test_what_was_slow_once_does_not_refuse_for_ever() -> None:
    times, form = TransportTimes(), form_of("json", "100")
    for _ in range(WINDOW):
        times.add(form, 60.0)
    for _ in range(WINDOW + 1):
        times.doubt(form)
    assert times.typical(form) == 0.0
