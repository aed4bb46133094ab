"""A small model that keeps state: layers, each of which adds up what it has been given so far."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.script import tirx as T

from tvm_hetero.kernels.tir.index_values import FLOPS, VALUES
from tvm_hetero.passes.attributes import INPUT_NAMES, OUTPUT_NAMES, RANGES, STATES

LENGTH, WIDTH = 6, 16


def remember(length: int = LENGTH, width: int = WIDTH) -> tvm.tirx.PrimFunc:
    """A kernel: x goes into row `position` of the state; y is the sum of the rows up to there."""

    @T.prim_func(private=True, s_tir=True)
    def func(
        x: T.Buffer((1, width), "float32"),
        position: T.Buffer((1,), "int32"),
        rows: T.Buffer((length, width), "float32"),
        y: T.Buffer((1, width), "float32"),
    ):
        T.func_attr({"tirx.noalias": True, "op_pattern": 8})
        for i in range(width):
            with T.sblock("write"):
                vi = T.axis.spatial(width, i)
                rows[T.max(T.min(position[0], length - 1), 0), vi] = x[0, vi]
        for i in range(width):
            with T.sblock("clear"):
                vi = T.axis.spatial(width, i)
                y[0, vi] = T.float32(0)
        for p, i in T.grid(T.max(T.min(position[0], length - 1), 0) + 1, width):
            with T.sblock("add"):
                vp = T.axis.opaque(length, p)
                vi = T.axis.opaque(width, i)
                y[0, vi] = y[0, vi] + rows[vp, vi]

    func = func.with_attr(FLOPS, float(length * width / 2))
    return func.with_attr(VALUES, json.dumps({1: length // 2}))


def running_sums(layers: int = 3, seed: int = 0) -> tvm.IRModule:
    """Inputs ``x`` (1, 16), ``position`` (1,), states ``sum.0`` ...; output ``y``."""
    rng = np.random.default_rng(seed)
    x = relax.Var("x", relax.TensorType((1, WIDTH), "float32"))
    position = relax.Var("position", relax.TensorType((1,), "int32"))
    names = [f"sum.{layer}" for layer in range(layers)]
    kept = [relax.Var(n, relax.TensorType((LENGTH, WIDTH), "float32")) for n in names]
    attrs = {
        INPUT_NAMES: ["x", "position", *names],
        OUTPUT_NAMES: ["y"],
        STATES: names,
        RANGES: json.dumps({"position": [0, LENGTH - 1]}),
    }
    builder = relax.BlockBuilder()
    with builder.function("main", [x, position, *kept], attrs=attrs):
        with builder.dataflow():
            kernel = builder.add_func(remember(), "remember")
            value = x
            for state in kept:
                weight = (rng.standard_normal((WIDTH, WIDTH)) / WIDTH).astype("float32")
                value = builder.emit(relax.op.nn.relu(relax.op.matmul(value, relax.const(weight))))
                ty = relax.TensorType((1, WIDTH), "float32")
                value = builder.emit(relax.call_tir(kernel, [value, position, state], ty))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()


class Expected:
    """What `running_sums` computes for one sequence, in NumPy."""

    def __init__(self, layers: int = 3, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        shape = (WIDTH, WIDTH)
        self.weights = [
            (rng.standard_normal(shape) / WIDTH).astype("float32") for _ in range(layers)
        ]
        self.rows = [np.zeros((LENGTH, WIDTH), "float32") for _ in range(layers)]

    def step(self, x: np.ndarray[Any, Any], position: int) -> np.ndarray[Any, Any]:
        """The next output."""
        for weight, rows in zip(self.weights, self.rows, strict=True):
            rows[position] = np.maximum(x @ weight, 0)
            x = rows[: position + 1].sum(axis=0, keepdims=True)
        return x
