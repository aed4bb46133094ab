"""Who is silent is lost, but not because nobody listened."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from tests.waiting import eventually
from tvm_hetero.cluster.heartbeat import Watch, count_silence, silence_of

BEAT, SILENCE = 0.02, 0.3


class Asked:
    """Nodes as a watch sees them: futures that are answered or not; and what it tells of them."""

    def __init__(self, held: float = 0.0) -> None:
        self.futures: dict[str, Future[Any]] = {}
        self.lost: dict[str, tuple[str, float]] = {}
        self.told = threading.Event()
        self.beats = 0
        self._held = held

    def ask(self, node: str) -> Future[Any]:
        self.futures[node] = Future()
        return self.futures[node]

    def tell(self, node: str, reason: str) -> None:
        self.lost[node] = reason, time.monotonic()
        self.told.set()

    def each(self) -> None:
        """At its third beat the watch is held up; two beats later comes what was asked for."""
        self.beats += 1
        if self.beats == 3:
            time.sleep(self._held)
        if self.beats == 5 and "held" in self.futures:
            self.futures["held"].set_result(None)


@pytest.fixture
def watched() -> Iterator[Any]:
    """Begins a watch of nodes, which ends with the test."""
    running: list[Watch] = []

    def begin(asked: Asked, *nodes: str) -> Asked:
        names = {name: name for name in nodes}
        running.append(Watch(names, asked.ask, asked.tell, asked.each, BEAT, SILENCE))
        return asked

    yield begin
    for watch in running:
        watch.close()


def test_the_silent_are_lost_after_the_silence(watched):
    begin = time.monotonic()
    asked = watched(Asked(), "mute")
    assert asked.told.wait(30)
    reason, when = asked.lost["mute"]
    assert reason == "it has not answered for 0.3 s" and when - begin >= SILENCE


def test_whose_process_ended_is_lost_at_once(watched):
    asked = Asked()
    watched(asked, "dead")
    assert eventually(lambda: "dead" in asked.futures)
    asked.futures["dead"].set_exception(RuntimeError("The actor died\nbecause"))
    assert asked.told.wait(30) and asked.lost["dead"][0] == "The actor died"


def test_a_watch_that_was_held_up_blames_nobody(watched):
    asked = watched(Asked(held=3 * SILENCE), "held")
    assert eventually(lambda: asked.beats >= 7)
    assert asked.lost == {}


def test_silence_counts_only_while_somebody_listens():
    assert count_silence(BEAT, BEAT) == BEAT
    assert count_silence(100 * BEAT, BEAT) == 2 * BEAT
    answered: Future[Any] = Future()
    answered.set_result(None)
    assert silence_of(answered, BEAT, SILENCE) is None
    begin = time.monotonic()
    assert silence_of(Future(), BEAT, SILENCE) == "it has not answered for 0.3 s"
    assert time.monotonic() - begin >= SILENCE
    dead: Future[Any] = Future()
    dead.set_exception(RuntimeError("gone"))
    assert silence_of(dead, BEAT, SILENCE) == "gone"
