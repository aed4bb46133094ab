"""Frequency levels: one row stands for devices that never compute at once and see one memory."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_hetero.check import check_schedule
from tvm_hetero.check.memory import memory_peaks as judged_peaks
from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.platform.frequency_levels import refuse_levels
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.objective_kinds import Kind
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate

LEVELS = [{"name": "slow", "speed": 0.5, "watts": 3}, {"name": "fast", "speed": 1, "watts": 9}]


def document(*links: dict[str, Any], **device: Any) -> dict[str, Any]:
    row = {"name": "gpu", "target": "cuda", "peak_flops": 8.0, "bandwidth": 2.0, "launch": 1.0,
           "idle_watts": 2, "memory": 100, "levels": LEVELS} | device  # fmt: skip
    devices = [{"name": "cpu", "cores": [0], "watts": 5}, row]
    return {"format": "tvm-hetero/platform/1", "devices": devices, "links": list(links)}


def test_a_level_has_its_own_pace_and_watts_and_the_devices_memory() -> None:
    found = Platform.from_dict(document({"from": "cpu", "to": "gpu", "bandwidth": 4, "both": True}))
    assert found.names == ("cpu", "gpu.slow", "gpu.fast")
    slow, fast = found.devices[1:]
    assert (slow.peak_flops, slow.launch, slow.bandwidth, slow.watts) == (4.0, 2.0, 2.0, 3.0)
    assert (fast.peak_flops, fast.launch, fast.bandwidth, fast.watts) == (8.0, 1.0, 2.0, 9.0)
    assert slow.idle_watts == fast.idle_watts == 2.0
    # A core that nobody else has: they exclude each other, and see one memory though it is a GPU's.
    assert slow.cores == fast.cores == (1,)
    assert found.cliques == found.shared_memories == ((1, 2),)
    assert found.link("cpu", "gpu.slow") == Link("cpu", "gpu.slow", 4.0)
    assert found.copy_seconds("gpu.slow", "gpu.fast", 1e9) == 0
    assert Platform.from_dict(found.to_dict()) == found


def test_what_shares_cores_still_does() -> None:
    both = document(target="llvm", cores=[0, 3], private=True)
    found = Platform.from_dict(both)
    assert found.cliques == ((0, 1, 2),) and found.shared_memories == ((1, 2),)


@pytest.mark.parametrize("kind", ["latency", "throughput"])
@pytest.mark.parametrize(("weights", "fits"), [(40, True), (60, False)])
def test_the_judge_counts_what_all_levels_hold_together(
    kind: Kind, weights: int, fits: bool
) -> None:
    """Two tasks on two levels of a GPU of 100 bytes, and a tensor of 4 between them."""
    link = {"from": "cpu", "to": "gpu", "bandwidth": 4, "both": True}
    tasks = [Task(name, weight_bytes=weights, output_bytes=4) for name in "ab"]
    graph = TaskGraph(tasks, [Edge("a", "b", 4, "a")])
    costs = {"a": {"gpu.slow": Cost(((1, 2.0),))}, "b": {"gpu.fast": Cost(((1, 1.0),))}}
    problem = Problem(graph, costs, Platform.from_dict(document(link)), Objective(kind))
    made = simulate(problem, [("a", "gpu.slow", (0,)), ("b", "gpu.fast", (0,))])
    schedule = Schedule(problem.digest, "by hand", kind, *made, 3.0, 0.0)
    broken = check_schedule(problem, schedule)
    assert (broken == []) == fits
    own = memory_peaks(problem, *made)
    assert own == judged_peaks(problem, *made)
    assert own["gpu.slow"] == own["gpu.fast"] == 2 * weights + 8


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ({"watts": 7}, "watts: expected nothing, as the device has levels"),
        ({"levels": []}, "at least one level, each name once"),
        ({"levels": [*LEVELS, LEVELS[0]]}, "at least one level, each name once"),
        (
            {"levels": [{"name": "a", "speed": 0, "watts": 1}]},
            "speed: expected a factor from 0.001",
        ),
        ({"levels": [{"name": "a", "speed": 9e-4, "watts": 1}]}, "a factor from 0.001 to 10"),
        ({"levels": [{"name": f"l{i}", "speed": 1, "watts": 1} for i in range(65)]}, "at most 64"),
        ({"levels": [{"name": "a", "speed": 1}]}, "key 'watts' is missing"),
        ({"levels": [{"name": "a b", "speed": 1, "watts": 1}]}, "only letters, digits"),
    ],
)
def test_refusals(device: dict[str, Any], text: str) -> None:
    with pytest.raises(FormatError, match=text):
        Platform.from_dict(document(**device))


def test_levels_that_could_compute_at_once_are_none() -> None:
    one = Device("a.x", cores=(0,), level_of="a")
    for other in (Device("a.y", cores=(1,), level_of="a"), Device("a.y", level_of="a")):
        with pytest.raises(PlatformError, match=r"'cores' is another|its cores, the same"):
            Platform((one, other))
    with pytest.raises(PlatformError, match="shared_cores"):
        Platform((one,), shared_cores=True)
    with pytest.raises(PlatformError, match="which is a device besides"):
        Platform((one, Device("a")))


def test_nothing_is_measured_or_run_on_a_level() -> None:
    refuse_levels([Device("cpu")])
    with pytest.raises(PlatformError, match=r"'gpu\.slow' is a frequency level of 'gpu'"):
        refuse_levels(Platform.from_dict(document()).devices)


def rows(*given: dict[str, Any]) -> dict[str, Any]:
    return {"format": "tvm-hetero/platform/1", "devices": list(given)}


def clocked(name: str, *levels: str, **other: Any) -> dict[str, Any]:
    return {"name": name, "levels": [{"name": x, "speed": 1, "watts": 1} for x in levels]} | other


def written(name: str, **other: Any) -> dict[str, Any]:
    return {"name": name, "level_of": "big", "cores": [0], "watts": 1} | other


def test_levels_of_one_device_are_said_in_one_place() -> None:
    for second in (clocked("big", "b", bandwidth=5), written("big.b")):
        with pytest.raises(FormatError, match="2 rows have levels of 'big'"):
            Platform.from_dict(rows(clocked("big", "a", cores=[0]), second))
    with pytest.raises(PlatformError, match=r"'big\.a' is given twice, as a frequency level of"):
        Platform.from_dict(rows({"name": "big.a"}, clocked("big", "a")))
    with pytest.raises(FormatError, match="level_of: expected only letters"):
        Platform.from_dict(rows(written("x", level_of="a b")))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bandwidth", 5.0), ("idle_watts", 1.0), ("target", "cuda"), ("memory", 9), ("price", 1.0),
        ("overlap", True), ("node", "n"), ("cores", [1]), ("interference", 2.0),
    ],
)  # fmt: skip
def test_written_out_levels_differ_in_their_clock_alone(key: str, value: Any) -> None:
    clock = {"peak_flops": 2.0, "launch": 3.0, "watts": 4.0}
    assert len(Platform.from_dict(rows(written("a"), written("b", **clock))).devices) == 2
    with pytest.raises(PlatformError, match=f"{key!r} is another than that of 'a'"):
        Platform.from_dict(rows(written("a"), written("b", **{key: value})))


def test_a_level_is_no_board_and_there_are_not_too_many() -> None:
    board = {"rpc": {"server": "h:1"}, "target": "llvm"}
    with pytest.raises(PlatformError, match="and reached by RPC"):
        Platform.from_dict(rows(written("a", **board)))
    many = [written(f"l{i}") for i in range(65)]
    with pytest.raises(PlatformError, match="'big' has 65 frequency levels; expected at most 64"):
        Platform.from_dict(rows(*many))
    devices = [Device(f"l{i}", cores=(0,), level_of="big") for i in range(65)]
    with pytest.raises(PlatformError, match="at most 64"):
        Platform(tuple(devices))


def test_levels_that_are_made_and_those_that_are_read_are_the_same_platform() -> None:
    """Nothing is moved between levels, whoever says that there are some."""
    levels = [Device(f"big.{x}", cores=(0,), level_of="big") for x in "ab"]
    made = Platform((*levels, Device("other")), (Link("big.a", "other"),), (Fabric("node0", 5.0),))
    assert made.path("big.a", "big.b", 10)[0].seconds(10) == 0
    assert Platform.from_dict(made.to_dict()) == made
