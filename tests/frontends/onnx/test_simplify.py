"""Simplifying changes the graph and not what it computes: ONNX Runtime is the judge."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper

from tests.draws import draws
from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.frontends.onnx.models import make, random_feeds, run, value
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import (
    OnnxLimits,
    check_model,
    light_models,
    load_model,
    randomize_weights,
    simplify,
)

CHANNELS = 4


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def check_same(model: onnx.ModelProto, tolerance: float = 1e-5) -> onnx.ModelProto:
    """Assert that simplifying `model` keeps its interface and outputs; return the result."""
    before = model.SerializeToString(deterministic=True)
    simple = simplify(check_model(model))
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(simple)
    assert [o.name for o in simple.graph.output] == [o.name for o in model.graph.output]
    feeds = random_feeds(model)
    assert [i.name for i in simple.graph.input] == list(feeds)
    for expected, found in zip(run(model, feeds), run(simple, feeds), strict=True):
        assert expected.shape == found.shape
        scale = max(float(np.abs(expected).max()), 1.0)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)
    return simple


def batch_norm(source: str, target: str, seed: int = 0) -> tuple[NodeProto, dict[str, np.ndarray]]:
    """Return a BatchNormalization of 4 channels and its constants."""
    generator = np.random.default_rng(seed)
    names = [f"{target}_{part}" for part in ("scale", "bias", "mean", "var")]
    arrays = [generator.normal(size=CHANNELS).astype(np.float32) for _ in names[:3]]
    arrays.append(generator.uniform(0.5, 1.5, CHANNELS).astype(np.float32))
    node = helper.make_node("BatchNormalization", [source, *names], [target], name=target)
    return node, dict(zip(names, arrays, strict=True))


def weight(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


SHAPE = {"x": [2, CHANNELS, 6, 6]}


def test_batch_norm_behind_a_convolution_disappears() -> None:
    norm, constants = batch_norm("c", "y")
    conv = helper.make_node("Conv", ["x", "w"], ["c"], name="conv")
    simple = check_same(make([conv, norm], SHAPE, ["y"], {**constants, "w": weight(4, 4, 3, 3)}))
    assert operators(simple) == {"Conv": 1}


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_convolutions_too(groups: int) -> None:
    norm, constants = batch_norm("c", "y")
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"], group=groups)
    constants |= {"w": weight(4, 4 // groups, 3, 3), "b": weight(4)}
    assert operators(check_same(make([conv, norm], SHAPE, ["y"], constants))) == {"Conv": 1}


def test_a_shared_weight_is_folded_for_one_convolution_alone() -> None:
    norm, constants = batch_norm("c", "n")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Conv", ["x", "w"], ["d"]),
        norm,
        helper.make_node("Add", ["n", "d"], ["y"]),
    ]
    simple = check_same(make(nodes, SHAPE, ["y"], {**constants, "w": weight(4, 4, 3, 3)}))
    assert operators(simple) == {"Conv": 2, "Add": 1}


@pytest.mark.parametrize("outputs", [["y", "c"], ["y", "r"]])
def test_a_convolution_that_others_read_is_kept(outputs: list[str]) -> None:
    norm, constants = batch_norm("c", "y")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        norm,
        helper.make_node("Relu", ["c"], ["r"]),
    ]
    simple = check_same(make(nodes, SHAPE, outputs, {**constants, "w": weight(4, 4, 3, 3)}))
    assert operators(simple)["Mul"] == operators(simple)["Add"] == operators(simple)["Conv"] == 1
    assert operators(simple)["BatchNormalization"] == 0


def test_batch_norm_before_an_activation_becomes_mul_and_add() -> None:
    norm, constants = batch_norm("x", "n")
    simple = check_same(
        make([norm, helper.make_node("Relu", ["n"], ["y"])], SHAPE, ["y"], constants)
    )
    assert [node.op_type for node in simple.graph.node] == ["Mul", "Add", "Relu"]


def test_the_caffe_pair_of_norm_and_scale_is_one_map() -> None:
    """BatchNormalization, Unsqueeze(constant), Mul, Add: as densenet121 has it."""
    norm, constants = batch_norm("x", "n")
    nodes = [
        norm,
        helper.make_node("Unsqueeze", ["a", "axes"], ["a3"]),
        helper.make_node("Mul", ["n", "a3"], ["m"]),
        helper.make_node("Add", ["m", "a3"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    constants |= {"a": weight(4), "axes": np.array([1, 2])}
    simple = check_same(make(nodes, SHAPE, ["y"], constants))
    assert [node.op_type for node in simple.graph.node] == ["Mul", "Add", "Relu"]


def test_half_precision_data_keeps_its_type() -> None:
    norm, constants = batch_norm("h", "n")
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        norm,
        helper.make_node("Cast", ["n"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    half = {name: array.astype(np.float16) for name, array in constants.items()}
    simple = check_same(make(nodes, SHAPE, ["y"], half, opset=15), tolerance=5e-3)
    assert operators(simple) == {"Cast": 2, "Mul": 1, "Add": 1}


def test_what_would_not_be_finite_is_left_alone() -> None:
    norm, constants = batch_norm("c", "y")
    constants["y_var"][:] = -1.0
    conv = helper.make_node("Conv", ["x", "w"], ["c"])
    model = make([conv, norm], SHAPE, ["y"], {**constants, "w": weight(4, 4, 3, 3)})
    assert operators(simplify(check_model(model))) == {"Conv": 1, "BatchNormalization": 1}


def test_parameters_of_the_wrong_shape_are_left_for_tvm_to_refuse() -> None:
    """onnx's checker and inference let them pass."""
    norm, constants = batch_norm("c", "y")
    constants["y_scale"] = weight(4, 3)
    conv = helper.make_node("Conv", ["x", "w"], ["c"])
    model = make([conv, norm], SHAPE, ["y"], {**constants, "w": weight(4, 4, 3, 3)})
    assert operators(simplify(check_model(model))) == {"Conv": 1, "BatchNormalization": 1}


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_sum_becomes_additions(count: int) -> None:
    nodes = [helper.make_node("Relu", ["x"], [f"r{i}"]) for i in range(count)]
    total = helper.make_node("Sum", [f"r{i}" for i in range(count)], ["y"], name="total")
    simple = check_same(make([*nodes, total], SHAPE, ["y"]))
    assert operators(simple)["Add"] == count - 1
    assert operators(simple)["Sum"] == 0


