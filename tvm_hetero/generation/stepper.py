"""What runs a decoder, as generation sees it: slots with caches, filled by chunks and by steps.

A stepper has `groups` groups of `batch` slots. A slot holds the caches of one sequence: `length`
rows, row p made of token p. Two kinds of requests fill them:

    prefill   a chunk of up to `chunk` tokens of one slot, rows position .. position + len - 1;
              rows behind those may be written too (the chunk is padded), up to position + chunk
    step      one token for every slot of a group, each in a row of its own; a slot that has
              nothing to do is given a token all the same, whose row is written: give it a row
              that will be written again before it is read

Attention of a token reads the rows of its slot up to its own, and nothing behind, so rows are
written again as often as one likes. Requests of different groups may be in flight together; of one
group, one at a time.

A stepper may lose its caches (a machine died). Then all that is in flight, and all that is asked
for afterwards, fails with `NodeLost` until `recover` has been called, which comes back when there
are slots again, all of them empty. An answer that is no error is of whole caches, always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np


class PendingLogits(Protocol):
    """What was asked of a stepper: a `concurrent.futures.Future` of logits is one."""

    def result(self, timeout: float | None = None) -> np.ndarray[Any, Any]:
        """Wait for the logits; raises what went wrong, a `HeteroError`."""
        ...

    def add_done_callback(self, fn: Callable[[Any], object], /) -> object:
        """Call `fn` (with the answer) when it is there, from whatever thread, or now if it is."""
        ...


class Stepper(Protocol):
    """Runs chunks and steps of a decoder (see the file's text).

    Attributes
    ----------
    groups : groups of slots, whose requests may be in flight together.
    batch : slots of a group.
    length : rows of a slot's caches.
    vocabulary : numbers of a row of logits; tokens are below it.
    chunk : tokens of a prefill at most; 1: there is no prefill, tokens go in by steps alone.
    """

    @property
    def groups(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def length(self) -> int: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def chunk(self) -> int: ...

    def prefill(self, group: int, slot: int, tokens: Sequence[int], position: int) -> PendingLogits:
        """Put up to `chunk` tokens into a slot; the logits [vocabulary] of the last of them."""
        ...

    def step(self, group: int, tokens: Sequence[int], positions: Sequence[int]) -> PendingLogits:
        """Put a token into each slot of a group; the logits [batch, vocabulary]."""
        ...

    def recover(self) -> None:
        """Have slots again after `NodeLost`; nothing is in flight now. Without a loss: nothing.

        Raises
        ------
        HeteroError
            If there is nothing left to run on.
        """
        ...
