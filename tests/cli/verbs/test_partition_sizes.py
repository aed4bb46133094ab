"""``partition --shape`` with several sizes, and what the other verbs make of its folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.invoke import tvm_hetero
from tests.sizes.models import expected, platform, write_conv_net


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its folder of two sizes (costs are the roofline's), and inputs of three."""
    path = tmp_path_factory.mktemp("sizes")
    write_conv_net(path / "net.onnx")
    platform().save(path / "p.yaml")
    for width in (16, 24, 32):
        x = np.random.default_rng(width).standard_normal((1, 3, 8, width)).astype("float32")
        np.savez(path / f"{width}.npz", x=x)
    result = partition(path, "x=1x3x8x16..32/16", "--build", "any", "--json")
    assert result.status == 0, result.err
    found = json.loads(result.out)
    assert (found["build"], list(found["sizes"])) == ("any", ["16", "32"])
    return path


def partition(home: Path, shape: str, *options: str):
    return tvm_hetero(
        "partition", home / "net.onnx", "--shape", shape, "--platform", home / "p.yaml",
        "--cost-model", "analytical", "--no-measure", "-o", home / "net.hetero", *options,
    )  # fmt: skip


def test_show_lists_sizes_and_shows_each(home: Path) -> None:
    shown = (
        tvm_hetero("show", home / "net.hetero").err + tvm_hetero("show", home / "net.hetero").out
    )
    assert "width: 16..32/16" in shown and "size 32" in shown
    assert tvm_hetero("show", home / "net.hetero" / "sizes" / "16").status == 0


@pytest.mark.parametrize("width", [32, 24])
def test_run_takes_the_size_of_its_inputs(home: Path, width: int) -> None:
    inputs, out = home / f"{width}.npz", home / "y.npz"
    result = tvm_hetero(
        "run", home / "net.hetero", "--input", inputs, "--output", out, "--repeat", "2"
    )
    assert result.status == 0, result.err
    right = expected(home / "net.onnx", dict(np.load(inputs)))
    np.testing.assert_allclose(np.load(out)["y"], right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "net.hetero", "--random"), "serves several sizes"),
        (("run", "net.hetero/sizes/48", "--random"), "this size is not built"),
        (("bench", "net.hetero"), "serves several sizes"),
    ],
)
def test_what_is_for_one_size_says_where_it_is(
    home: Path, arguments: tuple[str, ...], words: str
) -> None:
    verb, path, *options = arguments
    result = tvm_hetero(verb, home / path, *options)
    assert (result.status, words in result.err) == (2, True), result.err


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ("x=1x3x8x16..32/16", ("--batch", "2"), "a batch is one of them"),
        ("x=1x3x8x16..32/16", ("--cluster", "auto"), "--cluster is for one size"),
        ("x=1x3x8x16..32/16", ("--build", "all"), "expected one of never, range, any"),
        ("x=1x3x8x16", ("--build", "any"), "--build is for several sizes"),
        ("y=1x3x8x16,32", (), "'y', which is no input"),
        ("x=1x3x8x16..30/16", (), "does not end at 30"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_is(
    home: Path, shape: str, options: tuple[str, ...], words: str
) -> None:
    result = partition(home, shape, *options)
    assert (result.status, words in result.err) == (2, True), result.err
