"""Small random Relax models: whatever a front end might give, and more oddly joined.

A model is drawn as a *program*: a list of steps of whole numbers. Every list is a valid program
(numbers are taken modulo what there is to choose from), so that hypothesis can make a failing one
smaller by leaving steps out and numbers small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from hypothesis import strategies as st
from tvm import relax

ops = relax.op
Step = tuple[int, int, int]

INPUT_TYPES = (
    ((2, 8), "float32"),
    ((1, 4, 4, 4), "float32"),
    ((8,), "float32"),
    ((2, 8), "int64"),
    ((2, 8), "float16"),
    ((4, 4), "bool"),
    ((), "float32"),
)


@dataclass(frozen=True)
class Program:
    """Types of the inputs, steps, what is returned, and how (see `_FORMS`)."""

    inputs: tuple[int, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    form: int


@st.composite
def programs(draw: Callable[..., Any], steps: int = 9) -> Program:
    """Random programs."""
    number = st.integers(0, 20)
    return Program(
        tuple(draw(st.lists(st.integers(0, len(INPUT_TYPES) - 1), min_size=1, max_size=3))),
        tuple(draw(st.lists(st.tuples(number, number, number), min_size=1, max_size=steps))),
        tuple(draw(st.lists(st.integers(0, 40), min_size=1, max_size=4))),
        draw(st.integers(0, len(_FORMS) - 1)),
    )


def random_inputs(program: Program, seed: int) -> list[np.ndarray[Any, Any]]:
    """Inputs for a program's model."""
    rng = np.random.default_rng(seed)
    values = []
    for shape, dtype in (INPUT_TYPES[i] for i in program.inputs):
        if dtype.startswith("float"):
            values.append(np.asarray(rng.standard_normal(shape)).astype(dtype))
        else:
            values.append(rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype))
    return values


