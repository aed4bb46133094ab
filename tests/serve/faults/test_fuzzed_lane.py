"""Scripts of fixed seeds; `tests.fuzz.serve_lane` draws more of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tornado.httputil import HTTPServerRequest

from tests.fuzz.lane_client import normal
from tests.fuzz.lane_scripts import End, LaneRequest, Mark, Script, draw_script
from tests.fuzz.serve_lane import (
    BY_LANE,
    compare,
    compare_ended,
    difference,
    fuzz,
    play,
    two_servers,
    version,
)
from tests.serve.faults.hosted import Hosted
from tvm_hetero.serve.http.known_heads import KnownHeads

_OLD = replace(LaneRequest(), version="HTTP/1.0")


class EagerHeads(KnownHeads):
    """Which knows heads that no lane should have."""

    def is_wanted(self, head: bytes, request: HTTPServerRequest) -> bool:
        return self._came_before(hash(head))


@pytest.fixture(scope="module")
def servers(served_models: Path) -> Iterator[tuple[Hosted, Hosted]]:
    with two_servers(served_models) as both:
        yield both


def test_answers_are_the_same_with_the_lane_and_without(served_models: Path) -> None:
    outcomes, faults = fuzz(served_models, iter(range(24)))
    assert faults == 0
    assert sum(outcomes.values()) == 24
    assert outcomes[BY_LANE] >= 7


def test_a_lane_that_takes_what_it_should_not_is_found_out(
    servers: tuple[Hosted, Hosted],
) -> None:
    script = Script((_OLD.data, Mark.SETTLE), End.DAWDLE)
    assert compare(*servers, script)[1] == []
    _, (found,) = compare(*servers, script, EagerHeads)
    assert found.startswith("time 3: ")
    assert compare(*servers, script)[1] == []  # and the lane is as it was


def test_whether_a_connection_stays_is_compared_too(servers: tuple[Hosted, Hosted]) -> None:
    whole = LaneRequest().data
    for steps, wait, stays in (
        ((whole,), 20.0, True), ((whole,), 100.0, False), ((whole, whole[:9]), 20.0, False),
        ((_OLD.data,), 0.0, False),
    ):  # fmt: skip
        for server in servers:
            heard, _ = play(server, Script(steps, End.DAWDLE, wait))
            assert heard.is_open == stays


def test_work_at_a_shut_gate_is_cancelled_when_its_client_hangs_up(
    servers: tuple[Hosted, Hosted],
) -> None:
    script = Script((Mark.SHUT, LaneRequest().data, LaneRequest().data), End.HANG_UP)
    assert [play(server, script)[0].cancelled for server in servers] == [1, 1]


def test_a_server_that_ends_tells_who_waits_and_closes(served_models: Path) -> None:
    steps = (Mark.SHUT, LaneRequest().data, Mark.SETTLE, Mark.END, Mark.SETTLE)
    script = Script(steps, End.DAWDLE)
    assert compare_ended(served_models, script) == []
    with two_servers(served_models) as servers:
        for server in servers:
            heard, _ = play(server, script)
            assert b"".join(heard.parts).startswith(b"HTTP/1.1 200 OK")
            assert not heard.is_open


def test_models_that_differ_are_found_out_and_brought_level(
    servers: tuple[Hosted, Hosted],
) -> None:
    lane, plain = servers
    lane.call(lane.server.context.repository.load("dense"))
    one, other = (play(server, Script((), End.DAWDLE))[0] for server in servers)
    assert "the model is version" in difference(one, other)
    assert compare(*servers, Script((LaneRequest().data,), End.DAWDLE))[1] == []
    assert version(lane) == version(plain)


def test_what_is_normal_leaves_out_dates_and_nothing_else_of_a_whole_answer() -> None:
    answers = (b"HTTP/1.1 200 OK\r\nDate: %b\r\nX: y\r\n\r\nbody" % day for day in (b"Mon", b"Tue"))
    assert {normal(answer) for answer in answers} == {b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nbody"}


def test_scripts_hold_work_end_in_every_way_and_are_the_same_again() -> None:
    scripts = [draw_script(seed) for seed in range(200)]
    assert scripts == [draw_script(seed) for seed in range(200)]
    assert {script.end for script in scripts} == set(End)
    assert {step for script in scripts for step in script.steps if isinstance(step, Mark)} == set(
        Mark
    )
