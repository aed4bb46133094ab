"""Numbers of options that are none, or too many: a line says so, before anything is read."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.fuzz.interrupted_verbs import VERBS, Verb
from tests.fuzz.odd_options import number_options, unclear_words
from tests.planning.helix.test_format import DOCUMENT
from tvm_hetero.errors import UsageError
from tvm_hetero.solvers.core.options import MOST_SECONDS, Options

WITH_NUMBERS = [verb for verb in VERBS if number_options(verb)]


def command(verb: Verb, folder: Path) -> list[str]:
    """A verb's arguments; nothing that they name is there."""
    return verb.arguments.format(**{"in": folder, "relay": folder, "port": 1}).split()


@pytest.mark.parametrize("verb", WITH_NUMBERS, ids=lambda verb: verb.name)
def test_no_number_that_is_none_reaches_a_verb(verb: Verb, tmp_path: Path) -> None:
    for option in number_options(verb):
        for value in ("nan", "5s", ""):
            told = tvm_hetero(*command(verb, tmp_path), option, value)
            assert told.status == 2, (option, value, told)
            assert not list(unclear_words(option, value, told.status, told.err)), told.err


@pytest.mark.parametrize("limit", ["inf", "1e300", "0", "-1"])
@pytest.mark.parametrize("name", ["place-layers", "choose", "share", "refine"])
def test_a_time_limit_that_nobody_can_wait_for_is_refused(
    name: str, limit: str, tmp_path: Path
) -> None:
    """Work is counted from it: of 'inf' it was an OverflowError."""
    (tmp_path / "layers.json").write_text(json.dumps(DOCUMENT))
    verb = next(verb for verb in VERBS if verb.name == name)
    told = tvm_hetero(*command(verb, tmp_path), "--time-limit", limit)
    assert told.status == 2
    assert re.search(r"time.limit.*: expected seconds above 0", told.err), told.err


def test_the_longest_time_limit_is_taken(tmp_path: Path) -> None:
    (tmp_path / "layers.json").write_text(json.dumps(DOCUMENT))
    verb = next(verb for verb in VERBS if verb.name == "place-layers")
    out = str(tmp_path / "layout.json")
    told = tvm_hetero(*command(verb, tmp_path), "-o", out, "--time-limit", f"{MOST_SECONDS:g}")
    assert told.status == 0, told.err


def test_a_search_has_seconds_that_can_be_counted() -> None:
    for seconds in (math.inf, math.nan, 1e300, 0.0, -1.0):
        with pytest.raises(UsageError, match="time limit: expected seconds above 0"):
            Options(time_limit=seconds)
    assert Options(time_limit=MOST_SECONDS).wall_limit == MOST_SECONDS
