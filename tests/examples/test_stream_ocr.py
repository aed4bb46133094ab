"""The stream of pictures is read: by two small networks that know the camera's own letters.

They have the interface of PaddleOCR's, and compare with what `frames.letter` draws instead of what
training has shown. With the real ones: ``python examples/stream_ocr/read_stream.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from scipy import ndimage

FOLDER = Path(__file__).parents[2] / "examples" / "stream_ocr"
LETTERS = "ABCDEGIKLNPRSTU234579"


@pytest.fixture(scope="module")
def example() -> Iterator[dict[str, ModuleType]]:
    """The example's modules, which import each other as where they lie."""
    names = ("frames", "text_lines", "read_stream")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield {name: __import__(name) for name in names}
        for name in names:
            del sys.modules[name]


def save(path: Path, nodes: list[Any], shape: tuple[int, ...], weights: Any, letters: str) -> Path:
    """a network from "x" to "y", with letters as PaddleOCR's files have them."""
    graph = helper.make_graph(
        nodes, path.stem, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(w, "float32"), name) for name, w in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"character": "\n".join(letters)})
    onnx.save(model, path)
    return path


def small_detector(path: Path, shape: tuple[int, ...]) -> Path:
    """Says "text" near everything that is dark."""
    dark = np.zeros((1, 3, 1, 1))
    dark[0, 0] = -8.0
    nodes = [
        helper.make_node("Conv", ["x", "dark"], ["ink"]),
        helper.make_node("Sigmoid", ["ink"], ["likely"]),
        helper.make_node("MaxPool", ["likely"], ["y"], kernel_shape=[9, 41], pads=[4, 20, 4, 20]),
    ]
    return save(path, nodes, shape, {"dark": dark}, "")


def small_recognizer(path: Path, frames: ModuleType, lines: ModuleType) -> Path:
    """Compares each place of a line with each letter; "none" where no one is alike enough."""
    drawn = [np.pad(frames.letter(name), 5) for name in LETTERS]
    shapes = np.stack([ndimage.gaussian_filter(ink, 1.0)[5:-5, 5:-5] for ink in drawn])
    weights = np.zeros((len(LETTERS) + 1, 3, *shapes.shape[1:]))
    weights[1:, 0] = 1 - 2 * shapes
    # What a letter has in common with itself, in the recognizer's numbers.
    alike = (weights[1:, 0] * (0.76 - 1.53 * shapes)).sum((1, 2))
    bias = np.concatenate(([0.0], -0.88 * alike))
    top = (lines.LINE_HEIGHT - lines.INK_HEIGHT) // 2
    rest = lines.LINE_HEIGHT - lines.INK_HEIGHT - top
    nodes = [
        helper.make_node("Slice", ["x", "from", "to", "axis"], ["strip"]),
        helper.make_node("Conv", ["strip", "w", "b"], ["scores"], strides=[5, 5]),
        helper.make_node("Squeeze", ["scores", "axis"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["steps"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["steps"], ["y"], axis=2),
    ]
    shape = (1, 3, lines.LINE_HEIGHT, lines.LINE_WIDTH)
    save(path, nodes, shape, {"w": weights, "b": bias}, LETTERS)
    model = onnx.load(path)
    for name, value in (("from", top), ("to", lines.LINE_HEIGHT - rest), ("axis", 2)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
    onnx.save(model, path)
    return path


def test_every_picture_is_read_in_order(example, tmp_path, capsys):
    frames, lines, main = (example[n] for n in ("frames", "text_lines", "read_stream"))
    files = {
        "--detector": small_detector(tmp_path / "d.onnx", (1, 3, frames.HEIGHT, frames.WIDTH)),
        "--recognizer": small_recognizer(tmp_path / "r.onnx", frames, lines),
    }
    given = [str(word) for pair in files.items() for word in pair]
    read = main.main([*given, "--frames", "40", "--cost-model", "quick"])
    assert read.right == 40
    signs = [[text.replace(" ", "") for text in sign] for sign in frames.SIGNS]
    assert read.lines == [signs[number // 15] for number in range(40)]
    told = capsys.readouterr().out
    assert told.count("picture ") == len(frames.SIGNS) and "a second" in told
    assert "x86-64-v2" in told and told.count("built in") == 2


def test_a_picture_without_text_has_no_lines(example):
    lines = example["text_lines"]
    blank = np.full((64, 64), 200, np.uint8)
    assert lines.find_lines(blank, np.zeros((64, 64))) == []
    assert lines.find_lines(blank, np.ones((64, 64))) == []  # the detector is wrong


def test_letters_that_stand_twice_are_one_unless_none_is_between(example):
    path = np.eye(3)[[0, 1, 1, 0, 1, 2, 2]][None]
    assert example["text_lines"].read_letters(path, "ab") == "aab"
