"""docs/howto: every line that they tell users to write is run, in its order."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_hetero as th
from tests.frontends.relay.models import unlike_cpus
from tests.serve.server_thread import ServerThread
from tests.test_docs import blocks
from tests.test_docs import test_the_pages_commands_have_their_options as options_are_there
from tvm_hetero import relax

ROOT = Path(__file__).resolve().parents[2]
HOWTO = ROOT / "docs" / "howto"
X = np.linspace(-1, 1, 192, dtype="float32").reshape(1, 3, 8, 8)


def text(name: str) -> str:
    return (HOWTO / f"{name}.md").read_text(encoding="utf-8")


def lines(page: str) -> list[str]:
    """The code in the right column of the page's table line by line."""
    section = page.split("## Line by line")[1].split("\n## ")[0]
    rows = re.findall(r"^\|.*\| (.*) \|$", section, re.M)
    return [code for row in rows[1:] for code in re.findall(r"`([^`]+)`", row)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with ``net.onnx``, two convolutions that branch, and ``platform.yaml``."""
    folder = tmp_path_factory.mktemp("howto")
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3), "float32"), name)
        for name in ("v", "w")
    ]
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"]),
        helper.make_node("Conv", ["x", "w"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 8, 8]), ("y", [1, 4, 6, 6]))
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "net.onnx"
    )
    unlike_cpus().save(folder / "platform.yaml")
    return folder


@pytest.fixture(scope="module")
def right(home):
    """What ONNX Runtime makes of `X`."""
    import onnxruntime

    session = onnxruntime.InferenceSession(home / "net.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X})[0]


@pytest.fixture(scope="module")
def followed(home):
    """The names that are there when a page has been followed, by the page."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for page in ("from-openvino-hetero", "from-onnxruntime"):
            names = {"np": np, "th": th, "relax": relax, "x": X}
            for line in lines(text(page)):
                exec(line, names)  # the page's own text
            found[page] = names
    yield found
    for names in found.values():
        names["ex"].close()


@pytest.mark.parametrize("page", ["from-onnxruntime", "from-openvino-hetero"])
def test_every_line_of_a_page(followed, right, page):
    names = followed[page]
    assert len(lines(text(page))) > 12
    for output in (names["array"], names["later"].numpy(), names["many"][1][0].numpy()):
        np.testing.assert_allclose(output, right, rtol=1e-4, atol=1e-5)
    assert len(names["steps"]) > 0


def test_what_pages_say_of_names_is_there(followed):
    there = followed["from-onnxruntime"]
    assert (there["names"], there["outputs"]) == (["x"], ("y",))
    assert [tuple(shape) for shape in there["shapes"]] == [(1, 3, 8, 8)]
    hetero = followed["from-openvino-hetero"]
    assert set(hetero["names"]) >= {
        name for names in hetero["placement"].values() for name in names
    }
    assert 0 < hetero["bound"] <= hetero["value"]


def test_tritons_client_asks_as_the_page_says(home, followed, right):
    pytest.importorskip("tritonclient.http", reason="make peers installs it")
    (code,) = blocks(text("from-triton"), "python")
    with ServerThread({"net": home / "net.hetero"}) as server:
        there = ":".join(map(str, server.address))
        assert "localhost:8000" in code
        names: dict[str, object] = {}
        exec(
            code.replace("localhost:8000", there).replace("np.ones", "X + 0 * np.ones"),
            names | {"X": X},
            names,
        )
    np.testing.assert_allclose(names["y"], right, rtol=1e-4, atol=1e-5)
    assert names["ready"] is True


def test_commands_of_the_start_page_have_their_options():
    start = (ROOT / "docs" / "site" / "index.md.in").read_text(encoding="utf-8")
    commands = [line.split() for line in re.findall(r"^    tvm-hetero (.+)$", start, re.M)]
    assert {"partition", "serve", "plan", "generate"} <= {words[0] for words in commands}
    for words in commands:
        options_are_there(words)
