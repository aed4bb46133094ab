"""Random weights: the same for a seed, in their ranges, and with outputs that say something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.frontends.onnx.models import conv_relu, make, random_feeds, run
from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights
from tvm_hetero.frontends.onnx.activation_moments import Moments, rectify

SMALL = ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
Light = Callable[[str], onnx.ModelProto]


@pytest.fixture(scope="module")
def light() -> Iterator[Light]:
    """A light model with random weights by its name, made once; it is not to be changed."""
    made = cache(lambda name: randomize_weights(load_model(light_models()[name]), seed=0))
    yield made
    made.cache_clear()


@pytest.mark.parametrize("name", SMALL)
def test_outputs_are_finite_and_softmax_does_not_saturate(name: str, light: Light) -> None:
    model = light(name)
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output.append(onnx.ValueInfoProto(name=last.input[0]))
    try:
        outputs = run(model, random_feeds(model))
    finally:
        del model.graph.output[1:]
    assert all(np.isfinite(output).all() for output in outputs)
    assert 0.1 < outputs[-1].std() < 5  # the logits
    if last.op_type == "Softmax":
        assert outputs[0].max() < 0.3


@pytest.mark.parametrize("name", ["squeezenet", "resnet50"])
def test_the_output_depends_on_the_input(name: str, light: Light) -> None:
    model = light(name)
    [first], [second] = (run(model, random_feeds(model, seed)) for seed in (1, 2))
    assert np.abs(first - second).max() > 0.01 * first.max()


def test_the_same_seed_gives_the_same_bytes() -> None:
    model = load_model(light_models()["squeezenet"])
    before = model.SerializeToString(deterministic=True)
    first, again, other = (
        randomize_weights(model, seed).SerializeToString(deterministic=True) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    assert model.SerializeToString(deterministic=True) == before


def test_ranges_of_batch_normalization(light: Light) -> None:
    model = light("resnet50")
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert len(norms) == 53
    for node in norms:
        for name in (node.input[1], node.input[4]):
            assert arrays[name].min() > 0.5
            assert arrays[name].max() < 1.5
            assert arrays[name].std() > 0.1


def test_no_floating_weight_keeps_its_constant_value(light: Light) -> None:
    for name in SMALL:
        for tensor in light(name).graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float32 and array.size > 1:
                assert array.std() > 0, tensor.name


def test_scalars_and_bounds_stay() -> None:
    nodes = [
        helper.make_node("Add", ["x", "epsilon"], ["a"]),
        helper.make_node("Clip", ["a", "low", "high"], ["y"]),
    ]
    constants = {
        "epsilon": np.array([1e-3], np.float32),
        "low": np.array(0.0, np.float32),
        "high": np.array(6.0, np.float32),
    }
    model = randomize_weights(make(nodes, {"x": [4]}, ["y"], constants), seed=0)
    for tensor in model.graph.initializer:
        assert np.array_equal(numpy_helper.to_array(tensor), constants[tensor.name])


def test_types_are_kept() -> None:
    model = conv_relu()
    for tensor in model.graph.initializer:
        half = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    random = randomize_weights(model, seed=0)
    kinds = {t.name: t.data_type for t in random.graph.initializer}
    assert kinds == dict.fromkeys(["w", "b"], onnx.TensorProto.FLOAT16)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="seed of random weights is -1"):
        randomize_weights(conv_relu(), seed=-1)


@pytest.mark.parametrize("mean", [-1.0, 0.0, 2.0])
def test_the_rectified_normal(mean: float) -> None:
    sample = np.maximum(np.random.default_rng(0).normal(mean, 1.5, 200_000), 0)
    found = rectify(Moments(mean, 1.5**2))
    assert found.mean == pytest.approx(sample.mean(), abs=0.02)
    assert found.variance == pytest.approx(sample.var(), rel=0.02)
