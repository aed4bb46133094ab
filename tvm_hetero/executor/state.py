"""State of a model at run time: tensors that a request reads and writes where they are.

The caches of a decoder are such (`tvm_hetero.passes.states`). An executor makes a set of them for a
whole batch (`Executor.new_state`), and each request says which set it works on. A set is a part for
each element of the batch, so that executors of other batch sizes can work on the same memory: the
one that reads a prompt, on an element, before the one that goes on with all of them.

Two requests that are in flight at once must have no element in common, since kernels write without
asking. Every element therefore knows whether it is in use, and a second request is refused.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.executor.batches import make_stacks
from tvm_hetero.executor.inputs import device_of_slot
from tvm_hetero.executor.tensors import copy_lasting, numpy_type
from tvm_hetero.plan.model import Plan

# One for all: it is held for as long as it takes to look at a few flags.
_LOCK = threading.Lock()


class Element:
    """The tensors of one element of a batch, by their names; `busy` while a request has them."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self.tensors = dict(tensors)
        self.busy = False


class State:
    """A set of states: what a request works on and leaves to the next one.

    >>> state = ex.new_state()                                       # doctest: +SKIP
    >>> ex.run(token=t, position=p, state=state)                     # doctest: +SKIP
    """

    def __init__(self, elements: Sequence[Element]) -> None:
        self.elements = tuple(elements)
        # Whose plans it has been found to fit.
        self.fits: weakref.WeakSet[StateRows] = weakref.WeakSet()

    def __getitem__(self, name: str) -> list[Any]:
        """The tensors of that name, one for each element."""
        return [element.tensors[name] for element in self.elements]

    def __len__(self) -> int:
        """How many elements there are."""
        return len(self.elements)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tensors."""
        return tuple(self.elements[0].tensors)

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors."""
        return sum(_bytes(t) for e in self.elements for t in e.tensors.values())

    def element(self, number: int) -> State:
        """One element, for an executor without a batch. The memory is the same."""
        if not 0 <= number < len(self.elements):
            raise UsageError(f"element {number}: expected one from 0 to {len(self.elements) - 1}")
        return State([self.elements[number]])

    def acquire(self) -> None:
        """Take all elements for a request.

        Raises
        ------
        UsageError
            If a request in flight has one of them.
        """
        with _LOCK:
            busy = [i for i, element in enumerate(self.elements) if element.busy]
            if busy or len({id(element) for element in self.elements}) < len(self.elements):
                raise UsageError(
                    f"element {busy[0] if busy else 0} of the state is in use by a request in "
                    "flight; wait for its result first, or give each request a state of its own"
                )
            _mark(self.elements, True)

    def release(self) -> None:
        """Give all elements free again."""
        with _LOCK:
            _mark(self.elements, False)


@dataclass(frozen=True)
class _StateRow:
    """An input of the plan that is a state, of one element."""

    row: int
    shape: tuple[int, ...]
    dtype: str
    device: tvm.runtime.Device

    def new(self) -> Any:
        return copy_lasting(np.zeros(self.shape, numpy_type(self.dtype)), self.device)

    def accepts(self, tensor: Any) -> bool:
        return (
            tuple(tensor.shape) == self.shape
            and str(tensor.dtype) == self.dtype
            and tensor.device == self.device
        )

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)} on {self.device}"


class StateRows:
    """The states of a plan: makes sets of them, and puts them into requests.

    Attributes
    ----------
    names : of the states, in the plan's order; none where it keeps none.
    """

    def __init__(self, plan: Plan) -> None:
        batch, inputs = plan.batch, plan.inputs
        self._elements: list[dict[str, _StateRow]] = [{} for _ in range(batch)]
        for stack in make_stacks([row.name for row in inputs], batch):
            for element, number in enumerate(stack.rows):
                row = inputs[number]
                if row.is_state:
                    device = device_of_slot(plan, row.slot)
                    found = _StateRow(number, row.type.shape, row.type.dtype, device)
                    self._elements[element][stack.name] = found
        self.names = tuple(self._elements[0])

    def new(self) -> State:
        """A set of zeros, each tensor in the memory of the device that works on it.

        Raises
        ------
        RunError
            If there is no memory for it.
        """
        return State(
            [Element({name: row.new() for name, row in rows.items()}) for rows in self._elements]
        )

    def place(self, tensors: list[Any], state: State | None) -> None:
        """Put a set into the tensors of a request.

        Raises
        ------
        RunError
            If there is none where the plan keeps one, or the other way round, or it does not fit.
        """
        if state is None:
            if self.names:
                raise RunError(
                    f"this model keeps a state ({len(self.names)} tensors, {self.names[0]!r} and "
                    "so on); expected one: state = executor.new_state(), then run(..., state=state)"
                )
            return
        if not isinstance(state, State) or self not in state.fits:
            self._check(state)
            state.fits.add(self)
        for rows, element in zip(self._elements, state.elements, strict=True):
            for name, row in rows.items():
                tensors[row.row] = element.tensors[name]

    def _check(self, state: State) -> None:
        if not isinstance(state, State):
            raise RunError(f"state: expected what new_state() gave, got {type(state).__name__}")
        if len(state) != len(self._elements):
            raise RunError(
                f"the state is of {len(state)} elements, expected {len(self._elements)}: that many "
                "are in a batch of this plan; state.element(e) is one of them"
            )
        for rows, element in zip(self._elements, state.elements, strict=True):
            if rows.keys() != element.tensors.keys():
                raise RunError(
                    f"the state is of another model: it has {', '.join(element.tensors)[:200]}; "
                    f"expected {', '.join(rows)[:200] or 'none'}"
                )
            for name, row in rows.items():
                if not row.accepts(element.tensors[name]):
                    found = element.tensors[name]
                    raise RunError(
                        f"state {name!r} is {found.dtype}{list(found.shape)} on {found.device}; "
                        f"expected {row}: executors that share states place them alike"
                    )


def _mark(elements: Iterable[Element], busy: bool) -> None:
    for element in elements:
        element.busy = busy


def _bytes(tensor: Any) -> int:
    count = int(tensor.dtype.bits) // 8
    for extent in tensor.shape:
        count *= int(extent)
    return count
