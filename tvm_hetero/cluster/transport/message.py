"""What processes of a cluster tell each other while a model runs.

A *message* brings tensors of a request to a process: those that one part made and the receiver
reads, or those that the request itself brings. It names the part and the tensors, not who is to
read them: each node knows that of its own parts (`tvm_hetero.cluster.transport.inbox`). Whose
states are worked on goes along, since nothing else tells a node of a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tvm_hetero.cluster.parts.parts import PartSource
from tvm_hetero.errors import HeteroError

Array = np.ndarray[Any, Any]
# The driver among the names of nodes, none of which is empty.
DRIVER = ""
# In the place of a model's name: what is only passed on, along `Message.route`.
ECHO = ""
# In the place of a part's number: what the request itself brings.
GIVEN = -1


class Message(NamedTuple):
    """Tensors of a request, or why there are none.

    Attributes
    ----------
    model, lane, part : what made them; `GIVEN`: the request brings them.
    request : its number, unique among all requests of the driver.
    group, slot : whose states it works on; slot None: those of all slots.
    indices : which outputs of the part (inputs of the model) the arrays are.
    error : what went wrong instead.
    route : of an echo: who is to pass it on.
    """

    model: str
    lane: int
    part: int
    request: int
    group: int
    slot: int | None
    indices: tuple[int, ...]
    arrays: Sequence[Array]
    error: HeteroError | None = None
    route: tuple[str, ...] = ()

    def own(self) -> Message:
        """The message with arrays in memory of its own."""
        return self._replace(arrays=[np.array(array) for array in self.arrays])


@dataclass(frozen=True)
class MessagePlace:
    """Where a part stands in what flows.

    Attributes
    ----------
    model, lane, number : which part of which lane it is.
    sources : where each input comes from.
    readers : of each output the nodes that read it, `DRIVER` among them where it is a result.
    """

    model: str
    lane: int
    number: int
    sources: tuple[PartSource, ...]
    readers: tuple[tuple[str, ...], ...]
