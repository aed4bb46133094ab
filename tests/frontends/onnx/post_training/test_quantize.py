"""A float model quantised by ONNX Runtime: our kernels compute what ONNX Runtime does of it."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.frontends.onnx.models import make, run
from tests.frontends.onnx.running import executor
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.executor.relative_error import largest_relative_error
from tvm_hetero.frontends.onnx import load_model
from tvm_hetero.frontends.onnx.post_training import (
    float_outputs,
    is_quantized,
    prepare_model,
    quantizable_nodes,
    quantize_model,
)
from tvm_hetero.frontends.onnx.post_training import quantize as quantize_file
from tvm_hetero.frontends.onnx.post_training.nodes_alone import nodes_alone
from tvm_hetero.processes import signals

RNG = np.random.default_rng(0)
IMAGE = (1, 3, 10, 10)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network(opset: int = 11) -> onnx.ModelProto:
    """Convolutions with all that stands between them, a residual, a product at the end."""
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c0", "g", "h", "m", "v"], ["n0"]),
        helper.make_node("Relu", ["n0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1] * 4, group=8),
        helper.make_node("Conv", ["r0", "w2"], ["c2"]),
        helper.make_node("Concat", ["c1", "c2"], ["j"], axis=1),
        helper.make_node("MaxPool", ["j"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p", "w3"], ["c3"]),
        helper.make_node("GlobalAveragePool", ["c3"], ["a"]),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], transB=1),
    ]
    constants = {
        "w0": draw(8, 3, 3, 3), "b0": draw(8), "g": draw(8), "h": draw(8), "m": draw(8),
        "v": np.abs(draw(8)) + 1, "w1": draw(8, 1, 3, 3), "w2": draw(8, 8, 1, 1),
        "w3": draw(12, 16, 1, 1), "w4": draw(5, 12), "b4": draw(5),
    }  # fmt: skip
    return make(nodes, {"x": IMAGE}, ["y"], constants, opset)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> onnx.ModelProto:
    path = tmp_path_factory.mktemp("int8") / "net.onnx"
    onnx.save(network(), path)
    return prepare_model(load_model(path))


def by_default(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    """The outputs by ONNX Runtime as its users run it: it computes with codes."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {"x": x}))


def test_our_kernels_compute_what_onnx_runtime_does(prepared: onnx.ModelProto) -> None:
    inputs = [{"x": draw(*IMAGE)} for _ in range(2)]
    nodes = [node.name for node in quantizable_nodes(prepared)]
    assert len(nodes) == 5 and all(
        node.op_type != "BatchNormalization" for node in prepared.graph.node
    )
    made = quantize_model(prepared, inputs, nodes)
    assert is_quantized(made) and not is_quantized(prepared)
    assert made == quantize_model(prepared, inputs, nodes)
    plain = float_outputs(prepared, inputs)
    np.testing.assert_allclose(plain[0][0], run(prepared, inputs[0])[0], rtol=1e-4, atol=1e-5)
    with executor(made) as ex:
        for values, expected in zip(inputs, plain, strict=True):
            ours = [each.numpy() for each in ex.run(values)]
            # Sums of codes are exact: one code may be off where a rounding's last bit decides.
            assert largest_relative_error(by_default(made, values["x"]), ours) < 2e-3
            assert 1e-4 < largest_relative_error(expected, ours) < 0.05


def test_only_the_nodes_that_are_named_are_quantised(prepared: onnx.ModelProto) -> None:
    nodes = [node.name for node in quantizable_nodes(prepared)]
    made = quantize_model(prepared, [{"x": draw(*IMAGE)}], nodes[:1])
    readers = [
        n for n in made.graph.node if any(i.endswith("_DequantizeLinear_Output") for i in n.input)
    ]
    assert [node.name for node in readers] == nodes[:1]


