"""Bells: who sleeps is woken, looks again where a message may be on its way, rests otherwise."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.waiting import eventually, is_asleep
from tvm_hetero.cluster.transport import wakeup as bells
from tvm_hetero.cluster.transport.wakeup import Bell, Rope, new_name


@pytest.fixture
def ends() -> Iterator[tuple[Rope, Bell]]:
    name = new_name()
    rope, bell = Rope(name), Bell(name)
    yield rope, bell
    rope.close()
    bell.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds for which bells were asked to listen."""
    asked: list[float] = []
    listen = Bell._listen

    def noted(self: Bell, seconds: float) -> None:
        asked.append(seconds)
        listen(self, 0.0)

    monkeypatch.setattr(Bell, "_listen", noted)
    return asked


def test_nobody_rings_looks_become_seldom(ends: tuple[Rope, Bell], waits: list[float]):
    _, bell = ends
    for _ in range(60):
        bell.sleep()
    assert waits[0] == bells._SHORTEST and waits[-1] == bells._LONGEST
    for before, after in itertools.pairwise(waits):
        assert after == pytest.approx(min(bells._GROWTH * before, bells._LONGEST))
    bell.taken()  # it rang not, but came: the next one may come as soon
    bell.sleep()
    assert waits[-1] == bells._SHORTEST


def test_who_has_all_sleeps_until_it_rings(ends: tuple[Rope, Bell], waits: list[float]):
    rope, bell = ends
    rope.ring()
    bell.sleep()
    bell.taken()
    bell.sleep()
    assert waits == [bells._SHORTEST, bells._ASLEEP]


def test_a_ring_before_its_message_is_looked_after(ends: tuple[Rope, Bell], waits: list[float]):
    rope, bell = ends
    for _ in range(2):
        rope.ring()
        bell.sleep()
        bell.taken()
    rope.ring()
    for _ in range(4):  # the first one hears it
        bell.sleep()
    assert waits[-4] == bells._ASLEEP and waits[-3] == bells._SHORTEST
    assert waits[-2] == pytest.approx(bells._GROWTH * waits[-3])
    bell.taken()
    bell.sleep()
    assert waits[-1] == bells._ASLEEP


def test_rings_that_get_lost_are_made_up_for(waits: list[float]):
    """None listened to the first three, and more came than a queue holds."""
    name = new_name()
    rope = Rope(name)
    for _ in range(3):
        rope.ring()
    bell = Bell(name)
    for _ in range(100):
        rope.ring()
    bell.sleep()
    for _ in range(102):
        bell.taken()
    rope.ring()
    bell.sleep()
    assert waits[-1] == bells._ASLEEP  # of what it heard it has all
    assert bell._heard == 104
    bell.taken()
    bell.sleep()
    assert waits[-1] == bells._SHORTEST  # one is on its way
    bell.taken()
    bell.sleep()
    assert waits[-1] == bells._ASLEEP


@pytest.mark.parametrize("how", ["ring", "wake"])
def test_who_sleeps_is_woken(ends: tuple[Rope, Bell], how: str, monkeypatch: pytest.MonkeyPatch):
    rope, bell = ends
    monkeypatch.setattr(bells, "_ASLEEP", 1e3)
    rope.ring()
    bell.sleep()
    bell.taken()
    sleeper = threading.Thread(target=bell.sleep, daemon=True)
    sleeper.start()
    assert eventually(lambda: is_asleep(sleeper))
    ways: dict[str, Any] = {"ring": rope.ring, "wake": bell.wake}
    ways[how]()
    sleeper.join(30)
    assert not sleeper.is_alive()


def test_when_closed_nothing_is_heard_and_nobody_fails():
    name = new_name()
    rope, bell = Rope(name), Bell(name)
    bell.close()
    rope.ring()
    bell.wake()
    bell.sleep()
    rope.close()
    rope.ring()
    Bell(name).close()  # the name is free
