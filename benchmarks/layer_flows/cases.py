"""Helix's clusters, models and published layouts as problems (figures of `helix.json`).

The figures are those of the authors' programs, and so is what they leave unsaid:

- Bandwidths are in what their programs call mbps and use as 10^6 bytes a second. On geo24 that is
  right (12.5 of them are the paper's 100 Mb/s between regions); on the others 1,000 of them are
  8 Gb/s where the paper has 10 Gb/s, which no layout here is limited by, nor by an eighth of it.
- Rates are not measured for each number of layers: they are computed from profiles of one layer and
  an estimate of the batch, which depends on the other machines. So a node has another table in
  another cluster, and some tables rise here and there.
- 30B was published as three pools of one kind of node, with tables for pools. The layout of all
  three is judged with the tables of the whole cluster.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tvm_hetero.planning.helix import judge, parse_layer_flow
from tvm_hetero.planning.helix.problem import LayerFlowProblem, LayerInterval

FACTS = Path(__file__).with_name("helix.json")
CLUSTERS = ("single24", "geo24", "het42", "small10")
MODELS = ("llama30b", "llama70b")


@dataclass(frozen=True)
class PublishedLayout:
    """A layout of the authors: what their program said it is worth (if it did), and the judge."""

    said: float | None
    judged: float
    note: str


@cache
def facts() -> dict[str, Any]:
    """All figures."""
    found: dict[str, Any] = json.loads(FACTS.read_text(encoding="utf-8"))
    return found


def document(cluster: str, model: str, *, partial: bool = True) -> dict[str, Any]:
    """The problem as a document, ``tvm-hetero/layer-flow/1``."""
    there = facts()["clusters"][cluster]
    rates = facts()["rates"][there["rates"]][model]
    names = [f"{kind}-{i}" for i, kind in enumerate(there["kinds"])]
    return {
        "format": "tvm-hetero/layer-flow/1",
        "name": f"{cluster}, {model}",
        **facts()["models"][model],
        "partial": partial,
        "kinds": {kind: {"tokens_per_second": table} for kind, table in rates.items()},
        "nodes": [
            {"name": name, "kind": kind} for name, kind in zip(names, there["kinds"], strict=True)
        ],
        **_links(there["network"], names),
    }


def _links(network: dict[str, Any], names: list[str]) -> dict[str, Any]:
    if "bandwidth_MBps" in network:
        return {"network": {"bandwidth": f"{network['bandwidth_MBps']}MB/s"}}
    links = [
        {"from": names[i], "to": names[j], "bandwidth": f"{bandwidth}MB/s", "both": True}
        for i, row in enumerate(network["pairs_MBps"])
        for j, bandwidth in enumerate(row, start=i + 1)
    ]
    for name, there, back in zip(
        names, network["from_coordinator_MBps"], network["to_coordinator_MBps"], strict=True
    ):
        links += [
            {"from": "coordinator", "to": name, "bandwidth": f"{there}MB/s"},
            {"from": name, "to": "coordinator", "bandwidth": f"{back}MB/s"},
        ]
    return {"links": links}


def layer_flow(cluster: str, model: str, *, partial: bool = True) -> LayerFlowProblem:
    """The problem."""
    return parse_layer_flow(document(cluster, model, partial=partial), cluster)


def published(cluster: str, model: str) -> PublishedLayout | None:
    """The best of the authors' layouts for a problem; None if there is none."""
    found = []
    for each in facts()["layouts"]:
        if (each["cluster"], each["model"]) == (cluster, model):
            layout = [LayerInterval(*held) for held in each["holds"]]
            judged = judge(layer_flow(cluster, model, partial=False), layout).value
            found.append(PublishedLayout(each["said"], judged, each["note"]))
    return max(found, key=lambda layout: layout.judged, default=None)
