"""A model that maps tensors to tensors, as it is served: queries of any number of elements.

A query of n elements has arrays whose first axis is n times the model's own. It is cut into
requests of the executor, which go through its pipeline together, and the outputs are put together
in their order. Cancelling the query cancels what is in flight: the kernel that runs is the last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.errors import DeadlineError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.serve.core.query import Arrays, InferenceAnswer, InferenceQuery
from tvm_hetero.serve.core.refusal import RequestError


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a model, and whether queries may have several elements.

    Attributes
    ----------
    inputs, outputs : of one element.
    is_batched : whether all of them have an axis of elements first.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    is_batched: bool

    def count_items(self, inputs: Mapping[str, tuple[int, ...]]) -> int:
        """How many elements inputs of these shapes have.

        Raises
        ------
        RequestError
            If one is missing, unknown, or of another shape.
        """
        known = {info.name: info for info in self.inputs}
        for name in inputs:
            if name not in known:
                raise RequestError(f"there is no input {name!r}; expected {', '.join(known)}")
        counts = {self._count(info, inputs) for info in self.inputs}
        if len(counts) > 1:
            raise RequestError("the inputs have unlike numbers of elements (their first axis)")
        return counts.pop() if counts else 1

    def _count(self, info: TensorInfo, inputs: Mapping[str, tuple[int, ...]]) -> int:
        if info.name not in inputs:
            raise RequestError(f"input {info.name!r} is missing")
        shape = inputs[info.name]
        if shape == info.shape:
            return 1
        if self.is_batched and len(shape) == len(info.shape) and shape[1:] == info.shape[1:]:
            count, rest = divmod(shape[0], info.shape[0])
            if count and not rest:
                return count
        expected = f"{list(info.shape)}" + (" or a multiple of its first axis" * self.is_batched)
        raise RequestError(f"input {info.name!r} has shape {list(shape)}; expected {expected}")


class TensorModel:
    """An executor, and what is known of it.

    Attributes
    ----------
    name, version : by which clients ask for it.
    executor : runs one element.
    signature : of one element.
    """

    def __init__(self, name: str, version: str, executor: Executor) -> None:
        self.name, self.version, self.executor = name, version, executor
        self.signature = signature_of(executor)

    async def compute(self, query: InferenceQuery) -> InferenceAnswer:
        """Outputs of a query whose turn it is.

        Raises
        ------
        DeadlineError
            At the query's deadline, if it is not done then.
        RunError
            If a kernel fails.
        """
        begun = time.monotonic()
        left = None if query.deadline is None else query.deadline - begun
        try:
            async with asyncio.timeout(left):
                outputs = await self._run(query)
        except TimeoutError:
            waited = time.monotonic() - query.arrived
            raise DeadlineError(f"deadline: not done {waited:.3g} s after it came") from None
        return InferenceAnswer(outputs, begun - query.arrived, time.monotonic() - begun)

    async def _run(self, query: InferenceQuery) -> dict[str, np.ndarray[Any, Any]]:
        if query.items == 1:
            return self._named([await self.executor.run_async(query.inputs)])
        parts = self._parts(query.inputs, query.items)
        return self._named([outputs async for outputs in self.executor.amap(parts)])

    def _parts(self, inputs: Arrays, items: int) -> list[dict[str, np.ndarray[Any, Any]]]:
        split = {name: np.split(array, items) for name, array in inputs.items()}
        return [{name: parts[i] for name, parts in split.items()} for i in range(items)]

    def _named(self, rows: list[list[Any]]) -> dict[str, np.ndarray[Any, Any]]:
        names = self.executor.outputs
        if len(rows) == 1:
            return {name: as_array(value) for name, value in zip(names, rows[0], strict=True)}
        columns = zip(*rows, strict=True)
        return {
            name: np.concatenate([as_array(value) for value in column])
            for name, column in zip(names, columns, strict=True)
        }


def signature_of(executor: Executor) -> Signature:
    """Inputs and outputs of what an executor runs; outputs are those of a run on seeded inputs.

    Raises
    ------
    RunError
        If it cannot run.
    """
    made = [as_array(value) for value in executor.run(executor.inputs_that_run(0))]
    open_axes = {
        row.name.split("#")[0]: row.length[1] for row in executor.plan.outputs if row.length
    }
    outputs = tuple(
        TensorInfo(name, _declared(array.shape, open_axes.get(name)), str(array.dtype))
        for name, array in zip(executor.outputs, made, strict=True)
    )
    both = (*executor.inputs, *outputs)
    is_batched = not open_axes and all(
        info.shape and info.shape[0] == executor.batch for info in both
    )
    return Signature(tuple(executor.inputs), outputs, is_batched)


def _declared(shape: tuple[int, ...], open_axis: int | None) -> tuple[int, ...]:
    """A shape as protocols write it: -1 for an axis whose length depends on the inputs."""
    return tuple(-1 if axis == open_axis else size for axis, size in enumerate(shape))
