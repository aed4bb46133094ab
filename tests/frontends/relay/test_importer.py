"""docs/from-relay.md: every line that it tells Relay users to write is run, in its order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tvm_hetero as th
from tests.frontends.relay.json_reader.test_graph_file import params_bytes
from tests.frontends.relay.models import DATA, ROOT, recorded, unlike_cpus
from tutorials import from_relay
from tvm_hetero import relay
from tvm_hetero.executor.executor import Executor

GUIDE = (ROOT / "docs" / "from-relay.md").read_text(encoding="utf-8")


def lines() -> list[str]:
    """The code in the right columns of the tables."""
    rows = re.findall(r"^\|.*\| (.*) \|$", GUIDE, re.M)
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row)]


def annotated(text: str) -> str:
    """A saved program in which the first dense layer is wanted on the second CPU."""
    document = json.loads(text)
    nodes = document["nodes"]
    dense = next(
        i for i, node in enumerate(nodes)
        if node["type_key"] == "relay.Call"
        and nodes[int(node["attrs"]["op"])].get("repr_str") == "nn.dense"
        and nodes[int(node["attrs"]["attrs"])]["attrs"]["units"] == "15"
    )  # fmt: skip
    last = len(nodes)
    nodes += [
        {"type_key": "Op", "repr_str": "on_device"},
        {"type_key": "Array", "data": [dense]},
        {"type_key": "VirtualDevice", "attrs": {
            "device_type_int": "1", "virtual_device_id": "1", "target": "0", "memory_scope": "0"}},
        {"type_key": "relay.attrs.OnDeviceAttrs", "attrs": {
            "virtual_device": str(last + 2), "constrain_body": "1", "constrain_result": "0"}},
        {"type_key": "relay.Call", "attrs": {
            "op": str(last), "args": str(last + 1), "attrs": str(last + 3), "type_args": "0",
            "_checked_type_": nodes[dense]["attrs"]["_checked_type_"]}},
    ]  # fmt: skip
    for i, node in enumerate(nodes[:last]):
        if node["type_key"] == "Array" and i != dense and dense in node.get("data", []):
            node["data"] = [last + 4 if d == dense else d for d in node["data"]]
    return json.dumps(document)


def test_every_line_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    path, params, expected = recorded("mlp")
    data = params.pop("data")
    monkeypatch.chdir(tmp_path)
    Path("net.json").write_text(path.read_text())
    Path("net.txt").write_text((DATA / "mlp.relay.txt").read_text())
    Path("annotated.json").write_text(annotated(path.read_text()))
    Path("net.params").write_bytes(params_bytes(params))
    unlike_cpus().save(Path("platform.yaml"))
    names = {"th": th, "relay": relay, "x": data}
    found = lines()
    assert len(found) > 20
    for line in found:
        exec(line, names)  # the guide's own text
    for output in (names["y"], names["later"], names["all_of_them"][1][0]):
        np.testing.assert_allclose(output.numpy(), expected, rtol=1e-4)
    assert names["names"] == ["data"] and names["params"].keys() == params.keys()
    with Executor(names["mixed"], "partition") as executor:
        placed = executor.schedule.placement
        np.testing.assert_allclose(executor.run({"data": data})[0].numpy(), expected, rtol=1e-4)
    assert placed["0.dense" if "0.dense" in placed else next(iter(placed))] == ("little",)
    assert "'" in capsys.readouterr().out
    names["ex"].close()


def test_the_tutorial(tmp_path: Path, capsys) -> None:
    difference = from_relay.main(
        DATA / "mlp.relay.json", tmp_path / "mlp.hetero", cost_model="quick"
    )
    told = capsys.readouterr().out
    assert difference < 1e-4
    assert "every operator can be imported" in told
    assert "1. " in told and "5. " in told
    assert (tmp_path / "mlp.hetero" / "manifest.json").is_file()
