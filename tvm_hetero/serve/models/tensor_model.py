"""A model that maps tensors to tensors, as it is served: queries of any number of elements.

A query of n elements has arrays whose first axis is n times the model's own. It is cut into
requests of the executor, which go through its pipeline together, and the outputs are put together
in their order. Cancelling the query cancels what is in flight: the kernel that runs is the last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.serve.core.deadline import end_at
from tvm_hetero.serve.core.query import Arrays, InferenceAnswer, InferenceQuery
from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.serve.models.adapted_share import Adaptation
from tvm_hetero.serve.models.share_instances import ShareInstances
from tvm_hetero.util.closeable import Closeable

MOST_ITEMS = 4096
"""Elements of one query: each is a request of an executor."""


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
        count = counts.pop() if counts else 1
        if count > MOST_ITEMS:
            raise RequestError(f"{count} elements in one query; expected {MOST_ITEMS} at most")
        return count

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


class TensorModel(Closeable):
    """What runs a model on any share of the cores, and what is known of it.

    Parameters
    ----------
    most : executors of shares that are kept (`ShareInstances`).
    batches : plans of the same model for several elements at once; closed with it.
    adaptation : if what runs it is to be adapted (`adapted_share`).

    Attributes
    ----------
    name, version : by which clients ask for it.
    instances : run one element each; of a batch plan, as many as it is for.
    signature : of one element; of a batch plan, of all of them.
    """

    def __init__(
        self,
        name: str,
        version: str,
        executable: Executable,
        most: int = 8,
        batches: Sequence[TensorModel] = (),
        adaptation: Adaptation | None = None,
    ) -> None:
        self.name, self.version = name, version
        self.batches = tuple(batches)
        self.instances = ShareInstances(executable, most, name, adaptation)
        try:
            self.signature = signature_of(self.executor)
        except BaseException:
            self.close()
            raise

    @property
    def executor(self) -> Executor:
        """Runs the artifact's own plan."""
        return self.instances.whole

    @property
    def size(self) -> int:
        """How many elements its plan runs at once."""
        return self.executor.batch

    async def compute(self, query: InferenceQuery) -> InferenceAnswer:
        """Outputs of a query by the artifact's own plan, at once.

        Raises
        ------
        DeadlineError
            At the query's deadline, if it is not done then.
        RunError
            If a kernel fails.
        """
        begun = time.monotonic()
        async with answer_in_time(query):
            if query.items == 1:
                rows = [await self.executor.run_async(query.inputs)]
            else:
                parts = split_items(query.inputs, query.items)
                rows = [outputs async for outputs in self.executor.amap(parts)]
        return self.answer(query, rows, begun)

    def answer(self, query: InferenceQuery, rows: list[list[Any]], begun: float) -> InferenceAnswer:
        """The answer from the outputs of each element, computed from `begun` (s) until now."""
        names = self.executor.outputs
        if len(rows) == 1:
            outputs = {name: as_array(value) for name, value in zip(names, rows[0], strict=True)}
        else:
            outputs = {
                name: np.concatenate([as_array(value) for value in column])
                for name, column in zip(names, zip(*rows, strict=True), strict=True)
            }
        computed = time.monotonic() - begun
        return InferenceAnswer(outputs, begun - query.arrived, computed, query.items)

    def close(self) -> None:
        """Stop what runs it; what is in flight fails."""
        for each in self.batches:
            each.close()
        self.instances.close()


def split_items(inputs: Arrays, items: int) -> list[dict[str, np.ndarray[Any, Any]]]:
    """The inputs of each element: views."""
    split = {name: np.split(array, items) for name, array in inputs.items()}
    return [{name: parts[i] for name, parts in split.items()} for i in range(items)]


def answer_in_time(query: InferenceQuery) -> AbstractAsyncContextManager[None]:
    """Cancel what is awaited inside at the query's deadline (`serve.core.deadline.end_at`)."""
    return end_at(query.deadline, query.arrived)


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
