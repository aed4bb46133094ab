"""Random float models of convolutions and products, whose sums float32 holds exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Dims = tuple[int, ...]
_MOST_NODES, _TRIES = 10, 30


class FloatModel:
    """Grows by itself: its inputs, some nodes, some values that are outputs too.

    Values are numbers of few bits: inputs and weights are multiples of 1/4. Branches of an If are
    among the nodes where `branches` says so.
    """

    def __init__(self, seed: int, *, branches: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.inputs: dict[str, Dims] = {"x": (1, self.choose([1, 3, 4, 8]), 6, self.choose([1, 5]))}
        self.dims: dict[str, Dims] = dict(self.inputs)
        self.conditions = 0
        steps: list[Callable[[], None]] = [
            self._convolve, self._convolve, self._convolve, self._multiply, self._bound,
            self._bound, self._pool, self._add_up, self._join, self._move,
        ]  # fmt: skip
        steps += [self._branch] if branches else []
        for _ in range(_TRIES):
            if len(self.nodes) < _MOST_NODES:
                self.choose(steps)()

    def choose(self, among: Any) -> Any:
        """One of these."""
        return among[int(self.rng.integers(len(among)))]

    def flag(self, share: float = 0.5) -> bool:
        """True in so many of all cases."""
        return bool(self.rng.random() < share)

    def model(self) -> onnx.ModelProto:
        """The model; what no one reads is an output, and some other values are."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        ends = [name for name in made if name not in read or self.flag(0.15)]
        flags = [f"hold{i}" for i in range(self.conditions)]
        graph = helper.make_graph(
            self.nodes,
            "float_model",
            [_value(name, dims) for name, dims in self.inputs.items()]
            + [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in flags],
            [_value(name, self.dims[name]) for name in ends],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.choose([13, 17, 21]))], ir_version=10
        )

    def feeds(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays for the inputs."""
        flags = {f"hold{i}": np.array(self.flag()) for i in range(self.conditions)}
        return {name: self._numbers(*dims) for name, dims in self.inputs.items()} | flags

    def _numbers(self, *dims: int) -> np.ndarray[Any, Any]:
        return (self.rng.integers(-8, 9, dims) / 4).astype(np.float32)

    def _constant(self, array: np.ndarray[Any, Any]) -> str:
        """A constant; of equal shape, sometimes one that others read already."""
        alike = [
            n for n, a in self.constants.items() if (a.shape, a.dtype) == (array.shape, array.dtype)
        ]
        if alike and array.dtype == np.float32 and self.flag(0.4):
            return str(self.choose(alike))
        name = f"k{len(self.constants)}"
        self.constants[name] = array
        return name

    def _pick(self, rank: int | None = None) -> str | None:
        """A value, rather a late one."""
        names = [n for n, dims in self.dims.items() if rank is None or len(dims) == rank]
        if not names:
            return None
        return str(names[-1] if self.flag() else self.choose(names))

    def _add(self, kind: str, reads: list[str], dims: Dims, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, reads, [name], **attributes))
        self.dims[name] = dims
        return name

    def _convolve(self) -> None:
        x = self._pick(4)
        if x is None:
            return
        batch, channels, *space = self.dims[x]
        group = self.choose([1, 1, 1, channels])
        outputs = channels if group > 1 else int(self.choose([4, 5, 8]))
        window = [min(int(self.choose([1, 2, 3])), n) for n in space]
        pads = [int(n) for n in self.rng.integers(0, 2, 4)] if self.flag() else [0] * 4
        strides = [int(self.choose([1, 1, 2])) for _ in space]
        made = tuple(
            (n + pads[i] + pads[i + 2] - k) // s + 1
            for i, (n, k, s) in enumerate(zip(space, window, strides, strict=True))
        )
        weights = self._numbers(outputs, channels // group, *window)
        if self.flag(0.1):
            weights[0] = 0
        operands = [x, self._constant(weights)]
        if self.flag(0.6):
            operands.append(self._constant(self._numbers(outputs)))
        self._add(
            "Conv", operands, (batch, outputs, *made), pads=pads, strides=strides, group=group
        )

    def _multiply(self) -> None:
        x = self._pick(2)
        if x is None:
            x = self._pick()
            assert x is not None
            whole = int(np.prod(self.dims[x]))
            rows = self.dims[x][0] if len(self.dims[x]) > 1 else 1
            x = self._add("Flatten", [x], (rows, whole // rows), axis=int(len(self.dims[x]) > 1))
        rows, steps = self.dims[x]
        columns = int(self.choose([3, 8, steps]))
        if columns > 64:
            columns = 8
        if self.flag():
            self._add("MatMul", [x, self._constant(self._numbers(steps, columns))], (rows, columns))
            return
        turned = self.flag()
        weights = self._numbers(columns, steps) if turned else self._numbers(steps, columns)
        operands = [x, self._constant(weights)]
        if self.flag(0.7):
            operands.append(self._constant(self._numbers(columns)))
        self._add("Gemm", operands, (rows, columns), transB=int(turned))

    def _bound(self) -> None:
        x = self._pick()
        assert x is not None
        if self.flag(0.7):
            self._add("Relu", [x], self.dims[x])
        else:
            limits = [self._constant(np.array(n, np.float32)) for n in (0.0, 6.0)]
            self._add("Clip", [x, *limits], self.dims[x])

    def _pool(self) -> None:
        x = self._pick(4)
        if x is None or min(self.dims[x][2:]) < 2:
            return
        kind = self.choose(["MaxPool", "MaxPool", "AveragePool"])
        batch, channels, *space = self.dims[x]
        made = (batch, channels, *(n // 2 for n in space))
        self._add(kind, [x], made, kernel_shape=[2, 2], strides=[2, 2])

    def _add_up(self) -> None:
        x = self._pick()
        alike = [n for n, dims in self.dims.items() if x is not None and dims == self.dims[x]]
        if x is not None:
            self._add(self.choose(["Add", "Add", "Sub"]), [x, self.choose(alike)], self.dims[x])

    def _join(self) -> None:
        x = self._pick()
        assert x is not None
        dims = self.dims[x]
        fits = [
            n
            for n, d in self.dims.items()
            if (len(d), d[:1], d[2:]) == (len(dims), dims[:1], dims[2:])
        ]
        if len(dims) > 1:
            other = self.choose(fits)
            whole = (dims[0], dims[1] + self.dims[other][1], *dims[2:])
            self._add("Concat", [x, other], whole, axis=int(self.choose([1, 1 - len(dims)])))

    def _move(self) -> None:
        x = self._pick()
        assert x is not None
        dims = self.dims[x]
        kind = self.choose(["Reshape", "Transpose", "Flatten", "Identity", "Unsqueeze"])
        if kind == "Reshape":
            made = self.choose([(1, -1), dims, (1, dims[-1], -1) if len(dims) > 1 else (-1, 1)])
            whole = int(np.prod(dims))
            known = -int(np.prod(made)) if -1 in made else 1
            shape = tuple(whole // known if n == -1 else n for n in made)
            self._add(kind, [x, self._constant(np.array(made))], shape)
        elif kind == "Transpose":
            order = [int(n) for n in self.rng.permutation(len(dims))]
            self._add(kind, [x], tuple(dims[n] for n in order), perm=order)
        elif kind == "Flatten":
            self._add(kind, [x], (int(np.prod(dims[:1])), int(np.prod(dims[1:]))))
        elif kind == "Unsqueeze" and len(dims) < 4:
            self._add(kind, [x, self._constant(np.array([0]))], (1, *dims))
        elif kind == "Identity":
            self._add(kind, [x], dims)

    def _branch(self) -> None:
        """An If whose branches read what was made before, and constants."""
        x = self._pick()
        assert x is not None
        dims, name = self.dims[x], f"hold{self.conditions}"
        if self.conditions > 1:
            return
        self.conditions += 1
        alike = [n for n, d in self.dims.items() if d == dims]
        own = [self._within(name, side, dims, [x, self.choose(alike)]) for side in "ab"]
        self._add("If", [name], dims, then_branch=own[0], else_branch=own[1])

    def _within(self, name: str, side: str, dims: Dims, reads: list[str]) -> onnx.GraphProto:
        result = f"{name}_{side}"
        kind = self.choose(["Add", "Relu", "Identity"])
        operands = reads if kind == "Add" else reads[1:]
        node = helper.make_node(kind, operands, [result])
        return helper.make_graph([node], result, [], [_value(result, dims)])


def _value(name: str, dims: Dims) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