def test_what_onnx_runtime_cannot_run_is_refused(
    prepared: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = [quantizable_nodes(prepared)[0].name]
    with pytest.raises(ModelError, match=r"cannot quantise the model .*Got: 2 Expected: 4"):
        quantize_model(prepared, [{"x": draw(1, 2)}], nodes)
    with pytest.raises(ModelError, match=r"cannot run the model .*Got: 2 Expected: 4"):
        float_outputs(prepared, [{"x": draw(1, 2)}])
    monkeypatch.setattr(quantize_file, "_LARGEST_WEIGHTS", 100)
    with pytest.raises(ModelError, match=r"the model's weights are .* at most 100 B"):
        quantize_model(prepared, [{"x": draw(*IMAGE)}], nodes)
    monkeypatch.setitem(sys.modules, "onnxruntime.quantization", None)
    with pytest.raises(UsageError, match=r"pip install 'tvm_hetero.onnxruntime.'"):
        quantize_model(prepared, [{"x": draw(*IMAGE)}], nodes)


def test_a_child_that_dies_takes_nothing_with_it(
    prepared: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def die(*_: object) -> bytes:
        (Path(tempfile.tempdir or "") / "left").write_bytes(b"1")
        os.abort()

    monkeypatch.setattr(quantize_file, "_quantized", die)
    with pytest.raises(ModelError, match=r"does not survive it .it crashed with SIGABRT"):
        quantize_model(prepared, [{"x": draw(*IMAGE)}], ["any"])
    assert not list(tmp_path.iterdir())


def test_a_signal_leaves_no_copies_of_weights(
    prepared: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Even where the thread that waits for the child does not get to tidy up."""

    def interrupt(*given: Any) -> bytes:
        (given[-1] / "weights").write_bytes(b"1")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        return b""

    def work() -> None:
        signals.make_watch().begin()
        thread = threading.Thread(target=quantize_model, args=(prepared, [], ["any"]), daemon=True)
        try:
            thread.start()
            thread.join()
        except signals.Interrupted:
            signals.the_watch().leave()  # type: ignore[union-attr]

    monkeypatch.setattr(quantize_file, "_in_child", lambda work, *_: work())
    monkeypatch.setattr(quantize_file, "_quantized", interrupt)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


def test_an_answer_that_is_no_array_is_an_error_of_ours(
    prepared: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize_file, "_outputs", lambda *_: [b"nothing"])
    with pytest.raises(ModelError, match="is no array of numbers"):
        float_outputs(prepared, [{"x": draw(*IMAGE)}])


def test_a_channel_of_the_least_numbers_has_a_scale() -> None:
    weights = draw(8, 3, 1, 1)
    weights[2] = np.float32(1e-44)
    model = make([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": IMAGE}, ["y"], {"w": weights})
    with np.errstate(all="raise", under="ignore"):
        codes = nodes_alone(model, list(model.graph.node)).codes
    scales = {t.name: onnx.numpy_helper.to_array(t) for t in codes.graph.initializer}
    assert (scales["t0"] > 0).all() and not scales["w0"][2].any() and scales["w0"][3].any()


@pytest.mark.parametrize(
    ("node", "weights", "taken"),
    [
        (helper.make_node("Conv", ["x", "w"], ["y"]), draw(8, 3, 1, 1), True),
        (helper.make_node("Conv", ["x", "w"], ["y"]), draw(8, 3, 1, 1) * np.float32(np.inf), False),
        (helper.make_node("Conv", ["x", "w"], ["y"], group=3), draw(3, 1, 1, 1), True),
        (helper.make_node("MatMul", ["x", "w"], ["y"]), draw(10, 4), True),
        (helper.make_node("MatMul", ["x", "w"], ["y"]), draw(3, 10, 4), False),
        (helper.make_node("MatMul", ["x", "x"], ["y"]), draw(10, 4), False),
        (helper.make_node("MatMul", ["w", "x"], ["y"]), draw(4, 10), False),
    ],
)
def test_what_kernels_for_bytes_take(
    node: onnx.NodeProto, weights: np.ndarray, taken: bool
) -> None:
    model = make([node], {"x": IMAGE}, ["y"], {"w": weights})
    assert [n.op_type for n in quantizable_nodes(model)] == [node.op_type] * taken
