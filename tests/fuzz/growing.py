"""A random ONNX model that grows node by node, with the type of each value known.

A value is *exact* if both sides compute the same bits of it: inputs (multiples of a quarter), what
is only moved, and whole numbers.  Operators that jump (``Floor``, comparisons, ``ArgMax``) read
exact values alone, so that no rounding of theirs or ours becomes a difference.

A *wild* model takes indices from computed values too, whatever they are.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tvm_hetero.frontends.onnx.settled_windows import settle_windows

FLOAT, INT64, INT32, BOOL = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL,
)  # fmt: skip
MOST_ELEMENTS = 4096


@dataclass(frozen=True)
class FuzzValue:
    """A value of the model: its name, ONNX element type, shape, and whether it is exact."""

    name: str
    kind: int
    dims: tuple[int, ...]
    exact: bool

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)


class GrowingModel:
    """A model under construction; see the module."""

    def __init__(self, seed: int, opset: int, *, wild: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.wild = wild
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.inputs: list[FuzzValue] = []
        self.values: list[FuzzValue] = []
        self.unread: list[FuzzValue] = []

    # ------------------------------------------------------------------ what recipes use

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> int:
        """0 or 1."""
        return self.integer(0, 1)

    def choose(self, options: Any) -> Any:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]

    def pick(
        self,
        kind: int | tuple[int, ...] = FLOAT,
        ranks: tuple[int, int] = (0, 5),
        exact: bool = False,
    ) -> FuzzValue | None:
        """A value of such a type and rank, the later ones more often; None if there is none."""
        kinds = (kind,) if isinstance(kind, int) else kind
        fits = [
            v
            for v in self.values
            if v.kind in kinds and ranks[0] <= v.rank <= ranks[1] and (v.exact or not exact)
        ]
        if not fits:
            return None
        return fits[-1 - min(int(self.rng.geometric(0.4)) - 1, len(fits) - 1)]

    def constant(self, array: Any, dtype: Any = None) -> str:
        """A constant; returns its name."""
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def weight(self, *dims: int) -> str:
        """A constant of small random numbers."""
        scale = 1 / np.sqrt(max(1, int(np.prod(dims[1:]))))
        return self.constant((self.rng.standard_normal(dims) * scale).astype(np.float32))

    def axes(self, rank: int) -> list[int]:
        """Some axes, in order, maybe counted from the end."""
        count = self.integer(1, max(rank, 1))
        found = sorted(self.rng.permutation(rank)[:count].tolist())
        return [a - rank if self.flag() else a for a in found]

    def axis(self, rank: int) -> int:
        """One axis, maybe counted from the end."""
        return self.integer(-rank, rank - 1)

    def add(
        self,
        operator: str,
        inputs: list[str],
        outputs: int = 1,
        exact: bool = False,
        last: bool = False,
        **attributes: Any,
    ) -> bool:
        """Add a node if onnx finds that it fits and is not too large; returns whether it was.

        What a `last` node makes is read by no other: it is rounded too coarsely for that.
        """
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(operator, inputs, names, **attributes)
        made = self._types([*self.nodes, node], names)
        if made is None:
            return False
        self.nodes.append(node)
        found = [FuzzValue(name, *made[name], exact) for name in names]
        (self.unread if last else self.values).extend(found)
        return True

    def add_input(self, kind: int, dims: tuple[int, ...]) -> None:
        """Add an input of the model."""
        found = FuzzValue(f"x{len(self.inputs)}", kind, dims, True)
        self.inputs.append(found)
        self.values.append(found)

    # ------------------------------------------------------------------ what is made of it

    def model(self) -> ModelProto:
        """The model, with every value that no one reads as an output."""
        read = {name for node in self.nodes for name in node.input}
        made = [v for v in self.values if v not in self.inputs] + self.unread
        ends = [v for v in made if v.name not in read]
        return self._model(self.nodes, [(v.name, v.kind, v.dims) for v in ends])

    def feeds(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays for the inputs."""
        return {v.name: self._data(v) for v in self.inputs}

    def _data(self, value: FuzzValue) -> np.ndarray[Any, Any]:
        if value.kind == FLOAT:
            return (self.rng.integers(-8, 9, value.dims) / 4).astype(np.float32)
        if value.kind == BOOL:
            return self.rng.integers(0, 2, value.dims).astype(bool)
        dtype = helper.tensor_dtype_to_np_dtype(value.kind)
        return self.rng.integers(-5, 6, value.dims).astype(dtype)

    def _types(
        self, nodes: list[NodeProto], names: list[str]
    ) -> dict[str, tuple[int, tuple[int, ...]]] | None:
        model = self._model(nodes, [])
        # onnx counts windows that are none; ONNX Runtime is who says whether that is right.
        settle_windows(model)
        try:
            found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception:
            return None
        known: dict[str, tuple[int, tuple[int, ...]]] = {}
        for value in found.graph.value_info:
            dims = value.type.tensor_type.shape.dim
            if value.name in names and all(d.HasField("dim_value") for d in dims):
                shape = tuple(d.dim_value for d in dims)
                known[value.name] = (value.type.tensor_type.elem_type, shape)
        shapes = [shape for _, shape in known.values()]
        # onnx counts windows larger than what they slide over as less than none.
        counted = len(known) == len(names) and min(itertools.chain(*shapes), default=1) > 0
        fits = counted and all(int(np.prod(shape)) <= MOST_ELEMENTS for shape in shapes)
        return known if fits else None

    def _model(
        self, nodes: list[NodeProto], outputs: list[tuple[str, int, tuple[int, ...]]]
    ) -> ModelProto:
        graph = helper.make_graph(
            nodes,
            "fuzz",
            [helper.make_tensor_value_info(v.name, v.kind, v.dims) for v in self.inputs],
            [helper.make_tensor_value_info(*output) for output in outputs],
            [numpy_helper.from_array(a, name) for name, a in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)
