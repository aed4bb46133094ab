"""What bytes bind: softmax, layer norm, reductions, chains of element-wise operators, moves."""

from __future__ import annotations

import math
from typing import Any

from .case import Case, Nodes, Shape, moved, node
from .networks import operators
from .products import CACHE, HEADS, PROMPT, VOCABULARY, WIDTH

# Rows of a GPT step: batch 1 and 16, and a prompt of 128 tokens.
_ROWS = (1, 16, PROMPT)


def softmax() -> list[Case]:
    """Over classes, over a cache for every head, over the words."""
    shapes = [
        ((1, 1000), "resnet50"),
        ((HEADS, CACHE), "gpt2 batch 1"),
        ((16 * HEADS, CACHE), "gpt2 batch 16"),
        ((HEADS * PROMPT, PROMPT), "gpt2 prompt"),
        ((16, VOCABULARY), "gpt2 words"),
    ]
    return [_unary("Softmax", shape, where, axis=-1) for shape, where in shapes]


def layer_norm() -> list[Case]:
    """Rows of 768, and of 1024 and 4096 as larger models have them."""
    shapes = [(rows, width) for rows in _ROWS for width in (WIDTH,)]
    return [layer_norm_case(shape, "gpt2") for shape in [*shapes, (16, 1024), (PROMPT, 4096)]]


def layer_norm_case(shape: Shape, where: str = "") -> Case:
    """Scale and shift are constants."""
    width = shape[-1:]
    nodes = (node("LayerNormalization", ("x", "scale", "shift"), axis=-1),)
    weights = {"scale": width, "shift": width}
    return Case(_text(shape), nodes, {"x": shape}, weights, moved(shape, shape), "copy", where)


def reductions() -> list[Case]:
    """Along rows, along columns, over an image, over everything."""
    return [
        _reduction("ReduceMean", (PROMPT, WIDTH), [-1], "gpt2 prompt"),
        _reduction("ReduceMax", (HEADS * 16, CACHE), [-1], "gpt2 batch 16"),
        _reduction("ReduceMean", (1024, 1024), [0], "columns"),
        _reduction("ReduceMean", (1, 2048, 7, 7), [2, 3], "resnet50"),
        _reduction("ReduceMean", (1, 1000, 13, 13), [2, 3], "squeezenet"),
        _reduction("ReduceMean", (1024, 1024), [0, 1], "everything"),
        _reduction("ReduceMax", (64, 56, 56), [0], "channels"),
    ]


def _reduction(kind: str, shape: Shape, axes: list[int], where: str) -> Case:
    kept = math.prod(shape) // math.prod(shape[a] for a in axes)
    name = f"{kind.removeprefix('Reduce')} {_text(shape)} over {','.join(map(str, axes))}"
    nodes = (node(kind, ("x",), axes=axes, keepdims=1),)
    return Case(name, nodes, {"x": shape}, {}, moved(shape, (kept,)), "read", where)


def elementwise() -> list[Case]:
    """GELU by erf and by tanh (GPT-2's), residual add and relu, scale and shift of channels."""
    wide = [(rows, 4 * WIDTH) for rows in _ROWS]
    images = [(1, 256, 56, 56), (1, 512, 28, 28), (1, 2048, 7, 7)]
    cases = [gelu_erf(shape) for shape in wide] + [gelu_tanh(shape) for shape in wide]
    cases += [_residual(shape, "resnet50") for shape in images]
    cases += [_batch_norm(shape, "densenet121") for shape in images]
    return [*cases, *(_unary("Relu", shape, "relu") for shape in images)]


def gelu_erf(shape: Shape) -> Case:
    """x / 2 * (1 + erf(x / sqrt 2)), as PyTorch exports it."""
    nodes = (
        node("Div", ("x", "root2"), "a"), node("Erf", ("a",), "b"), node("Add", ("b", "one"), "c"),
        node("Mul", ("x", "c"), "d"), node("Mul", ("d", "half")),
    )  # fmt: skip
    scalars = {"root2": math.sqrt(2), "one": 1.0, "half": 0.5}
    name = f"gelu (erf) {_text(shape)}"
    return Case(name, nodes, {"x": shape}, scalars, moved(shape, shape), "copy", "gpt")


