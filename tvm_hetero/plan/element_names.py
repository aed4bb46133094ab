"""Names in the program of a batch: ``NAME#e`` is element e's, ``TASK#0,1,2`` a call for three.

A placed module runs a whole batch at once. Every task, input and output of the model is there
once for each element (an element is one set of the model's inputs), and the element's number
stands behind its name. A batch of one element has plain names: its program is the model's own.

A kernel may compute several elements of a task at once (`tvm_hetero.kernels.tir.batched`): its call
bears the numbers of all of them, in the order of its arguments.

In a list of all elements' names the elements follow each other: all names of element 0, then
all of element 1, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence

MARK = "#"


def element_name(name: str, element: int) -> str:
    """The name of `name` for one element of a batch of several."""
    return f"{name}{MARK}{element}"


def element_names(names: Sequence[str], batch: int) -> list[str]:
    """The names of all elements of a batch."""
    if batch == 1:
        return list(names)
    return [element_name(name, element) for element in range(batch) for name in names]


def task_name(task: str, elements: Sequence[int], batch: int) -> str:
    """The name of a call that computes some elements of a task."""
    return task if batch == 1 else f"{task}{MARK}{','.join(map(str, elements))}"


def split_task(name: str) -> tuple[str, tuple[int, ...]]:
    """The problem's task and the elements that a call computes; a plain name is of element 0.

    Unlike names of inputs, which a model is free to choose, ids of tasks have no mark of their
    own.

    Raises
    ------
    ValueError
        If what stands behind the mark is not a list of numbers.
    """
    task, mark, elements = name.partition(MARK)
    return task, tuple(int(e) for e in elements.split(",")) if mark else (0,)


def plain_task(name: str) -> str:
    """The problem's task of which a call computes elements."""
    return split_task(name)[0]


def batch_of(names: Sequence[str]) -> int:
    """How many elements the calls of a placed module are of."""
    return 1 + max((max(split_task(name)[1]) for name in names), default=0)