def test_dropout_and_identity_disappear() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Dropout", ["a"], ["b", "mask"]),
        helper.make_node("Identity", ["b"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["d"]),
        helper.make_node("Dropout", ["d"], ["e"]),
        helper.make_node("Identity", ["e"], ["y"]),
    ]
    simple = check_same(make(nodes, SHAPE, ["y"]))
    assert [node.op_type for node in simple.graph.node] == ["Relu", "Sigmoid"]


def test_outputs_that_are_the_same_value_keep_their_names() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Identity", ["a"], ["y"]),
        helper.make_node("Identity", ["a"], ["z"]),
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
    ]
    simple = check_same(make(nodes, SHAPE, ["z", "y", "same", "s"]))
    assert operators(simple) == {"Relu": 1, "Sigmoid": 1, "Identity": 2}


def test_what_a_branch_reads_is_not_lost() -> None:
    """An alias, and a convolution before a norm, that are read by their names within an If."""
    norm, constants = batch_norm("c", "n")
    constants |= {"w": weight(CHANNELS, CHANNELS, 1, 1)}
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(kind, ["alias", "c"], [name])], name, [], [value(name, None)]
        )
        for name, kind in (("then", "Add"), ("else", "Sub"))
    }
    nodes = [
        helper.make_node("Identity", ["x"], ["alias"]),
        helper.make_node("Conv", ["alias", "w"], ["c"]),
        norm,
        helper.make_node("ReduceMax", ["n"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["hold"], to=onnx.TensorProto.BOOL),
        helper.make_node("If", ["hold"], ["y"], **branches),
    ]
    found = check_same(make(nodes, SHAPE, ["y"], constants))
    assert "Identity" not in operators(found) and operators(found)["Conv"] == 1


def test_training_is_refused() -> None:
    shape = {"x": [2, CHANNELS, 6, 6]}
    mask = make([helper.make_node("Dropout", ["x"], ["y", "mask"], name="drop")], shape, ["y"])
    mask.graph.node.append(helper.make_node("Not", ["mask"], ["n"]))
    mask.graph.output.append(helper.make_tensor_value_info("n", onnx.TensorProto.BOOL, shape["x"]))
    with pytest.raises(ModelError, match=r"node 0 'drop' \(Dropout\) hands its mask on"):
        simplify(check_model(mask))
    constants = {"ratio": np.array(0.5, np.float32), "train": np.array(True)}
    drop = helper.make_node("Dropout", ["x", "ratio", "train"], ["y"])
    with pytest.raises(ModelError, match="training mode"):
        simplify(check_model(make([drop], shape, ["y"], constants)))
    norm, parameters = batch_norm("x", "y")
    norm.output.extend(["running_mean", "running_var"])
    norm.attribute.append(helper.make_attribute("training_mode", 1))
    with pytest.raises(ModelError, match="training mode"):
        simplify(check_model(make([norm], shape, ["y"], parameters, opset=15)))


def test_shape_arithmetic_is_folded() -> None:
    """What exporters write for ``x.reshape(x.shape[0], -1)``, twice in a row."""
    nodes = []
    source = "x"
    for step in ("p", "q"):
        nodes += [
            helper.make_node("Shape", [source], [f"{step}s"]),
            helper.make_node("Gather", [f"{step}s", "zero"], [f"{step}n"]),
            helper.make_node("Unsqueeze", [f"{step}n", "axes"], [f"{step}u"]),
            helper.make_node("Concat", [f"{step}u", "minus"], [f"{step}t"], axis=0),
            helper.make_node("Reshape", [source, f"{step}t"], [f"{step}y"]),
            helper.make_node("Relu", [f"{step}y"], [f"{step}r"]),
        ]
        source = f"{step}r"
    constants = {"zero": np.array(0), "axes": np.array([0]), "minus": np.array([-1])}
    simple = check_same(make(nodes, SHAPE, [source], constants))
    assert operators(simple) == {"Reshape": 2, "Relu": 2}


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 2.0)])
def test_gemm_is_made_plain(transposed: int, alpha: float, beta: float) -> None:
    node = helper.make_node(
        "Gemm", ["x", "w", "b"], ["y"], transB=transposed, alpha=alpha, beta=beta
    )
    constants = {"w": weight(5, 7) if transposed else weight(7, 5), "b": weight(5)}
    simple = check_same(make([node], {"x": [3, 7]}, ["y"], constants))
    left = {a.name: helper.get_attribute_value(a) for a in simple.graph.node[0].attribute}
    assert left.get("alpha", 1.0) == left.get("beta", 1.0) == 1.0
    assert left.get("transB", 0) == 0