def gelu_tanh(shape: Shape) -> Case:
    """x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    nodes = (
        node("Mul", ("x", "x"), "a"), node("Mul", ("a", "x"), "b"), node("Mul", ("b", "k"), "c"),
        node("Add", ("x", "c"), "d"), node("Mul", ("d", "root"), "e"), node("Tanh", ("e",), "f"),
        node("Add", ("f", "one"), "g"), node("Mul", ("x", "half"), "h"), node("Mul", ("g", "h")),
    )  # fmt: skip
    scalars = {"k": 0.044715, "root": math.sqrt(2 / math.pi), "one": 1.0, "half": 0.5}
    name = f"gelu (tanh) {_text(shape)}"
    return Case(name, nodes, {"x": shape}, scalars, moved(shape, shape), "copy", "gpt2")


def _residual(shape: Shape, where: str) -> Case:
    nodes = (node("Add", ("x", "r"), "a"), node("Relu", ("a",)))
    inputs = {"x": shape, "r": shape}
    return Case(
        f"add, relu {_text(shape)}", nodes, inputs, {}, moved(shape, shape, shape), "copy", where
    )


def _batch_norm(shape: Shape, where: str) -> Case:
    nodes = (node("Mul", ("x", "s"), "a"), node("Add", ("a", "b"), "c"), node("Relu", ("c",)))
    channel = (shape[1], 1, 1)
    weights = {"s": channel, "b": channel}
    name = f"scale, shift, relu {_text(shape)}"
    return Case(name, nodes, {"x": shape}, weights, moved(shape, shape), "copy", where)


def norms() -> list[Case]:
    """Local response normalisation of the light models."""
    found: dict[str, Case] = {}
    for op in operators("LRN"):
        shape = op.shapes[0]
        name = f"LRN {_text(shape)}"
        nodes = (node("LRN", ("x",), **op.attributes),)
        case = Case(name, nodes, {"x": shape}, {}, moved(shape, shape), "copy", op.model)
        found.setdefault(name, case)
    return list(found.values())


def transposes() -> list[Case]:
    """Channel shuffles of shufflenet, heads of a GPT, a matrix, NCHW to NHWC."""
    wanted = {(op.shapes[0], tuple(op.ints("perm", []))): op.model for op in operators("Transpose")}
    wanted |= {
        ((1, PROMPT, HEADS, 64), (0, 2, 1, 3)): "gpt2 prompt",
        ((1, HEADS, PROMPT, 64), (0, 1, 3, 2)): "gpt2 prompt",
        ((1024, 1024), (1, 0)): "matrix",
        ((1, 64, 56, 56), (0, 2, 3, 1)): "NCHW to NHWC",
        ((1, 56, 56, 64), (0, 3, 1, 2)): "NHWC to NCHW",
    }
    return [
        Case(
            f"{_text(shape)} by {''.join(map(str, perm))}",
            (node("Transpose", ("x",), perm=list(perm)),),
            {"x": shape}, {}, moved(shape, shape), "copy", where,
        )
        for (shape, perm), where in wanted.items()
    ]  # fmt: skip


_OF_EACH_CHAIN = 8  # of the many concatenations of densenet: one in eight


def concats() -> list[Case]:
    """Those of the light models; of densenet's long chains only some."""
    found: dict[str, Case] = {}
    for i, op in enumerate(operators("Concat")):
        if op.model != "densenet121" or i % _OF_EACH_CHAIN == 0:
            inputs = {f"x{k}": shape for k, shape in enumerate(op.shapes)}
            size = "x".join(map(str, op.output[2:]))
            name = " + ".join(str(shape[1]) for shape in op.shapes) + f" of {size}"
            nodes = (node("Concat", tuple(inputs), axis=1),)
            work = 2 * moved(op.output)
            found.setdefault(name, Case(name, nodes, inputs, {}, work, "copy", op.model))
    return list(found.values())


def tiny(kind: str) -> Case:
    """One value through one operator: what remains is the call."""
    nodes: Nodes = (node(kind, ("x",)),)
    return Case(f"{kind} 1x1", nodes, {"x": (1, 1)}, {}, 1.0, "copy")


def tiny_concat() -> Case:
    """Two values joined."""
    inputs = {"x0": (1, 1), "x1": (1, 1)}
    return Case("1 + 1", (node("Concat", tuple(inputs), axis=1),), inputs, {}, 1.0, "copy")


def _unary(kind: str, shape: Shape, where: str, **attributes: Any) -> Case:
    nodes = (node(kind, ("x",), **attributes),)
    name = f"{kind.lower()} {_text(shape)}"
    return Case(name, nodes, {"x": shape}, {}, moved(shape, shape), "copy", where)


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))