def make_module(program: Program) -> tvm.IRModule:
    """The model that a program spells."""
    params = [
        relax.Var(f"x{i}", relax.TensorType(*INPUT_TYPES[kind]))
        for i, kind in enumerate(program.inputs)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            machine = _Machine(builder, list(params))
            for code, a, b in program.steps:
                _STEPS[code % len(_STEPS)](machine, a, b)
            chosen = [machine.pool[-1 - i % len(machine.pool)] for i in program.outputs]
            out = builder.emit_output(_FORMS[program.form](machine, chosen))
        builder.emit_func_output(out)
    return builder.get()


@dataclass
class _Machine:
    """Tensors so far, the latest last, and constants by type, which steps share."""

    builder: relax.BlockBuilder
    pool: list[Any]
    constants: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def pick(self, number: int, kind: str = "") -> Any | None:
        """A tensor of a kind ("float", a rank, or any), counted from the latest."""
        fitting = [v for v in reversed(self.pool) if _fits(v, kind)]
        return fitting[number % len(fitting)] if fitting else None

    def emit(self, value: Any) -> Any:
        self.pool.append(self.builder.emit(value))
        return self.pool[-1]

    def constant(self, shape: tuple[int, ...], dtype: str, scale: float = 1.0) -> Any:
        key = (shape, dtype, scale)
        if key not in self.constants:
            rng = np.random.default_rng(len(self.constants))
            value = rng.standard_normal(shape) * (scale if dtype.startswith("float") else 3)
            self.constants[key] = relax.const(np.asarray(value).astype(dtype), dtype)
        return self.constants[key]


def shape_of(value: Any) -> tuple[int, ...]:
    """Shape of a tensor in the program."""
    return tuple(int(d) for d in value.ty.shape.values)


def _fits(value: Any, kind: str) -> bool:
    dtype = str(value.ty.dtype)
    if kind in ("2", "4"):
        return dtype == "float32" and len(shape_of(value)) == int(kind)
    if kind == "number":
        return dtype != "bool"
    return dtype.startswith(kind)


def _unary(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a, "float")
    if x is not None:
        choice = [ops.nn.relu, ops.tanh, ops.sigmoid, ops.negative, ops.abs][b % 5]
        m.emit(choice(x))


def _softmax(m: _Machine, a: int, _b: int) -> None:
    x = m.pick(a, "float")
    if x is not None and shape_of(x):
        m.emit(ops.nn.softmax(x))


def _binary(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a, "number")
    if x is None:
        return
    same = [v for v in m.pool if shape_of(v) == shape_of(x) and v.ty.dtype == x.ty.dtype]
    m.emit([ops.add, ops.subtract][b % 2](x, same[b % len(same)]))


def _with_constant(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a, "number")
    if x is not None:
        m.emit([ops.add, ops.multiply][b % 2](x, m.constant(shape_of(x), str(x.ty.dtype))))


def _twice(m: _Machine, a: int, _b: int) -> None:
    x = m.pick(a, "number")
    if x is not None:
        m.emit(ops.add(x, x))


def _dense(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a, "2")
    if x is not None:
        rows = shape_of(x)[1]
        m.emit(ops.matmul(x, m.constant((rows, [8, 16, 3][b % 3]), "float32", 0.3)))


def _product(m: _Machine, a: int, _b: int) -> None:
    x = m.pick(a, "2")
    if x is not None:
        m.emit(ops.matmul(x, ops.permute_dims(x)))


def _convolution(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a, "4")
    if x is not None:
        size = 1 + 2 * (b % 2)
        weight = m.constant((8, shape_of(x)[1], size, size), "float32", 0.2)
        m.emit(ops.nn.conv2d(x, weight, padding=size // 2))


def _pool(m: _Machine, a: int, _b: int) -> None:
    x = m.pick(a, "4")
    if x is not None:
        m.emit(ops.nn.max_pool2d(x, (3, 3), padding=1))


def _concat(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a)
    if not shape_of(x) or np.prod(shape_of(x)) > 4096:
        return
    same = [v for v in m.pool if shape_of(v) == shape_of(x) and v.ty.dtype == x.ty.dtype]
    m.emit(ops.concat([x, same[b % len(same)]], axis=b % len(shape_of(x))))


def _split(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a)
    axes = [i for i, d in enumerate(shape_of(x)) if d % 2 == 0]
    if axes:
        halves = m.builder.emit(ops.split(x, 2, axis=axes[b % len(axes)]))
        m.emit(relax.TupleGetItem(halves, 0))
        m.emit(relax.TupleGetItem(halves, 1))


def _split_pooled(m: _Machine, a: int, _b: int) -> None:
    """A split that stays a kernel: pooling is not fused with it."""
    x = m.pick(a, "4")
    if x is not None and shape_of(x)[1] % 2 == 0:
        halves = m.builder.emit(ops.split(x, 2, axis=1))
        for i in (1, 0):
            m.emit(ops.nn.max_pool2d(relax.TupleGetItem(halves, i), (3, 3), padding=1))


def _reshape(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a)
    size = int(np.prod(shape_of(x)))
    shapes: list[tuple[int, ...]] = [(size,), (1, size), (1, 1, size)]
    shapes += [(2, size // 2)] if size % 2 == 0 else []
    shapes += [(1, 4, size // 16, 4)] if size % 16 == 0 else []
    m.emit(ops.reshape(x, shapes[b % len(shapes)]))


def _squeeze(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a)
    m.emit([ops.flatten, ops.squeeze, lambda y: ops.expand_dims(y, 0)][b % 3](x))


def _transpose(m: _Machine, a: int, _b: int) -> None:
    m.emit(ops.permute_dims(m.pick(a)))


def _cast(m: _Machine, a: int, b: int) -> None:
    m.emit(ops.astype(m.pick(a), ["float32", "float16", "int64", "float32", "int32"][b % 5]))


def _compare(m: _Machine, a: int, _b: int) -> None:
    x = m.pick(a, "number")
    if x is not None:
        m.emit(ops.greater(x, m.constant((), str(x.ty.dtype))))


def _reduce(m: _Machine, a: int, b: int) -> None:
    x = m.pick(a, "float32")
    if x is not None and shape_of(x):
        m.emit([ops.mean, ops.sum, ops.max][b % 3](x, axis=-1, keepdims=bool(b % 2)))


def _fill(m: _Machine, a: int, b: int) -> None:
    """A tensor that no input decides, made by a kernel without arguments or folded."""
    m.emit(ops.full(shape_of(m.pick(a)), m.constant((), "float32"), "float32"))


def _constant_view(m: _Machine, a: int, _b: int) -> None:
    """A constant that is read through a view, and as it is."""
    x = m.pick(a, "float32")
    if x is not None and np.prod(shape_of(x)) <= 4096:
        view = ops.reshape(m.constant((int(np.prod(shape_of(x))),), "float32"), shape_of(x))
        m.emit(ops.add(x, m.builder.emit(view)))


def _alias(m: _Machine, a: int, b: int) -> None:
    """Another name of a tensor: plain, or put into a tuple and taken out again."""
    x = m.pick(a)
    if b % 2:
        both = m.builder.emit(relax.Tuple([m.pick(b), x]))
        m.emit(relax.TupleGetItem(both, 1))
    else:
        m.emit(x)


_STEPS: tuple[Callable[[_Machine, int, int], None], ...] = (
    _unary,
    _softmax,
    _binary,
    _with_constant,
    _twice,
    _dense,
    _product,
    _convolution,
    _pool,
    _concat,
    _split,
    _split_pooled,
    _reshape,
    _squeeze,
    _transpose,
    _cast,
    _compare,
    _reduce,
    _fill,
    _constant_view,
    _alias,
    _pool,
    _softmax,
)


def _single(_m: _Machine, chosen: list[Any]) -> Any:
    return chosen[0]


def _tuple(m: _Machine, chosen: list[Any]) -> Any:
    """Several outputs, among them what surely needs a kernel."""
    return relax.Tuple([*chosen, m.emit(ops.nn.relu(m.emit(ops.astype(chosen[0], "float32"))))])


def _named_tuple(m: _Machine, chosen: list[Any]) -> Any:
    return m.builder.emit(relax.Tuple(chosen))


def _halves(m: _Machine, chosen: list[Any]) -> Any:
    """All outputs of one kernel, as the tuple that it makes."""
    axes = [i for i, d in enumerate(shape_of(chosen[0])) if d % 2 == 0]
    return m.builder.emit(ops.split(chosen[0], 2, axis=axes[0])) if axes else chosen[0]


# What is returned of the chosen tensors, and how.
_FORMS: tuple[Callable[[_Machine, list[Any]], Any], ...] = (
    _single,
    _tuple,
    _named_tuple,
    _halves,
)