def test_what_is_made_of_weights_alone_is_folded() -> None:
    """A DeBERTa's: positions that are normed and projected without a look at the input."""
    nodes = [
        helper.make_node("LayerNormalization", ["table", "scale", "shift"], ["normed"]),
        helper.make_node("MatMul", ["normed", "w"], ["projected"]),
        helper.make_node("Gemm", ["projected", "w", "b"], ["keys"], transB=1),
        helper.make_node("MatMul", ["x", "keys"], ["y"]),
    ]
    constants = {
        "table": weight(9, 8), "scale": weight(8), "shift": weight(8), "w": weight(8, 8),
        "b": weight(8),
    }  # fmt: skip
    simple = check_same(make(nodes, {"x": [3, 9]}, ["y"], constants, opset=17))
    assert operators(simple) == {"MatMul": 1}


def test_a_product_that_takes_long_is_not_folded() -> None:
    nodes = [
        helper.make_node("Expand", ["one", "dims"], ["big"]),
        helper.make_node("MatMul", ["big", "big"], ["square"]),
        helper.make_node("Add", ["x", "square"], ["y"]),
    ]
    constants = {"one": np.ones((1, 1), np.float32), "dims": np.array([2048, 2048])}
    simple = simplify(check_model(make(nodes, {"x": [1]}, ["y"], constants)))
    assert operators(simple)["MatMul"] == 1


