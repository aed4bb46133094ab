"""Constants of a model keep their type: results have ONNX Runtime's values and its types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
import pytest
import tvm
from onnx import NodeProto, helper, numpy_helper
from tvm import relax

from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import assert_same, evaluate, typed_model
from tvm_hetero.frontends.onnx import from_onnx

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
ROW = np.arange(14, dtype=np.float32).reshape(2, 7)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node(operator: str, *operands: str, **attributes: object) -> NodeProto:
    return helper.make_node(operator, operands, ["y"], **attributes)


def model_of(
    nodes: Sequence[NodeProto],
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    kind: type,
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model of these nodes that makes ``y``, of elements of `kind`."""

    def value(name: str, dtype: object, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, number, shape)

    graph = helper.make_graph(
        list(nodes),
        "constants",
        [value(name, array.dtype, array.shape) for name, array in feeds.items()],
        [value("y", kind, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def computed(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the one output of the imported model, by TVM's virtual machine."""
    machine = relax.VirtualMachine(tvm.compile(from_onnx(model), target="llvm"), tvm.cpu())
    found = machine["main"](*[tvm.runtime.tensor(array) for array in feeds.values()])
    return np.asarray(found.numpy())


def same_as_onnx_runtime(
    nodes: Sequence[NodeProto],
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
) -> None:
    # ONNX Runtime says of what type the result is: it takes no wrong declaration.
    kinds = (np.int64, np.float32, np.float64, np.int32, np.bool_)
    for kind in kinds:
        model = model_of(nodes, feeds, constants, kind)
        try:
            [expected] = run(model, feeds)
        except Exception:
            continue
        found = computed(model, feeds)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)
        return
    raise AssertionError("ONNX Runtime takes the model with none of these types")


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(1, LARGEST, 1), (-10, LARGEST, 1), (0, LARGEST, 2), (1, 2**32 + 2, 1), (-1, SMALLEST, -1)],
)
def test_slices_reach_to_the_end_that_their_bound_says(start: int, end: int, step: int) -> None:
    constants = {"s": ints(start), "e": ints(end), "a": ints(1), "t": ints(step)}
    same_as_onnx_runtime([node("Slice", "x", "s", "e", "a", "t")], {"x": ROW}, constants)


@pytest.mark.parametrize(
    "table", [ints(5, 2**40 + 1, -(2**35), 7), np.array([0.1, 1e300, -1e-300])]
)
def test_what_is_looked_up_is_what_the_table_holds(table: np.ndarray) -> None:
    same_as_onnx_runtime([node("Gather", "t", "x")], {"x": ints(1, 2, 0)}, {"t": table})


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("constant", [ints(2), np.array([0.1])])
def test_arithmetic_with_a_constant_of_eight_bytes(operator: str, constant: np.ndarray) -> None:
    feeds = {"x": np.array([-7, 3, 2**40], constant.dtype)}
    same_as_onnx_runtime([node(operator, "x", "c")], feeds, {"c": constant})


def test_a_choice_between_a_value_and_a_constant() -> None:
    feeds = {"b": np.array([True, False]), "x": ints(3, 4)}
    same_as_onnx_runtime([node("Where", "b", "x", "c")], feeds, {"c": ints(2**40)})


def test_a_choice_between_two_constants_cast_to_float() -> None:
    nodes = [
        helper.make_node("Where", ["b", "c", "d"], ["w"]),
        node("Cast", "w", to=onnx.TensorProto.FLOAT),
    ]
    feeds, constants = {"b": np.array([True, False])}, {"c": ints(2**40), "d": ints(7)}
    same_as_onnx_runtime(nodes, feeds, constants)


def test_elements_and_updates_at_constant_places() -> None:
    places = np.array([[0, 1], [1, 2]], np.int64)
    same_as_onnx_runtime([node("GatherND", "x", "c")], {"x": ROW}, {"c": places})
    feeds = {"x": ROW, "u": np.full(2, 9, np.float32)}
    same_as_onnx_runtime([node("ScatterND", "x", "c", "u")], feeds, {"c": places})


def test_a_model_of_doubles() -> None:
    weight = np.random.default_rng(0).standard_normal((3, 4))
    model = model_of([node("MatMul", "x", "w")], {"x": np.eye(3)}, {"w": weight}, np.float64)
    np.testing.assert_array_equal(computed(model, {"x": np.eye(3)}), weight)


def test_positions_that_a_comparison_makes() -> None:
    nodes = [
        helper.make_node("ArgMax", ["x"], ["m"], axis=1, keepdims=0),
        node("Mul", "m", "c"),
    ]
    same_as_onnx_runtime(nodes, {"x": ROW}, {"c": ints(10)})


@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_integers_are_divided_alike_in_constants_and_in_the_network(operator: str) -> None:
    # Both towards zero (Div), or with the divisor's sign (Mod), as ONNX Runtime has it.
    numbers, divisors = ints(-7, 7, -7, 7), ints(2, -2, -2, 2)
    same_as_onnx_runtime([node(operator, "x", "d")], {"x": numbers}, {"d": divisors})
    folded = [helper.make_node(operator, ["n", "d"], ["q"]), node("Add", "x", "q")]
    same_as_onnx_runtime(folded, {"x": ints(0)}, {"n": numbers, "d": divisors})


KINDS: list[type] = [
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
    np.float16, np.float32, np.float64, ml_dtypes.bfloat16,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)], ids=str)
def test_every_type_and_shape_stays(kind: type, shape: tuple[int, ...]) -> None:
    held = np.ones(shape, kind)
    nodes = [helper.make_node("Identity", ["c"], ["y"])]
    feeds = {"x": np.ones(1, np.float32)}
    module = from_onnx(model_of(nodes, feeds, {"c": held}, kind))
    type_ = module["main"].ret_ty
    assert str(type_.dtype) == np.dtype(kind).name
    assert tuple(int(d) for d in type_.shape) == shape


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_weights_of_float64_stay_so_however_a_convolution_is_taken_apart(
    operator: str, rank: int
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, (1, 2, *(5,) * rank)) / 4
    weight = rng.integers(-8, 9, (2, 2, *(2,) * rank)) / 4
    one = helper.make_node(operator, ["x", "w"], ["y"], strides=[2] * rank)
    model = typed_model([one], {"x": x}, {"w": weight})
    assert_same(model, {"x": x}, evaluate(model, {"x": x}), rtol=1e-12)
