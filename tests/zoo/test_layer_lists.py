"""Lists of layer shapes: what is read, what is refused, and whether the shipped ones are right."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import layer_lists
from tvm_hetero import zoo
from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.zoo.files import FOLDER, LISTED, stored_layers
from tvm_hetero.zoo.layer_lists import SUFFIX, parse_layer_list, read_layer_list

SMALL = """\
# made up
network small

conv1, 8, 6, 3, 5, 3, 16   # 5 high, 3 wide
dw, 8, 6, 1, 3, 3, 16
pool, pool, 8, 6, 16, 4, 3
fc, fc, 4, 3, 16, 10
"""


def test_a_layer_weighs_what_the_papers_say() -> None:
    network = parse_layer_list(SMALL, "small")
    assert [layer.weight for layer in network.layers] == [
        8 * 6 * 3 * 5 * 3 * 16, 8 * 6 * 9 * 16, 8 * 6 * 16, 4 * 3 * 16 * 10,
    ]  # fmt: skip
    assert [layer.makes for layer in network.layers] == [(16, 8, 6), (16, 8, 6), (16, 4, 3), (10,)]


def test_a_list_is_a_chain_of_tasks() -> None:
    graph = parse_layer_list(SMALL, "small").work_graph()
    names = ["input", "conv1", "dw", "pool", "fc", "output"]
    assert [work.id for work in graph.works] == names
    assert [(edge.src, edge.dst) for edge in graph.edges] == list(pairwise(names))
    assert [work.kind for work in graph.works][1:5] == ["conv", "depthwise", "elementwise", "gemm"]
    assert [edge.bytes for edge in graph.edges] == [4 * n for n in (144, 768, 768, 192, 10)]


def test_an_image_of_one_channel_is_not_read_depthwise() -> None:
    graph = parse_layer_list("network n\nconv, 8, 8, 1, 3, 3, 16", "n").work_graph()
    assert graph.works[1].kind == "conv"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    network = parse_layer_list(SMALL, "small")
    (tmp_path / "small.layers").write_text(network.text())
    assert read_layer_list(tmp_path / "small.layers") == network


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'network NAME' first, got ''"),
        ("conv1, 8, 8, 3, 3, 3, 16", "line 1: expected 'network NAME' first, got 'conv1, 8"),
        ("network n", "line 1: expected layers after the network's name"),
        ("network n\n\na, 8, 8, 3, 3, 16", "line 3: expected 'name, H, W, C, R, S, K', got 'a, 8"),
        ("network n\na, pool, 8, 8, 3", "line 2: expected 'name, pool, H, W, C, H', W''"),
        ("network n\na, fc, 8, 8, 3, 3, 3", "line 2: expected 'name, fc, H, W, C, F'"),
        ("network n\na, relu, 8, 8, 3", "expected 'name, H, W, C, R, S, K', got 'a, relu"),
        ("network n\na, 8, 8, 3, 0, 3, 16", "a whole number from 1 to 1048576, got '0'"),
        ("network n\na, 8, 8, 3, -3, 3, 16", "got '-3'"),
        ("network n\na, 8, 8, 3, 1e2, 3, 16", "got '1e2'"),
        ("network n\na, 8, 8, 3, 3, 3, 9999999", "got '9999999'"),
        ("network n\na, 8, 8, 3, 3, 3, " + "9" * 5000, "expected a whole number from 1"),
        ("network n\n, 8, 8, 3, 3, 3, 16", "expected 'name, H, W, C, R, S, K'"),
        ("network n\na, fc, 1, 1, 1, 1\na, fc, 1, 1, 1, 1", "line 3: the name 'a' is given twice"),
        ("network n\ninput, fc, 1, 1, 1, 1", "'input' is what the chain's ends have"),
    ],
)
def test_what_is_no_list_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_layer_list(text, "file.layers")
    assert message in str(refused.value) and str(refused.value).startswith("file.layers, line ")
    assert len(str(refused.value)) < 250


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.layers: cannot be read: No such file"):
        read_layer_list(tmp_path / "none.layers")
    (tmp_path / "binary.layers").write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="not UTF-8"):
        read_layer_list(tmp_path / "binary.layers")
    (tmp_path / "large.layers").write_bytes(b"#" * (2 << 20))
    with pytest.raises(FormatError, match="larger than"):
        read_layer_list(tmp_path / "large.layers")


def test_the_shipped_lists_are_what_the_definitions_give(tmp_path: Path) -> None:
    layer_lists.main(["--output", str(tmp_path)])
    made = {path.stem: path.read_text() for path in tmp_path.iterdir()}
    kept = {path.stem: path.read_text() for path in FOLDER.glob(f"*{SUFFIX}")}
    assert made == kept and set(kept) == set(LISTED)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("vgg16", 15.3, 15.5), ("resnet50", 3.8, 4.1), ("resnet152", 11.3, 11.6)],
)
def test_multiply_adds_are_those_of_the_papers(name: str, least: float, most: float) -> None:
    network = stored_layers(name)
    assert least < network.weight / 1e9 < most
    # The zoo's own graph of the network has shortcuts, and another way to its shapes.
    products = sum(w.flops for w in zoo.work_graph(name).works if w.kind in ("conv", "gemm")) / 2
    listed = sum(layer.weight for layer in network.layers if layer.kind != "pool")
    assert listed == pytest.approx(products, rel=2e-3)


def test_parameters_are_those_of_the_papers() -> None:
    found = {name: sum(layer.parameters for layer in stored_layers(name).layers) for name in LISTED}
    assert found["vgg16"] == 138_357_544
    assert found["resnet50"] == pytest.approx(25.53e6, rel=1e-3)
    assert found["yolov3"] == pytest.approx(61.92e6, rel=1e-3)


def test_yolov3_has_75_convolutions_of_66_billion_operations() -> None:
    network = stored_layers("yolov3")
    assert len(network.layers) == 75
    assert 2 * network.weight / 1e9 == pytest.approx(65.86, abs=0.01)  # as darknet says
    assert [layer.makes for layer in network.layers if "detect" in layer.name] == [
        (255, 13, 13), (255, 26, 26), (255, 52, 52),
    ]  # fmt: skip


def test_resnet152_has_more_than_fifty_heavy_layers() -> None:
    network = stored_layers("resnet152")
    mean = network.weight / len(network.layers)
    assert sum(layer.weight > mean for layer in network.layers) > 50


def test_synthnet_has_18_convolutions() -> None:
    layers = stored_layers("synthnet").layers
    assert len(layers) == 18 and {layer.kind for layer in layers} == {"conv"}
    weights = [layer.weight for layer in layers]
    assert 150 < max(weights) / min(weights) < 250


def test_a_file_is_a_problem_like_those_of_the_zoo(tmp_path: Path) -> None:
    path = tmp_path / "small.layers"
    path.write_text(SMALL)
    problem = zoo.problem(str(path), "sched-nvl")
    assert problem.name == "small on sched-nvl" and len(problem.tasks) == 6
    with pytest.raises(UsageError, match="no parameters, got depth"):
        zoo.problem(str(path), depth=3)
    with pytest.raises(UsageError, match="did you mean 'yolov3'"):
        stored_layers("yolo3")
