"""What a caller gives for one request, checked and turned into the plan's input tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvm_hetero.errors import RunError
from tvm_hetero.executor.batches import (
    Shape,
    make_stacks,
    merged_shape,
    split_batch,
    stacked_shape,
)
from tvm_hetero.executor.tensors import as_array, as_tensor, place_tensor
from tvm_hetero.plan.model import Plan
from tvm_hetero.util.nearest import nearest


@dataclass(frozen=True)
class TensorInfo:
    """Name, shape and type of an input: of a whole batch, merged (see `executor.batches`).

    `range` is the least and the largest integer in it, where the model says so.
    """

    name: str
    shape: Shape
    dtype: str
    range: tuple[int, int] | None = None


@dataclass(frozen=True)
class RequestTensors:
    """The input tensors of a request in the plan's order, and the form that they came in."""

    tensors: list[Any]
    merged: bool


class InputReader:
    """Reads inputs for one plan.

    Attributes
    ----------
    infos : the model's inputs, in its order, but for states (`tvm_hetero.executor.state`).
    """

    def __init__(self, plan: Plan) -> None:
        self.batch = plan.batch
        rows = plan.inputs
        stacks = make_stacks([row.name for row in rows], self.batch)
        self._stacks = [stack for stack in stacks if not rows[stack.rows[0]].is_state]
        firsts = [rows[stack.rows[0]] for stack in self._stacks]
        self._shapes = [row.type.shape for row in firsts]
        self._dtypes = [row.type.dtype for row in firsts]
        self.infos = tuple(
            TensorInfo(
                stack.name, merged_shape(row.type.shape, self.batch), row.type.dtype, row.range
            )
            for stack, row in zip(self._stacks, firsts, strict=True)
        )
        self._forms = [
            (merged_shape(shape, self.batch), stacked_shape(shape, self.batch))
            for shape in self._shapes
        ]
        self._homes = [device_of_slot(plan, row.slot) for row in rows]
        # Inputs that are outputs too: whoever holds such an output must keep what it was.
        returned = {output.slot for output in plan.outputs}
        self._own = [row.slot in returned for row in rows]
        self._positions = _positions(self.infos)

    def read(self, values: Mapping[str, Any] | Sequence[Any], copy: bool = False) -> RequestTensors:
        """The tensors of one request.

        Parameters
        ----------
        values
            By input name, arrays or tensors; for a batch of more than one also a list or tuple of
            a mapping for each element, whose outputs are stacked then.
        copy
            Whether they must stay what they are when the caller changes their arrays.

        Raises
        ------
        RunError
            If an input is missing, unknown, given twice, or of another shape or type.
        """
        if self.batch > 1 and isinstance(values, list | tuple):
            return self._read_elements(values, copy)
        given = self._resolve(values)
        tensors: list[Any] = [None] * len(self._homes)
        merged = True
        for i, stack in enumerate(self._stacks):
            if i not in given:
                raise RunError(f"input {stack.name!r} is missing; expected {self.described}")
            value = as_tensor(given[i])
            merged = self._check(i, value, whole=True) and merged
            self._place(tensors, i, self._elements(i, value), copy)
        return RequestTensors(tensors, merged)

    @property
    def described(self) -> str:
        """The inputs in words."""
        return ", ".join(f"{i.name}: {i.dtype}{list(i.shape)}" for i in self.infos)

    def _read_elements(self, values: Sequence[Any], copy: bool) -> RequestTensors:
        """Inputs as a mapping for each element."""
        if len(values) != self.batch:
            raise RunError(
                f"got inputs of {len(values)} elements, expected {self.batch}: this plan runs "
                f"batches of {self.batch}"
            )
        given = [self._resolve(element) for element in values]
        tensors: list[Any] = [None] * len(self._homes)
        for i, stack in enumerate(self._stacks):
            parts = []
            for e, element in enumerate(given):
                if i not in element:
                    raise RunError(f"input {stack.name!r} of element {e} is missing")
                value = as_tensor(element[i])
                self._check(i, value, whole=False)
                parts.append(value)
            self._place(tensors, i, parts, copy)
        return RequestTensors(tensors, merged=False)

    def _elements(self, i: int, value: Any) -> list[Any]:
        """A value's elements; a value that is one element whole stays the tensor that it is."""
        if self.batch == 1:
            return [value]
        return split_batch(as_array(value), self._shapes[i], self.batch)

    def _place(self, tensors: list[Any], i: int, parts: Sequence[Any], copy: bool) -> None:
        for row, part in zip(self._stacks[i].rows, parts, strict=True):
            tensors[row] = place_tensor(part, self._homes[row], copy or self._own[row])

    def _resolve(self, values: Any) -> dict[int, Any]:
        """Values by the position of their input; names may be written as identifiers."""
        require_mapping(values)
        found: dict[int, Any] = {}
        for name, value in values.items():
            position = self._positions.get(name)
            if position is None:
                raise RunError(
                    f"there is no input {name!r}{nearest(str(name), self._positions)}; expected "
                    f"{self.described}"
                )
            if position in found:
                raise RunError(f"input {self.infos[position].name!r} is given twice")
            found[position] = value
        return found

    def _check(self, i: int, value: Any, whole: bool) -> bool:
        """Refuse a wrong value; tells whether it is merged (where that makes a difference)."""
        merged, stacked = self._forms[i] if whole else (self._shapes[i], self._shapes[i])
        try:
            shape = tuple(value.shape)
            if shape in (merged, stacked) and value.dtype == self._dtypes[i]:
                return shape == merged
            got = f"{value.dtype} of shape {list(shape)}"
        except AttributeError:
            name = type(value).__name__
            raise RunError(
                f"input {self._stacks[i].name!r}: expected an array, got {name}"
            ) from None
        expected = " or ".join(dict.fromkeys([str(list(merged)), str(list(stacked))]))
        raise RunError(
            f"input {self._stacks[i].name!r}: expected {self._dtypes[i]} of shape {expected}, "
            f"got {got}"
        )


