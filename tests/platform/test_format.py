"""The platform format: what is written is read again, and every refusal names its place."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import platforms
from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.util.documents import canonical_json, parse_document

EXAMPLE = """
format: tvm-hetero/platform/1
name: big-little
devices:
  - name: big
    node: node0
    target: {kind: llvm, mcpu: znver4}
    cores: [0]
    memory: 8GiB
    overlap: false
    peak_flops: 1.0e12
    bandwidth: 100GB/s
    launch: 5us
    watts: 65
    price: 0.40
    interference: 1.03
  - {name: little, target: llvm, overlap: true, idle_watts: 2, watts: 5}
  - {name: far, node: node1}
links:
  - {from: big, to: little, bandwidth: 20GB/s, latency: 1us, both: true,
     cold_bandwidth: 8GB/s}
  - {fabric: {node: node0, bandwidth: 10GB/s}}
  - {network: true, bandwidth: 1GB/s, latency: 50us, exclusive: true}
"""


def example() -> dict[str, Any]:
    return parse_document(EXAMPLE, "example", as_yaml=True)


def test_the_example_of_the_format() -> None:
    platform = Platform.from_dict(example())
    big, little, far = platform.devices
    assert (platform.name, big.memory, big.cores) == ("big-little", 8 * 2**30, (0,))
    assert big.target == {"kind": "llvm", "mcpu": "znver4"}
    assert big.launch == pytest.approx(5e-6)
    assert (big.interference, little.interference) == (1.03, 1.0)
    assert (little.kind, little.overlap, little.idle_watts, little.memory) == (
        "llvm",
        True,
        2,
        None,
    )
    assert (far.node, far.kind) == ("node1", "unknown")
    assert platform.link("little", "big") == Link("little", "big", 20e9, 1e-6, False, 8e9)
    assert platform.fabrics == (
        Fabric("node0", 10e9),
        Fabric(None, 1e9, pytest.approx(50e-6), True),
    )


names = st.from_regex(r"[A-Za-z0-9_.-]+", fullmatch=True)
text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
amounts = st.one_of(st.none(), st.just(0.0), st.floats(1e-30, 1e30), st.integers(0, 10**6))
devices = st.builds(
    Device,
    name=names,
    node=st.sampled_from(["node0", "rack 1", "ö:#"]),
    target=st.one_of(
        st.none(),
        st.fixed_dictionaries({"kind": text, "keys": st.lists(text), "n": st.integers()}),
    ),
    cores=st.lists(st.integers(0, 64), unique=True).map(tuple),
    memory=st.one_of(st.none(), st.integers(0, 2**60)),
    overlap=st.booleans(),
    peak_flops=amounts,
    bandwidth=amounts,
    launch=amounts,
    watts=amounts,
    idle_watts=st.just(0.0) | st.floats(1e-30, 100),
    price=amounts,
    interference=st.floats(1, 9),
)


@given(st.lists(devices, min_size=1, max_size=3, unique_by=lambda d: d.name), text)
def test_devices_come_back(rows: list[Device], name: str) -> None:
    platform = Platform(tuple(rows), name=name, shared_cores=True)
    document = platform.to_dict()
    assert Platform.from_dict(document) == platform
    assert Platform.from_dict(document).to_dict() == document


@given(st.lists(devices, min_size=1, max_size=2, unique_by=lambda d: d.name), text)
def test_yaml_files_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Device], name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "platform.yaml"
    platform = Platform(tuple(rows), name=name, shared_cores=True)
    platform.save(path)
    assert Platform.load(path) == platform


@given(platforms(max_devices=4, exact=False))
def test_links_come_back(platform: Platform) -> None:
    again = Platform.from_dict(parse_document(canonical_json(platform.to_dict()), "p"))
    assert again == platform


@pytest.mark.parametrize("name", ["p.yaml", "p.yml", "p.json", "p", "p.txt"])
def test_files_come_back(tmp_path: Path, name: str) -> None:
    platform = Platform.from_dict(example())
    path = tmp_path / name
    platform.save(path)
    assert Platform.load(path) == platform


@pytest.mark.parametrize("asked", [False, True])
def test_a_private_device_comes_back(asked: bool) -> None:
    rows = (Device("a", target={"kind": "llvm"}, private=asked), Device("b"))
    document = Platform(rows).to_dict()
    assert ("private" in document["devices"][0]) == asked
    assert Platform.from_dict(document).devices == rows


def test_a_core_of_two_devices_comes_back_with_what_it_means() -> None:
    rows = (Device("a", cores=(0, 1)), Device("b", cores=(1, 2)))
    teams = Platform(rows)
    assert Platform.from_dict(teams.to_dict()) == teams
    assert Platform.from_dict(teams.to_dict()).cliques == ((0, 1),)
    asked = Platform(rows, shared_cores=True)
    assert Platform.from_dict(asked.to_dict()) == asked
    assert asked.cliques == ()
    apart = Platform((rows[0], Device("b", node="another machine", cores=(1, 2))))
    assert Platform.from_dict(apart.to_dict()) == apart


def test_whole_numbers_and_floats_are_one_document() -> None:
    one = Platform((Device("a", watts=5, price=1),), (), (Fabric("node0", 8, 1),))
    two = Platform((Device("a", watts=5.0, price=1.0),), (), (Fabric("node0", 8.0, 1.0),))
    assert one == two
    assert canonical_json(one.to_dict()) == canonical_json(two.to_dict())


RECURSIVE: dict[str, Any] = {"kind": "llvm"}
RECURSIVE["host"] = RECURSIVE


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "tvm-hetero/platform/2", r"expected .*platform/1.*got .*platform/2"),
        (["nam"], "x", "unknown key 'nam'; did you mean 'name'?"),
        (["name"], 5, "name: expected a name, got 5"),
        (["devices"], {}, r"devices: expected a list, got \{\}"),
        (["links"], None, "links: expected a list, got None"),
        (["devices", 0], "big", "device 0: expected a mapping, got 'big'"),
        (["devices", 0, "memmory"], 1, "device 0: unknown key 'memmory'; did you mean 'memory'?"),
        (["devices", 0, "name"], "a b", "name: expected only letters, digits and _ . -, got 'a b'"),
        (["devices", 0, "memory"], "8 gigs", r"device 0 \(big\): memory: expected size"),
        (["devices", 0, "memory"], -1, r"device 0 \(big\): memory: expected a finite size"),
        (["devices", 0, "overlap"], "no", "overlap: expected true or false, got 'no'"),
        (["devices", 0, "cores"], [0, 0], r"\(big\): cores: expected .* each number once, got"),
        (["devices", 0, "cores"], [-1], r"cores\[0\]: expected an integer of at least 0, got -1"),
        (["devices", 0, "cores"], [0, True], r"cores\[1\]: expected an integer .*, got True"),
        (["devices", 0, "target"], {"mcpu": "x"}, "target: expected a mapping such as"),
        (["devices", 0, "target"], {"kind": "c", "x": math.inf}, "target: expected text, numbers"),
        (["devices", 0, "target"], RECURSIVE, "target: expected text, numbers"),
        (["links", 0, "bandwidth"], 0, "link 0: bandwidth: expected more than 0; leave the link"),
        (["links", 0, "cold_bandwidth"], 0, "cold_bandwidth: expected more than 0; leave the key"),
        (["links", 0, "latency"], "1GB", "link 0: latency: expected time such as 5us, got '1GB'"),
        (["links", 0, "both"], 1, "link 0: both: expected true or false"),
        (["links", 0, "bandwith"], 1, "link 0: unknown key 'bandwith'; did you mean 'bandwidth'?"),
        (["links", 0, "to"], 3, "link 0: to: expected a name, got 3"),
        (["links", 1], 3, "link 1: expected a mapping, got 3"),
        (["links", 1, "fabric", "nod"], 3, "link 1: fabric: unknown key 'nod'"),
        (["links", 1, "bandwidth"], 3, "link 1: unknown key 'bandwidth'"),
        (["links", 1, "fabric", "cold_bandwidth"], 3, "unknown key 'cold_bandwidth'"),
        (["links", 2, "network"], "yes", "link 2: network: expected true, got 'yes'"),
    ],
)
def test_refused(path: list[Any], value: object, message: str) -> None:
    document = example()
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(FormatError, match=message) as error:
        Platform.from_dict(document, "p.yaml")
    assert str(error.value).startswith("p.yaml: ")


@pytest.mark.parametrize("path", [["format"], ["devices"], ["devices", 1, "name"]])
def test_missing_keys(path: list[Any]) -> None:
    document = copy.deepcopy(example())
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    with pytest.raises(FormatError, match=f"key '{path[-1]}' is missing"):
        Platform.from_dict(document)


def test_a_link_to_nowhere() -> None:
    document = example()
    document["links"][0]["to"] = "litle"
    with pytest.raises(PlatformError, match=r"no device 'litle'; did you mean 'little'\?"):
        Platform.from_dict(document)


@pytest.mark.parametrize("factor", [0.97, 0, math.inf])
def test_interference_is_no_speedup(factor: float) -> None:
    with pytest.raises(PlatformError, match=r"'a' has interference .*at least 1"):
        Platform((Device("a", interference=factor),))
