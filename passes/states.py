"""State of a model: inputs that stay where they are, and that one kernel writes in place.

The caches of a decoder's attention are such: a request reads what those before it have written. A
model names them in the attribute `STATES` of its ``main``. A state is an argument of exactly one
kernel call, so that it is clear who writes it and when. It lives on the device that runs this
call, is never copied, and counts as memory of the call's task, for every element of the batch.

`STATE_SETS` says how many sets of states are kept at once (default 1): groups of sequences that are
in flight together have each its own.

`RANGES` says between which numbers an input of integers lies (JSON: its name, then the least
and the largest): random inputs keep to them, and what depends on them is measured in the middle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tvm_hetero.errors import ModelError
from tvm_hetero.passes.attributes import RANGES, STATE_SETS, STATES
from tvm_hetero.passes.lowered_main import LoweredMain, TensorSource, tensor_bytes


def states_of(main: LoweredMain) -> tuple[int, ...]:
    """Which parameters are states, by their positions.

    Raises
    ------
    ModelError
        If a state is named that is no input.
    """
    attrs, names = main.function.attrs, main.inputs
    kept = [str(name) for name in attrs[STATES]] if attrs and STATES in attrs else []
    unknown = sorted(set(kept) - set(names))
    if unknown:
        raise ModelError(
            f"{STATES} names {unknown[0]!r}, which is no input; expected some of {', '.join(names)}"
        )
    return tuple(i for i, name in enumerate(names) if name in set(kept))


def state_readers(main: LoweredMain) -> dict[int, int]:
    """For each state, by its position, the call that reads and writes it.

    Raises
    ------
    ModelError
        If it is not exactly one, or a state is returned.
    """
    states, names = states_of(main), main.inputs
    readers: dict[int, list[int]] = {state: [] for state in states}
    for call in main.calls if states else ():
        for root in main.reads(call):
            if root.call is None and root.index in readers:
                readers[root.index].append(call.position)
    returned = {main.root(result) for result in main.results()} if states else set()
    for state, calls in readers.items():
        is_returned = TensorSource(None, state) in returned
        if len(calls) != 1 or is_returned:
            who = ", ".join(main.task_ids[call] for call in calls) or "none"
            raise ModelError(
                f"state {names[state]!r} is read by {who}{' and returned' if is_returned else ''}; "
                "expected exactly one kernel, which writes it in place"
            )
    return {state: calls[0] for state, calls in readers.items()}


def state_bytes(main: LoweredMain) -> dict[str, int]:
    """Bytes of the states that each task keeps, for one element; tasks without any are left out."""
    sizes: dict[str, int] = {}
    for state, call in state_readers(main).items():
        task = main.task_ids[call]
        sizes[task] = sizes.get(task, 0) + tensor_bytes(main.params[state].ty)
    return sizes


def state_sets(main: LoweredMain) -> int:
    """How many sets of states are kept at once."""
    attrs = main.function.attrs
    return int(attrs[STATE_SETS]) if attrs and STATE_SETS in attrs else 1


def ranges_of(main: LoweredMain) -> Mapping[str, tuple[int, int]]:
    """Between which integers an input lies, by its plain name.

    Raises
    ------
    ModelError
        If the attribute is none of ours.
    """
    attrs = main.function.attrs
    if not attrs or RANGES not in attrs:
        return {}
    try:
        found = json.loads(str(attrs[RANGES]))
        return {str(name): (int(least), int(most)) for name, (least, most) in found.items()}
    except (ValueError, TypeError, AttributeError):
        raise ModelError(
            f"{RANGES} is {attrs[RANGES]!s:.100}; expected JSON such as "
            '{"token": [0, 50256]}: the least and the largest number of each input'
        ) from None
