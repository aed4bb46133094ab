"""A query: one request for a model's outputs, from the door to its answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]


class Priority(IntEnum):
    """Who goes first; Triton's numbers, of which 1 is the highest, are mapped to these two."""

    HIGH = 0
    LOW = 1


@dataclass(frozen=True)
class InferenceQuery:
    """What is asked of a model that maps tensors to tensors.

    Attributes
    ----------
    inputs : arrays by the model's names, each of `items` elements along its first axis.
    items : how many elements; each is a request of the executor.
    deadline : when the answer is due, by `time.monotonic`; None: whenever it comes.
    due : when it should be answered by its model's objective; it is answered later, too.
    priority : who goes first.
    arrived : when the request's headers were there, by `time.monotonic`.
    writing : seconds that its answer is predicted to take from the last kernel's end to the door.
    """

    inputs: Arrays
    items: int = 1
    deadline: float | None = None
    due: float | None = None
    priority: Priority = Priority.LOW
    arrived: float = field(default_factory=time.monotonic)
    writing: float = 0.0


@dataclass(frozen=True)
class InferenceAnswer:
    """Outputs, and where the time went.

    Attributes
    ----------
    outputs : arrays by the model's names, in its order.
    queued, computed : seconds in the queue, and from the first kernel's turn to the last's end.
    executions : requests of executors that were made for it; 0 if it came along with another query.
    together : queries that were computed at once, this one among them.
    """

    outputs: dict[str, np.ndarray[Any, Any]]
    queued: float
    computed: float
    executions: int = 1
    together: int = 1
