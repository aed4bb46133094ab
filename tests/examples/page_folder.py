"""What pages take for given: a model, a decoder's folder, files of nodes and inputs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.cli.invoke import tvm_hetero
from tests.frontends.onnx.models import make, value
from tests.frontends.relay.json_reader.test_graph_file import params_bytes
from tests.frontends.relay.models import recorded, unlike_cpus
from tests.passes.test_conditional_branches import NEGATIVE, PRODUCTS
from tests.passes.test_conditional_branches import model as model_of_branches
from tests.serve.small_tokenizer import write_texts
from tests.small_decoders import tiny
from tests.test_docs import FORMATS, blocks
from tests.test_first_ten_minutes import small_model

ROOT = Path(__file__).parents[2]
_NODES = ROOT / "examples" / "chat_on_two_machines" / "nodes.yaml"


def make_folder(folder: Path) -> Path:
    """Write all that a page's commands read and that none before them has written."""
    folder.mkdir()
    _write_documents(folder)
    small_model(folder / "MODEL.onnx")
    for name in ("net", "resnet"):
        shutil.copy(folder / "MODEL.onnx", folder / f"{name}.onnx")
    onnx.save(model_of_branches(PRODUCTS, NEGATIVE), folder / "branches.onnx")
    for name, model in {"text": _text(), "sound": _sound(), "three": _three()}.items():
        onnx.save(model, folder / f"{name}.onnx")
    _write_inputs(folder)
    _write_decoder(folder / "FOLDER")
    _write_encoder(folder / "ENCODER")
    _write_relay(folder)
    _build_artifacts(folder)
    return folder


def _write_documents(folder: Path) -> None:
    """Documents of docs/formats.md that pages speak of, nodes, platforms, arrivals."""
    (flow,) = [each for each in blocks(FORMATS, "yaml") if "layer-flow/1" in each]
    (folder / "problem.yaml").write_text(flow, encoding="utf-8")
    for name, kind in {"request": "choice-request/1", "day-request": "sharing-request/1"}.items():
        (asked,) = [each for each in blocks(FORMATS, "yaml") if kind in each]
        (folder / f"{name}.yaml").write_text(asked, encoding="utf-8")
    (folder / "problem.json").write_text(blocks(FORMATS, "json")[0], encoding="utf-8")
    (folder / "arrivals.csv").write_text("0.0,resnet\n0.1,bert\n0.2,resnet\n", encoding="utf-8")
    for name in ("platforms", "tests"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(_NODES, folder / "nodes.yaml")
    cpus = unlike_cpus()
    drawing = [replace(each, watts=15.0, idle_watts=2.0) for each in cpus.devices]
    replace(cpus, devices=tuple(drawing)).save(folder / "P.yaml")
    shutil.copy(folder / "P.yaml", folder / "platform.yaml")


def _text() -> onnx.ModelProto:
    """Of lines of text, however wide."""
    nodes = [
        helper.make_node("AveragePool", ["x"], ["a"], kernel_shape=[16, 16], strides=[16, 16]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    return make(nodes, {"x": [1, 3, 48, "width"]}, ["y"])


def _sound() -> onnx.ModelProto:
    """Of a picture without a size, and a rate that is a number."""
    nodes = [
        helper.make_node("Cast", ["sr"], ["rate"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["x", "rate"], ["y"]),
    ]
    model = make(nodes, {"x": [1, 3, 48, "width"]}, ["y"])
    model.graph.input.append(value("sr", [], TensorProto.INT64))
    return model


def _three() -> onnx.ModelProto:
    """Of three numbers."""
    return make([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 3]}, ["y"])


def _write_inputs(folder: Path) -> None:
    picture = np.ones((1, 3, 224, 224), "float32")
    np.savez(folder / "x.npz", x=picture)
    np.savez(folder / "line.npz", x=np.ones((1, 3, 48, 320), "float32"))
    ones = np.ones((1, 128), "int64")
    np.savez(folder / "texts.npz", input_ids=ones, attention_mask=ones, token_type_ids=0 * ones)
    np.save(folder / "x.npy", picture)
    np.save(folder / "three.npy", np.ones((1, 3), "float32"))


def _write_decoder(folder: Path) -> None:
    """A tiny decoder with a tokenizer and a template for chats; it knows the pages' tokens."""
    write_texts(tiny("llama", folder, vocab_size=4000))


def _write_encoder(folder: Path) -> None:
    import transformers

    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=128,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)


def _write_relay(folder: Path) -> None:
    """A program that TVM 0.17 saved, with its parameters."""
    program, values, _ = recorded("mlp")
    del values["data"]
    for name in ("net", "NET"):
        shutil.copy(program, folder / f"{name}.json")
        (folder / f"{name}.params").write_bytes(params_bytes(values))


def _build_artifacts(folder: Path) -> None:
    """Artifacts that pages of servers take for given, by estimates."""
    _partition(folder / "MODEL.onnx", folder / "resnet.hetero")
    for name in ("net", "NET", "one", "v7/bert"):
        shutil.copytree(folder / "resnet.hetero", folder / f"{name}.hetero")
    _partition(folder / "MODEL.onnx", folder / "four.hetero", "--batch", 4)
    _partition(folder / "three.onnx", folder / "three.hetero")
    _partition(folder / "FOLDER", folder / "gpt.hetero", "--length", 64, "--batch", 2)


def _partition(model: Path, made: Path, *more: object) -> None:
    done = tvm_hetero("partition", model, "-o", made, "--quick", *more)
    assert done.status == 0, done.err
