"""Random conditions of loops: constants, the former condition, and numbers beside bounds.

A *condition* is up to two levels of ``And``, ``Or``, ``Xor`` and ``Not`` on *truths*: numbers that
were cast, negated, shifted or reshaped are compared with bounds about which counters jump (of int8,
of int32) or get near in few steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.fuzz.loop_blocks import Block, Number, as_type, onnx_type

BOUNDS = (0, 1, 2, 3, 4, 5, 6, 7, -1, 10, 30, 127, 126, 2**31 - 1, -100, 0.5, 2.5, 1e9)
_CAST_TO = ("int64", "int32", "float32", "int8", "uint8", "float64", "float16", "bool")
_BYTES = ("int8", "uint8")
"""They are not added before opset 14."""
_COMPARISONS = ("Less", "LessOrEqual", "Equal", "Greater", "GreaterOrEqual")


def add_condition(block: Block, numbers: Sequence[Number], given: str, levels: int = 2) -> str:
    """Add a random condition on numbers and on the `given` one; returns its name."""
    rng = block.rng
    if levels and rng.random() < 0.5:
        sides = [add_condition(block, numbers, given, levels - 1) for _ in range(2)]
        made = block.add(rng.choice(("And", "Or", "Xor")), sides)
    else:
        made = _truth(block, numbers, given)
    return block.add("Not", [made]) if rng.random() < 0.2 else made


def _truth(block: Block, numbers: Sequence[Number], given: str) -> str:
    """A constant, the condition before, or a comparison."""
    draw = block.rng.random()
    if draw < 0.15:
        return block.constant(np.array(block.rng.random() < 0.75))
    if draw < 0.35:
        return given if draw < 0.25 else "go"
    number = block.rng.choice(numbers)
    if block.rng.random() < 0.25:
        kind = block.rng.choice(_CAST_TO)
        number = Number(block.add("Cast", [number.name], to=onnx_type(kind)), kind, number.shape)
        if kind == "bool":
            return number.name
    return _compared(block, _shifted(block, number))


def _shifted(block: Block, number: Number) -> Number:
    """The number, or what signs, sums, products and reshapes make of it."""
    rng, name = block.rng, number.name
    if rng.random() < 0.2 and number.dtype != "uint8":
        name = block.add(rng.choice(("Neg", "Abs")), [name])
    if rng.random() < 0.2 and number.dtype not in _BYTES:
        other = block.constant(as_type(rng.choice((1, 2, 3, -1)), number.dtype))
        name = block.add(rng.choice(("Add", "Sub", "Mul")), [name, other])
    if rng.random() < 0.15:
        name = block.add("Reshape", [name, rng.choice(("vector_shape", "scalar_shape"))])
    return Number(name, number.dtype)


def _compared(block: Block, number: Number) -> str:
    """The number beside a bound, on the one side or on the other."""
    rng = block.rng
    bound = rng.choice(BOUNDS)
    if number.dtype == "float32" and rng.random() < 0.05:
        bound = np.nan
    sides = [number.name, block.constant(as_type(bound, number.dtype))]
    if rng.random() < 0.3:
        sides.reverse()
    return block.add(rng.choice(_COMPARISONS), sides)
