"""Documents of layers in a row: what they say, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tvm_hetero.errors import FormatError
from tvm_hetero.planning.helix import (
    layout_document,
    load_layer_flow,
    parse_layer_flow,
    parse_layer_layout,
)
from tvm_hetero.planning.helix.problem import LayerInterval

DOCUMENT: dict[str, Any] = {
    "format": "tvm-hetero/layer-flow/1",
    "name": "two",
    "layers": 3,
    "activation_bytes": "16kB",
    "token_bytes": 2,
    "kinds": {"fast": {"tokens_per_second": [90.0, 40.0, 25.0, 18.0]}},
    "nodes": [{"name": "a", "kind": "fast"}, {"name": "b", "kind": "fast"}],
    "network": {"bandwidth": "1GB/s"},
    "links": [{"from": "a", "to": "b", "bandwidth": "16MB/s"}],
}


def test_bandwidths_become_tokens_a_second(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(DOCUMENT))
    problem = load_layer_flow(path)
    assert problem.links == {(0, 1): 1000.0, (1, 0): 1e9 / 16000}
    assert problem.entries == problem.exits == (5e8, 5e8)
    # There is no fourth layer to hold.
    assert problem.nodes[0].rates == (90.0, 40.0, 25.0)
    assert problem.partial


def test_without_a_network_there_are_the_links_that_are_named() -> None:
    data = copy.deepcopy(DOCUMENT)
    del data["network"]
    data["links"] += [{"from": "coordinator", "to": "a", "bandwidth": 8, "both": True}]
    problem = parse_layer_flow(data)
    assert problem.links == {(0, 1): 1000.0}
    assert problem.entries == problem.exits == (4.0, 0.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": 0}, "layers: expected an integer from 1 to 10000, got 0"),
        ({"format": "tvm-hetero/problem/1"}, 'expected "format": "tvm-hetero/layer-flow/1"'),
        ({"nodes": []}, "nodes: expected a list of 1 to 1000 nodes"),
        ({"nodes": [{"name": "a", "kind": "fats"}]}, "unknown kind 'fats'; did you mean 'fast'"),
        ({"nodes": [{"name": "coordinator", "kind": "fast"}]}, "expected a name of its own"),
        ({"nodes": DOCUMENT["nodes"][:1] * 2}, "node 1: expected a name of its own, got 'a'"),
        ({"kinds": {"fast": {"tokens_per_second": []}}}, "tokens a second with 1, 2, ... layers"),
        ({"kinds": {"fast": {"tokens_per_second": [3.0, 0.0]}}}, "each above 0, got"),
        ({"network": {"bandwidth": "10Gb/s"}}, "expected rate such as 20GB/s, got '10Gb/s'"),
        ({"links": [{"from": "a", "to": "c", "bandwidth": 1}]}, "link 0: to: unknown node 'c'"),
        ({"links": [{"from": "a", "to": "a", "bandwidth": 1}]}, "expected another node than"),
        ({"activations": 3}, "unknown key 'activations'"),
        ({"activation_bytes": 0}, "activation_bytes: expected at least 1 byte, got 0"),
    ],
)
def test_what_a_problem_must_not_say_is_refused_with_its_place(
    change: dict[str, Any], said: str
) -> None:
    with pytest.raises(FormatError) as error:
        parse_layer_flow({**DOCUMENT, **change}, "two.json")
    assert said in str(error.value)
    assert str(error.value).startswith("two.json")


def test_a_layout_is_read_as_it_is_written() -> None:
    problem = parse_layer_flow(DOCUMENT)
    layout = (LayerInterval(0, 2), None)
    assert parse_layer_layout(layout_document(problem, layout), problem) == layout


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ({"c": [0, 1]}, "unknown key 'c'"),
        ({"a": [0]}, "expected [first layer, number of layers], got [0]"),
        ({"a": [0, 1.5]}, "a[1]: expected an integer of at least 0, got 1.5"),
    ],
)
def test_a_layout_of_something_else_is_refused(holds: dict[str, Any], said: str) -> None:
    document = {"format": "tvm-hetero/layer-layout/1", "holds": holds}
    with pytest.raises(FormatError) as error:
        parse_layer_layout(document, parse_layer_flow(DOCUMENT))
    assert said in str(error.value)