def random_values(infos: Iterable[TensorInfo], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Seeded standard-normal inputs; integers in the input's range, else from 0 to 9."""
    rng = np.random.default_rng(seed)
    values = {}
    for info in infos:
        if "float" in info.dtype:  # bfloat16 too, whose kind is not numpy's "f"
            values[info.name] = rng.standard_normal(info.shape).astype(info.dtype)
        else:
            least, most = info.range or (0, 9)
            values[info.name] = rng.integers(least, most + 1, info.shape).astype(info.dtype)
    return values


def merge_inputs(inputs: Any, named: Mapping[str, Any]) -> Any:
    """Inputs by name, from both of the ways in which they may be given.

    Raises
    ------
    RunError
        If one is given in both.
    """
    if inputs is None or not named:
        return dict(named) if inputs is None else inputs
    require_mapping(inputs)
    twice = sorted(inputs.keys() & named.keys())
    if twice:
        raise RunError(f"input {twice[0]!r} is given twice")
    return {**inputs, **named}


def require_mapping(inputs: object) -> None:
    """Refuse what is no mapping.

    Raises
    ------
    RunError
        If it is none.
    """
    if not isinstance(inputs, Mapping):
        raise RunError(
            f"expected a mapping from the names of inputs to arrays, got {type(inputs).__name__}; "
            "write {'name': array}, or run(name=array)"
        )


def identifier(name: str) -> str:
    """A model's name as a Python identifier: ``gpu_0/data_0`` is ``gpu_0_data_0``."""
    text = "".join(c if c.isalnum() else "_" for c in name)
    return f"_{text}" if text[:1].isdigit() else text


def _positions(infos: Iterable[TensorInfo]) -> dict[str, int]:
    """Where the input of a name stands; an identifier that two names share is none."""
    names = [info.name for info in infos]
    short = [identifier(name) for name in names]
    positions = {name: i for i, name in enumerate(short) if short.count(name) == 1}
    return positions | {name: i for i, name in enumerate(names)}


def device_of_slot(plan: Plan, slot: int) -> tvm.runtime.Device:
    """The device whose memory holds a slot, as TVM names it."""
    device = plan.device_of_slot(slot)
    return tvm.runtime.Device(device.dl_type, device.dl_id)
