"""One operator with drawn attributes, types and shapes: what onnx's recipes for it may be.

A *form* is a node alone: its operands, handed over or constant, its attributes, its opset. Forms
are drawn rather wide (axes from either end, ranks from 0, dimensions of 0, every element type of
the schema), and `operators_alone` throws away those that onnx's own checker and both references
refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
OPSETS = (7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26)
FLOATS = ("float32", "float32", "float32", "float16", "float64")
INTEGERS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
_SHARE_OF_EXTREMES, _SHARE_OF_ZERO_DIMS = 0.15, 0.06


@dataclass(frozen=True)
class Form:
    """A node alone; operands that are None are omitted, those of `fixed` are constants."""

    operator: str
    operands: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    fixed: frozenset[int] = frozenset()
    outputs: int = 1

    def model(self, opset: int) -> ModelProto:
        """A model of it, with the types of its outputs as onnx infers them."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.operands)]
        ends = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.operator, names, ends, **self.attributes)
        inputs = [
            _typed(f"x{i}", x)
            for i, x in enumerate(self.operands)
            if x is not None and i not in self.fixed
        ]
        constants = [
            numpy_helper.from_array(x, f"x{i}")
            for i, x in enumerate(self.operands)
            if x is not None and i in self.fixed
        ]
        graph = helper.make_graph([node], "form", inputs, [], constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
        )
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        types = {
            v.name: v for v in inferred.graph.value_info if v.type.tensor_type.HasField("shape")
        }
        if set(ends) - set(types):
            # Functions that onnx does not infer, and shapes that operands decide.
            model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ends)
            made = ReferenceEvaluator(model).run(None, self.feeds())
            for name, y in zip(ends, made, strict=True):
                types[name] = _typed(name, np.asarray(y))
            del model.graph.output[:]
        model.graph.output.extend(types[name] for name in ends)
        onnx.checker.check_model(model)
        return model

    def feeds(self) -> dict[str, Array]:
        """Arrays for the inputs."""
        return {
            f"x{i}": x for i, x in enumerate(self.operands) if x is not None and i not in self.fixed
        }

    def __str__(self) -> str:
        operands = ", ".join(
            "-"
            if x is None
            else f"{x.dtype}{list(x.shape)}"
            + (f"={x.ravel()[:8].tolist()}" if i in self.fixed else "")
            for i, x in enumerate(self.operands)
        )
        return f"{self.operator}({operands}) {dict(self.attributes)}"


def _typed(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


class FormDraw:
    """Draws what forms are made of."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = max(OPSETS)
        self.extremes = self.flag(_SHARE_OF_EXTREMES)
        # What the largest of NaN and others is, or where, every implementation decides for itself.
        self.nan = False
        self.zeros = self.flag(_SHARE_OF_ZERO_DIMS)

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def flag(self, share: float = 0.5) -> bool:
        """True in so many of all cases."""
        return bool(self.rng.random() < share)

    def choose(self, among: Sequence[Any]) -> Any:
        """One of these."""
        return among[int(self.rng.integers(len(among)))]

    def dims(self, low: int = 0, high: int = 4, most: int = 5) -> tuple[int, ...]:
        """A shape of a rank from `low` to `high`."""
        least = 0 if self.zeros else 1
        return tuple(self.integer(least, most) for _ in range(self.integer(low, high)))

    def broadcast(self, dims: Sequence[int]) -> tuple[int, ...]:
        """A shape that is broadcast to this one."""
        start = self.integer(0, len(dims)) if self.flag() else 0
        return tuple(1 if self.flag(0.25) else n for n in dims[start:])

    def float_type(self) -> str:
        """A type of floats."""
        return str(self.choose(FLOATS))

    def number_type(self) -> str:
        """A type of numbers."""
        return str(self.choose((*FLOATS, *INTEGERS)))

    def any_type(self) -> str:
        """A type of numbers, or bool."""
        return str(self.choose((*FLOATS, *INTEGERS, "bool")))

    def array(self, dtype: str, dims: Sequence[int], high: int = 9) -> Array:
        """Small multiples of a quarter, small integers; sometimes a type's ends among them."""
        kind = np.dtype(dtype)
        if kind == np.bool_:
            return np.asarray(self.rng.integers(0, 2, dims), bool)
        low = 0 if kind.kind == "u" else -high
        if kind.kind == "f":
            made = np.asarray(self.rng.integers(low, high + 1, dims) / 4, kind)
            limits = np.finfo(kind)
            ends = [np.inf, -np.inf, -0.0, float(limits.max), float(limits.tiny)]
            ends += [np.nan] if self.nan else []
        else:
            made = np.asarray(self.rng.integers(low, high + 1, dims), kind)
            ends = [np.iinfo(kind).max, np.iinfo(kind).min]
        if self.extremes and made.size:
            places = self.rng.random(made.shape) < 0.2
            made[places] = np.array(self.rng.choice(np.array(ends, kind), int(places.sum())))
        return made

    def axis(self, rank: int) -> int:
        """One axis, maybe counted from the end."""
        return self.integer(-rank, max(rank - 1, -rank))

    def axes(self, rank: int, least: int = 1) -> list[int]:
        """Some axes in any order, maybe counted from the end."""
        count = self.integer(min(least, rank), rank)
        found = self.rng.permutation(rank)[:count].tolist()
        return [a - rank if self.flag(0.4) else a for a in found]

    def some(self, **attributes: Any) -> dict[str, Any]:
        """Each of these attributes in two of three cases; those that are None never."""
        return {k: v for k, v in attributes.items() if v is not None and self.flag(0.66)}

    def fix(self, *places: int, share: float = 0.85) -> frozenset[int]:
        """These operands as constants, or (rarely) handed over."""
        return frozenset(places) if self.flag(share) else frozenset()


FormRecipe = Callable[[FormDraw, str], Form]
FORMS: dict[str, FormRecipe] = {}


def form(*operators: str) -> Callable[[FormRecipe], FormRecipe]:
    """Register a recipe for the forms of these operators."""

    def register(recipe: FormRecipe) -> FormRecipe:
        FORMS.update(dict.fromkeys(operators, recipe))
        return recipe

    return register


def longs(values: Any) -> Array:
    """As operands that decide shapes are."""
    return np.asarray(values, np.int64)


def _known(operator: str, opset: int) -> bool:
    try:
        return not onnx.defs.get_schema(operator, opset, "").deprecated
    except onnx.defs.SchemaError:
        return False


def draw_form(seed: int, only: Sequence[str] = ()) -> tuple[Form, int]:
    """The form of a seed, and its opset."""
    draw = FormDraw(seed)
    operator = str(draw.choose(sorted(only or FORMS)))
    draw.opset = int(draw.choose([n for n in OPSETS if _known(operator, n)]))
    return FORMS[operator](draw, operator), draw.opset
