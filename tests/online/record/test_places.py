"""Which places and scenarios a recording is of."""

from __future__ import annotations

import pytest

from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.online.record.places import PlaceKind, parse_places, place_devices, platform_of
from tvm_hetero.online.record.scenarios import Scenario, parse_scenarios
from tvm_hetero.platform.host import available_cores

CORES = sorted(available_cores())


def test_a_place_is_a_kind_and_widths() -> None:
    found = parse_places(["native:1,2", "x86-64-v2"])
    assert found == (PlaceKind("native", (1, 2)), PlaceKind("x86-64-v2", (1,)))
    assert [kind.mcpu for kind in found] == [None, "x86-64-v2"]


@pytest.mark.parametrize(
    "text", ["", ":1", "native:", "native:0", "native:1,1", "native:a", "n:-1"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected KIND:WIDTHS such as native:1,2"):
        parse_places([text])


def test_a_kind_is_given_once() -> None:
    with pytest.raises(UsageError, match="'native' is given twice"):
        parse_places(["native:1", "native:2"])
    with pytest.raises(UsageError, match="at least one kind"):
        parse_places([])


def test_each_place_has_the_first_cores_and_code_of_its_kind() -> None:
    widths = (1, 2) if len(CORES) > 1 else (1,)
    devices = place_devices([PlaceKind("native", widths), PlaceKind("x86-64-v2", (1,))])
    assert {key: device.cores for key, device in devices.items()} == {
        **{("native", width): tuple(CORES[:width]) for width in widths},
        ("x86-64-v2", 1): tuple(CORES[:1]),
    }
    platform = platform_of(devices)
    assert platform.device("x86-64-v2-1").target == {
        "kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1
    }  # fmt: skip
    assert all(device.memory is None for device in platform.devices)


def test_more_cores_than_there_are_make_no_place() -> None:
    with pytest.raises(UsageError, match=f"this process may use {len(CORES)}"):
        place_devices([PlaceKind("native", (len(CORES) + 1,))])


def test_code_that_would_not_run_is_refused_before_it_is_made() -> None:
    from tvm_hetero.platform.discovery import missing_features
    from tvm_hetero.platform.host import read_processor

    for mcpu in ("sapphirerapids", "znver5"):
        if missing_features({"kind": "llvm", "mcpu": mcpu}, read_processor()):
            with pytest.raises(PlatformError, match=f"cannot run code for '{mcpu}': it lacks"):
                place_devices([PlaceKind(mcpu, (1,))])
            return
    pytest.fail("this CPU is Intel's and AMD's at once")


def test_the_quiet_scenario_is_always_the_first() -> None:
    assert parse_scenarios([]) == (Scenario("alone"),)
    found = parse_scenarios(["busy", "stream", "thrash@own"])
    assert [(each.name, each.kind, each.where) for each in found] == [
        ("alone", "", "own"), ("busy", "busy", "own"), ("stream", "stream", "beside"),
        ("thrash@own", "thrash", "own"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["buzy"], "no disturbance 'buzy'; did you mean 'busy'"),
        (["busy@home"], r"expected busy@own .* or busy@beside"),
        (["busy@"], "expected busy@own"),
        (["busy", "busy"], "'busy' is given twice"),
        (["alone"], "no disturbance 'alone'"),
    ],
)
def test_what_is_no_disturbance_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_scenarios(texts)


def test_what_is_beside_a_place_is_on_another_core_where_there_is_one() -> None:
    beside = Scenario("stream", "stream", "beside")
    assert Scenario("busy", "busy", "own").core(CORES[:1]) == CORES[0]
    assert beside.core(CORES) == CORES[-1]
    if len(CORES) > 1:
        assert beside.core(CORES[:1]) == CORES[-1] != CORES[0]