def test_a_huge_expansion_is_not_folded() -> None:
    nodes = [
        helper.make_node("Expand", ["one", "dims"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    constants = {"one": np.ones(1, np.float32), "dims": np.array([2**20, 2**20])}
    simple = simplify(check_model(make(nodes, {"x": [1]}, ["y"], constants)))
    assert operators(simple)["Expand"] == 1


def test_folding_is_capped() -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["dims"], ["c"]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    model = check_model(make(nodes, {"x": [1]}, ["y"], {"dims": np.array([100])}))
    with pytest.raises(ModelError, match="at most 300 are accepted"):
        simplify(model, limits=OnnxLimits(weight_bytes=300))


# ---- any small network ----------------------------------------------------------------------


# Scalars, one value a channel, and shapes that are no map per channel.
OPERANDS = [(1,), (4, 1, 1), (1, 4, 1, 1), (6, 6), (6,), (2, 4, 1, 1)]


@st.composite
def networks(draw: st.DrawFn) -> onnx.ModelProto:
    """Return a network over values of one shape, of the operators that are rewritten."""
    nodes: list[NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    values = ["x"]
    for index in range(draw(st.integers(1, 9))):
        target = f"v{index}"
        source = draw(st.sampled_from(values[-3:]))
        operator = draw(
            st.sampled_from(
                ["Conv", "BatchNormalization", "Sum", "Dropout", "Identity", "Relu",
                 "Mul", "Add", "Sub", "Div"]
            )
        )  # fmt: skip
        if operator == "Conv":
            groups = draw(st.sampled_from([1, 2]))
            operands = [source, f"{target}w", f"{target}b"][: draw(st.integers(2, 3))]
            constants[f"{target}w"] = weight(4, 4 // groups, 3, 3, seed=index) / 4
            constants[f"{target}b"] = weight(4, seed=index)
            node = helper.make_node(
                "Conv", operands, [target], pads=[1, 1, 1, 1], group=groups, name=target
            )
        elif operator == "BatchNormalization":
            node, parameters = batch_norm(source, target, seed=index)
            constants |= parameters
        elif operator == "Sum":
            operands = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
            node = helper.make_node("Sum", operands, [target], name=target)
        elif operator in ("Mul", "Add", "Sub", "Div"):
            shape = draw(st.sampled_from(OPERANDS))
            constants[f"{target}c"] = weight(*shape, seed=index) + np.float32(3)
            operands = [source, f"{target}c"]
            flipped = operator != "Div" and draw(st.booleans())
            node = helper.make_node(operator, operands[:: -1 if flipped else 1], [target])
        else:
            node = helper.make_node(operator, [source], [target], name=target)
        nodes.append(node)
        values.append(target)
    extra = draw(st.lists(st.sampled_from(values[1:]), max_size=2))
    outputs = list(dict.fromkeys([values[-1], *extra]))
    return make(nodes, SHAPE, outputs, constants)


@settings(max_examples=draws(60), deadline=None)
@given(networks())
def test_any_small_network_computes_the_same(model: onnx.ModelProto) -> None:
    simple = check_same(model, tolerance=1e-4)
    left = operators(simple)
    assert left["BatchNormalization"] == left["Sum"] == left["Dropout"] == 0
    names = [node.name for node in simple.graph.node if node.name]
    assert len(names) == len(set(names))


# ---- the light models -----------------------------------------------------------------------

EXPECTED_NODES = {
    "bvlc_alexnet": 22,
    "densenet121": 429,
    "inception_v1": 142,
    "inception_v2": 164,
    "resnet50": 123,
    "shufflenet": 154,
    "squeezenet": 65,
    "zfnet512": 22,
}


@pytest.mark.parametrize("name", EXPECTED_NODES)
def test_light_models_lose_what_only_training_needs(name: str) -> None:
    simple = simplify(load_model(light_models()[name]))
    assert len(simple.graph.node) == EXPECTED_NODES[name]
    gone = {"BatchNormalization", "Sum", "Dropout", "ConstantOfShape", "Unsqueeze", "Identity"}
    assert not gone & set(operators(simple))


@pytest.mark.parametrize("name", sorted(set(EXPECTED_NODES) - {"bvlc_alexnet", "zfnet512"}))
def test_light_models_compute_the_same(name: str) -> None:
    """In those left out, and in vgg19, only Gemm changes; their weights take seconds each."""
    model = randomize_weights(load_model(light_models()[name]), seed=1)
    feeds = random_feeds(model)
    [expected], [found] = run(model, feeds), run(simplify(model), feeds)
    assert expected.std() > 0
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * expected.std())
