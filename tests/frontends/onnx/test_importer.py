"""From an ONNX file to a Relax module: interface, names, same values, nothing left to fold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax

from tests.frontends.onnx.models import conv_relu, make, random_feeds, run
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx, light_models, randomize_weights, simplify
from tvm_hetero.frontends.onnx.model.static_types import static_shape
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import read_main

INTERFACES = {
    "bvlc_alexnet": ("data_0", "prob_1", (1, 1000)),
    "densenet121": ("data_0", "fc6_1", (1, 1000, 1, 1)),
    "inception_v1": ("data_0", "prob_1", (1, 1000)),
    "inception_v2": ("data_0", "prob_1", (1, 1000)),
    "resnet50": ("gpu_0/data_0", "gpu_0/softmax_1", (1, 1000)),
    "shufflenet": ("gpu_0/data_0", "gpu_0/softmax_1", (1, 1000)),
    "squeezenet": ("data_0", "softmaxout_1", (1, 1000, 1, 1)),
    "vgg19": ("data_0", "prob_1", (1, 1000)),
    "zfnet512": ("gpu_0/data_0", "gpu_0/softmax_1", (1, 1000)),
}


def bindings(module: tvm.ir.IRModule) -> list[relax.Binding]:
    return [b for block in module["main"].body.blocks for b in block.bindings]


def names(module: tvm.ir.IRModule, attribute: str) -> list[str]:
    return [str(name) for name in module["main"].attrs[attribute]]


@pytest.mark.parametrize("name", INTERFACES)
def test_light_models(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    source, target, shape = INTERFACES[name]
    module = from_onnx(light_models()[name], random_weights=0)
    assert names(module, "hetero_input_names") == [source]
    assert names(module, "hetero_output_names") == [target]
    assert str(module["main"].attrs["hetero_model_name"]) == f"light_{name}"
    [parameter] = module["main"].params
    assert parameter.name == source.replace("/", "_")
    assert static_shape(parameter.ty) == (1, 3, 224, 224)
    assert static_shape(module["main"].ret_ty) == shape
    assert capfd.readouterr().out == ""
    # Lowered, nothing is left that is computed from constants alone.
    lower: tvm.transform.Pass = LowerToTasks()
    main = read_main(lower(module))
    assert [call.kernel.name_hint for call in main.calls if not main.reads(call)] == []


def test_an_input_may_be_called_as_weights_are_on_their_way_from_the_child() -> None:
    generator = np.random.default_rng(0)
    weights = {name: generator.random((64, 64), dtype=np.float32) for name in ("a", "b")}
    nodes = [
        helper.make_node("MatMul", ["weight0", "a"], ["h"]),
        helper.make_node("MatMul", ["h", "b"], ["y"]),
    ]
    module = from_onnx(make(nodes, {"weight0": (2, 64)}, ["y"], weights))
    assert names(module, "hetero_input_names") == ["weight0"]
    assert [parameter.name for parameter in module["main"].params] == ["weight0"]


def test_names_survive_lowering() -> None:
    lower: tvm.transform.Pass = LowerToTasks()
    module = lower(from_onnx(light_models()["shufflenet"]))
    assert names(module, "hetero_input_names") == ["gpu_0/data_0"]
    assert names(module, "hetero_output_names") == ["gpu_0/softmax_1"]
    assert str(module["main"].attrs["hetero_model_name"]) == "light_shufflenet"


def little_network() -> onnx.ModelProto:
    """Return a network with an operator of each kind that is rewritten, and two inputs."""
    generator = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return generator.normal(size=shape).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["in/0", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "t", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Sum", ["r", "in.0", "n"], ["u"]),
        helper.make_node("BatchNormalization", ["u", "s", "t", "m", "v"], ["n2"]),
        helper.make_node("Relu", ["n2"], ["r2"]),
        helper.make_node("Dropout", ["r2"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "g", "h"], ["logits"], transB=1, alpha=0.5, beta=2.0),
        helper.make_node("Softmax", ["logits"], ["out/prob"], axis=1),
    ]
    constants = {
        "w": weight(4, 3, 3, 3), "b": weight(4), "s": weight(4), "t": weight(4),
        "m": weight(4), "v": np.abs(weight(4)) + 0.5, "g": weight(10, 4), "h": weight(10),
    }  # fmt: skip
    inputs = {"in/0": [1, 3, 8, 8], "in.0": [1, 4, 8, 8]}
    return make(nodes, inputs, ["out/prob", "logits"], constants)


def test_the_module_computes_what_the_model_does() -> None:
    model = little_network()
    module = from_onnx(model)
    assert names(module, "hetero_input_names") == ["in/0", "in.0"]
    assert names(module, "hetero_output_names") == ["out/prob", "logits"]
    assert [p.name for p in module["main"].params] == ["in_0", "in_0_1"]
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    feeds = random_feeds(model)
    found = machine["main"](*[tvm.runtime.tensor(array) for array in feeds.values()])
    for expected, output in zip(run(model, feeds), found, strict=True):
        np.testing.assert_allclose(output.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_the_weights_are_those_of_randomize_weights() -> None:
    model = little_network()
    expected = simplify(randomize_weights(model, 5))
    module = from_onnx(model, random_weights=5)
    folded = next(b.value for b in bindings(module) if b.value.op.name == "relax.nn.conv2d")
    array = onnx.numpy_helper.to_array(
        next(t for t in expected.graph.initializer if t.name == expected.graph.node[0].input[1])
    )
    assert np.array_equal(folded.args[1].value.numpy(), array)


def test_a_path_names_the_model(tmp_path: Path) -> None:
    path = tmp_path / "my net (v2).onnx"
    path.write_bytes(conv_relu("batch").SerializeToString())
    module = from_onnx(path, shapes={"x": (2, 3, 8, 8)})
    assert str(module["main"].attrs["hetero_model_name"]) == "my_net_v2_"
    assert static_shape(module["main"].ret_ty) == (2, 4, 8, 8)


def test_what_tvm_refuses_is_a_model_error(capfd: pytest.CaptureFixture[str]) -> None:
    model = conv_relu()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5  # the weights have 3
    with pytest.raises(
        ModelError,
        match=r"node 0 'first' \(Conv\) of opset 13 is not taken .* operands float32 1x5x8x8, ",
    ) as caught:
        from_onnx(model)
    assert str(caught.value).isprintable()
    assert capfd.readouterr().out == ""


def test_shapes_that_depend_on_data_are_refused() -> None:
    nodes = [
        helper.make_node("Range", ["zero", "x", "one"], ["n"], name="count"),
        helper.make_node("Neg", ["n"], ["y"]),
    ]
    constants = {"zero": np.float32(0), "one": np.float32(1)}
    with pytest.raises(
        ModelError, match=r"'count' \(Range\) makes 'n' in a shape that is known only"
    ):
        from_onnx(make(nodes, {"x": []}, ["y"], {k: np.array(v) for k, v in constants.items()}))


def test_a_single_identity_is_a_model_too() -> None:
    module = from_onnx(make([helper.make_node("Identity", ["x"], ["y"])], {"x": [3]}, ["y"]))
    assert static_shape(module["main"].ret_ty) == (3,)
    assert names(module, "hetero_output_names") == ["y"]
