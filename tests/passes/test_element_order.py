"""Stretches: what a device does before anybody outside has to do with it."""

from __future__ import annotations

from tests.models import branchy, lowered, two_cpus
from tvm_hetero.passes.element_order import Portion, cut_stretches
from tvm_hetero.passes.lowered_main import read_main

MAIN = read_main(lowered(branchy(), two_cpus()))
CALLS = len(MAIN.calls)
STEM, LEFT, POOL, RIGHT, JOINED = range(5)
BOTH = (0, 1)


def cut(devices: dict[int, int], **options: object) -> list[list[int]]:
    """The stretches of device 0, as calls; calls that `devices` does not list are on device 0."""
    portions = [Portion(c, devices.get(c, 0), BOTH, float(c)) for c in range(CALLS)]
    found = cut_stretches(MAIN, portions, **options)
    return [[p.call for p in stretch] for stretch in found if stretch[0].device == 0]


def test_one_device_is_one_stretch():
    assert cut({}) == [list(range(CALLS))]


def test_it_ends_after_what_is_read_elsewhere_and_before_what_reads_from_there():
    rest = list(range(JOINED, CALLS))
    assert cut({POOL: 1, RIGHT: 1}) == [[STEM], [LEFT], rest]
    assert cut({RIGHT: 1}) == [[STEM, LEFT, POOL], rest]


def test_in_a_steady_state_it_does_not():
    everything = [c for c in range(CALLS) if c not in (POOL, RIGHT)]
    assert cut({POOL: 1, RIGHT: 1}, steady=True) == [everything]


def test_it_ends_where_the_device_copies():
    assert cut({}, copies={0: [2.5]}) == [[0, 1, 2], list(range(3, CALLS))]
    assert cut({}, copies={1: [2.5]}) == [list(range(CALLS))]


def test_it_ends_where_other_elements_come_and_one_element_needs_none():
    portions = [Portion(c, 0, BOTH if c < 3 else (1, 0), float(c)) for c in range(CALLS)]
    found = [[p.call for p in stretch] for stretch in cut_stretches(MAIN, portions)]
    assert found == [[0, 1, 2], list(range(3, CALLS))]
    portions = [Portion(c, 0, (0,), float(c)) for c in range(CALLS)]
    assert [len(stretch) for stretch in cut_stretches(MAIN, portions)] == [1] * CALLS


def test_its_weights_are_limited():
    """A task without any costs nothing to come back to: it stays with what is before it."""
    weighty = [any(value is not None for value in MAIN.constants(call)) for call in MAIN.calls]
    begins = [call for call in range(CALLS) if call == 0 or weighty[call]]
    assert [stretch[0] for stretch in cut({}, most_weights=0)] == begins
    assert 1 < len(begins) < CALLS
