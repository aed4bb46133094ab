"""Work graphs in files: networks as our own import and fusion leaves them, and lists of layers.

The nine ``light`` models of the onnx wheel (weights made up, shapes real) are stored after import
and fusion, so that they can be scheduled without TVM and ONNX. ``benchmarks/zoo_data.py`` makes the
files again. The lists of layer shapes are those of networks that papers on pipelines use
(`tvm_hetero.zoo.layer_lists`); ``benchmarks/layer_lists.py`` makes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tvm_hetero.errors import UsageError
from tvm_hetero.problem.graph import Edge
from tvm_hetero.util.documents import read_document, write_atomic
from tvm_hetero.util.fields import Fields, refuse
from tvm_hetero.util.nearest import nearest
from tvm_hetero.zoo.layer_lists import SUFFIX, LayerList, read_layer_list
from tvm_hetero.zoo.work_graph import LayerWork, WorkGraph

# The models, and how many tasks each has.
LIGHT = {
    "bvlc_alexnet": 21, "densenet121": 244, "inception_v1": 91, "inception_v2": 97,
    "resnet50": 60, "shufflenet": 78, "squeezenet": 42, "vgg19": 28, "zfnet512": 21,
}  # fmt: skip
# The lists of layers, and how many tasks each has: its layers, input and output.
LISTED = {"vgg16": 23, "resnet50": 58, "resnet152": 160, "yolov3": 77, "synthnet": 20}
FOLDER = Path(__file__).parent / "data"
# The columns of a row: a work's fields that an imported network can have.
_WORK = ("id", "op", "kind", "flops", "traffic", "weights", "output")
_EDGE = ("src", "dst", "bytes", "tensor")


def stored(model: str = "resnet50") -> WorkGraph:
    """The stored network of that name, one of `LIGHT`."""
    if model not in LIGHT:
        raise UsageError(f"no stored network {model!r}{nearest(model, LIGHT)}")
    path = FOLDER / f"{model}.json"
    row = Fields(read_document(path), path.name, ["name", "width", "works", "edges"])
    return WorkGraph(
        name=row.name("name"),
        works=row.rows("works", lambda data, where: LayerWork(**_named(data, _WORK, where))),
        edges=row.rows("edges", lambda data, where: Edge(**_named(data, _EDGE, where))),
        width=row.integer("width", least=1),
    )


def stored_layers(model: str) -> LayerList:
    """The stored list of layers of that name, one of `LISTED`."""
    if model not in LISTED:
        raise UsageError(f"no stored list of layers {model!r}{nearest(model, LISTED)}")
    return read_layer_list(FOLDER / f"{model}{SUFFIX}")


def chain_of_layers(model: str = "resnet50") -> WorkGraph:
    """The chain of a stored list of layers."""
    return stored_layers(model).work_graph()


def _named(data: object, columns: Sequence[str], where: str) -> dict[str, Any]:
    """A row's values by the names of their columns."""
    if not isinstance(data, list) or len(data) != len(columns):
        refuse(data, where, f"a list of {', '.join(columns)}")
    return dict(zip(columns, data, strict=True))


def store(graph: WorkGraph, path: Path) -> None:
    """Write a work graph, one row a line.

    Raises
    ------
    ValueError
        If some work has a figure that the rows have no column for.
    """
    plain = {field.name: field.default for field in fields(LayerWork) if field.name not in _WORK}
    for work in graph.works:
        if any(getattr(work, key) != default for key, default in plain.items()):
            raise ValueError(f"work {work.id!r} has a cache or a share, which is not stored")
    works = [[getattr(work, key) for key in _WORK] for work in graph.works]
    edges = [[getattr(edge, key) for key in _EDGE] for edge in graph.edges]
    head = f'"name": {json.dumps(graph.name)}, "width": {graph.width}'
    write_atomic(path, f'{{{head},\n"works": {_rows(works)},\n"edges": {_rows(edges)}}}\n')


def _rows(rows: list[list[Any]]) -> str:
    return "[\n " + ",\n ".join(json.dumps(row) for row in rows) + "]"
