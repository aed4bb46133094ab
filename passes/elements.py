"""Names in the program of a batch: ``NAME#e`` is element e's.

A placed module runs a whole batch at once. Every task, input and output of the model is there
once for each element (an element is one set of the model's inputs), and the element's number
stands behind its name. A batch of one element has plain names: its program is the model's own.

In a list of all elements' names the elements follow each other: all names of element 0, then
all of element 1, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence

MARK = "#"


def element_name(name: str, element: int, batch: int) -> str:
    """The name of `name` for one element of a batch."""
    return name if batch == 1 else f"{name}{MARK}{element}"


def element_names(names: Sequence[str], batch: int) -> list[str]:
    """The names of all elements of a batch."""
    return [element_name(name, element, batch) for element in range(batch) for name in names]


def split_task(task: str) -> tuple[str, int]:
    """The problem's task of which ``TASK#e`` is element e, and e; a plain name is of element 0.

    Unlike names of inputs, which a model is free to choose, ids of tasks have no mark of their
    own.
    """
    name, _, element = task.partition(MARK)
    return name, int(element or 0)


def plain_task(task: str) -> str:
    """The problem's task of which ``TASK#e`` is an element."""
    return split_task(task)[0]


def batch_of(tasks: Sequence[str]) -> int:
    """How many elements the tasks of a placed module are of."""
    return 1 + max((split_task(task)[1] for task in tasks), default=0)
