"""Recorded tables: read back as written, and refused by name where they say too little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.online.settings import single_cores
from tests.test_docs import FORMATS, blocks
from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.online.configuration import Place
from tvm_hetero.online.table import Recording, recording_from_dict, recording_text


def document() -> dict[str, Any]:
    (text,) = [each for each in blocks(FORMATS, "json") if "recording/1" in each]
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_recording_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    recording = recording_from_dict(document())
    recording.save(tmp_path / "net.json")
    assert Recording.load(tmp_path / "net.json") == recording
    assert json.loads(recording_text(recording)) == document()


def test_each_place_has_the_seconds_of_its_kind_width_and_disturbance() -> None:
    recording = recording_from_dict(document())
    places = (*single_cores("big", "little"), Place("wide", "big", (2, 3)))
    assert recording.seconds_on(places) == ((0.0040, 0.0090, 0.0021), (0.0010, 0.0015, 0.0009))
    assert recording.seconds_on(places, {1: "busy"})[0] == (0.0040, 0.0181, 0.0021)
    assert recording.weights == (118013952, 802816)
    assert recording.bounds == ("compute", "memory")


def test_what_was_not_recorded_is_refused_and_not_guessed() -> None:
    recording = recording_from_dict(document())
    with pytest.raises(UsageError, match=r"no scenario 'bussy'.*'busy'"):
        recording.seconds_on(single_cores("big"), {0: "bussy"})
    with pytest.raises(UsageError, match=r"nothing was recorded .* on 2 cores of kind 'little'"):
        recording.seconds_on([Place("wide", "little", (0, 1))])


@pytest.mark.parametrize(
    "path, value, message",
    [
        (["seconds", "busy", "big", "2"], [0.1], "a time for each of 2 blocks, got 1"),
        (["seconds", "busy", "big", "2"], [0.1, 0.0], "above 0"),
        (["seconds", "busy", "big", "2"], [0.1, -1], "at least 0"),
        (["seconds", "busy", "big", "2"], [0.1, True], "got True"),
        (["seconds", "busy", "big"], {"1": [1, 1]}, "'2'"),
        (["seconds", "busy"], {}, "'big'"),
        (["seconds", "busy", "huge"], {"1": [1, 1]}, "'huge'"),
        (["scenarios"], ["busy", "alone"], "expected 'alone' as the first"),
        (["scenarios"], ["alone", "alone"], "unknown key"),
        (["kinds", "big"], [0], "at least 1"),
        (["kinds"], {}, "kinds|unknown"),
        (["blocks", 0, "bound"], "cache", "'compute'"),
        (["blocks", 1, "name"], "conv1", "twice"),
        (["noise"], [1.0, 0.0], "noise"),
        (["format"], "tvm-hetero/recording/2", "recording/1"),
    ],
)
def test_a_recording_with_something_amiss_is_refused_by_name(
    path: list[Any], value: Any, message: str
) -> None:
    data = document()
    where: Any = data
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value
    with pytest.raises(FormatError, match=message):
        recording_from_dict(data)
