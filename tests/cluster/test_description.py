"""Cluster files: read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_hetero.cluster.description import (
    AUTO,
    Description,
    NodeRow,
    description_from_dict,
    read_description,
)
from tvm_hetero.errors import FormatError

GOOD = {
    "format": "tvm-hetero/cluster/1",
    "address": "10.0.0.1:6379",
    "nodes": [{"name": "left", "cores": [0]}, {"name": "right", "cores": [0], "host": "10.0.0.2"}],
    "network": {"bandwidth": "1GB/s", "latency": 0.5},
    "silence": "20s",
}


def test_a_file_is_read(tmp_path: Path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "format: tvm-hetero/cluster/1\nnodes: [{name: a, cores: [0]}, {name: b, cores: [1]}]\n"
    )
    assert read_description(path) == Description("local", (NodeRow("a", (0,)), NodeRow("b", (1,))))
    assert description_from_dict(GOOD) == Description(
        "10.0.0.1:6379",
        (NodeRow("left", (0,)), NodeRow("right", (0,), "10.0.0.2")),
        (1e9, 0.5),
        20.0,
    )
    assert read_description(AUTO) == Description("auto")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": []}, "expected a list of at least one"),
        ({"nodes": [{"name": "a b"}]}, "only letters, digits"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "'a' is given twice"),
        ({"nodes": [{"name": "a", "cores": [0, 0]}]}, "cores: expected .* each number once"),
        ({"nodes": [{"name": "a", "cores": [1]}, {"name": "b", "cores": [1]}]}, "share core 1"),
        ({"nodes": [{"name": "a", "port": 1}]}, "port"),
        ({"address": "local"}, "has a host, but address: local"),
        ({"network": {"bandwidth": 0, "latency": 0}}, "more than 0"),
        ({"silence": 0}, "silence: expected more than 0"),
        ({"colour": 1}, "colour"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(FormatError, match=message):
        description_from_dict({**GOOD, **change})
