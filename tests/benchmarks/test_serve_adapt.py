"""What the benchmark of a server that is adapted prints, and that it tells of clients that fail."""

from __future__ import annotations

import pytest

from benchmarks import serve_adapt


def test_switches_stand_beside_their_goal_and_what_was_told_below() -> None:
    row = serve_adapt.Row("net", 1, True, 10.0, 5.0, 9.5, 1, ("switch: why; now 0-1@a 2-3@b",))
    lines = serve_adapt.report([row]).splitlines()
    assert serve_adapt.GOAL in lines[2] and "| 10.0 | 5.0 | 9.5 | 1 |" in lines[2]
    assert lines[3] == "  switch: why; now 0-1@a 2-3@b"


def test_a_client_that_fails_is_told() -> None:
    def ask() -> None:
        raise OSError("the server has hung up")

    with pytest.raises(OSError, match="hung up"), serve_adapt.Senders(ask):
        pass
