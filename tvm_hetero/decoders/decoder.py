"""A decoder on this machine: a step's and a prefill's executor over the same caches.

Caches are states of the executors (`tvm_hetero.executor.state`): one set for each group of slots.
The executor of steps runs all slots of a group at once; that of prefills is for one sequence and
uses the slot's part of the group's caches where it is. What generates, `generate` and `stream`, is
`tvm_hetero.generation`, which sees a `Stepper` here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.decoders.folder import PREFILL, STEP, DecoderFacts, read_facts
from tvm_hetero.errors import ArtifactError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.futures import Pending
from tvm_hetero.executor.shared_weights import share_weights
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.generation.generate import Generates
from tvm_hetero.util.closeable import Closeable


class Logits:
    """What was asked of a decoder: a future of logits in the shape that a `Stepper` promises."""

    def __init__(self, pending: Pending, shape: tuple[int, ...]) -> None:
        self._pending = pending
        self._shape = shape

    def result(self, timeout: float | None = None) -> np.ndarray[Any, Any]:
        """Wait for them (see `concurrent.futures.Future`)."""
        return as_array(self._pending.result(timeout)[0]).reshape(self._shape)

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call `fn` with this when they are there."""
        self._pending.add_done_callback(lambda _: fn(self))


class Decoder(Generates, Closeable):
    """Generates tokens on the devices of this machine.

    >>> decoder = tvm_hetero.load("gpt2.hetero")                                # doctest: +SKIP
    >>> decoder.generate([[464, 3290], [40]], 20)[0].tokens                     # doctest: +SKIP
    >>> for sequence, token in decoder.stream([[464, 3290], [40]], 20): ...     # doctest: +SKIP

    Attributes
    ----------
    facts : what the decoder is (`DecoderFacts`); its sizes are attributes here too.
    stop : tokens that end a sequence unless others are given.
    steps, prefills : the executors; None: tokens go in by steps alone.
    weight_bytes, shared_bytes : of all weights in memory, and of those that both executors use.
    """

    def __init__(
        self,
        facts: DecoderFacts,
        step: Executable,
        prefill: Executable | None = None,
        variant: str | None = None,
    ) -> None:
        self.facts = facts
        self.groups, self.batch, self.chunk = facts.groups, facts.batch, facts.chunk
        self.length, self.vocabulary, self.stop = facts.length, facts.vocabulary, facts.eos
        both = [step] if prefill is None else [step, prefill]
        shared = share_weights(both)
        self.weight_bytes, self.shared_bytes = shared.bytes, shared.saved
        executors = [Executor(each, variant) for each in shared.executables]
        self.steps = executors[0]
        self.prefills = executors[1] if prefill is not None else None
        self._check()
        self._states = [self.steps.new_state() for _ in range(self.groups)]
        self._slots = [[state.element(e) for e in range(self.batch)] for state in self._states]

    @classmethod
    def load(cls, path: str | os.PathLike[str], variant: str | None = None) -> Decoder:
        """Load a decoder's folder and start its executors.

        Raises
        ------
        ArtifactError
            If there is none, or it is damaged or of another version.
        """
        path = Path(path)
        facts = read_facts(path)
        step = load_artifact(path / STEP)
        prefill = load_artifact(path / PREFILL) if facts.chunk > 1 else None
        return cls(facts, step, prefill, variant)

    def prefill(self, group: int, slot: int, tokens: Sequence[int], position: int) -> Logits:
        """Put up to `chunk` tokens into a slot; the logits [vocabulary] of the last of them."""
        if self.prefills is None:
            raise UsageError("this decoder has no prefill (chunk 1): use steps")
        names = ("token", "position", "last")
        values = dict(zip(names, self.pad_chunk(tokens, position), strict=True))
        pending = self.prefills.submit(values, state=self._slots[group][slot])
        return Logits(pending, (self.vocabulary,))

    def step(self, group: int, tokens: Sequence[int], positions: Sequence[int]) -> Logits:
        """Put a token into each slot of a group; the logits [batch, vocabulary]."""
        self.check_rows(tokens, positions)
        values = {
            "token": np.array(tokens, np.int32),
            "position": np.array(positions, np.int32),
        }
        pending = self.steps.submit(values, state=self._states[group])
        return Logits(pending, (self.batch, self.vocabulary))

    def recover(self) -> None:
        """Nothing: caches of this machine are not lost while it runs."""

    def close(self) -> None:
        """Stop the executors: what is in flight fails, and nothing can be run any more."""
        self.closed = True
        self.steps.close()
        if self.prefills is not None:
            self.prefills.close()

    def _check(self) -> None:
        """Refuse executors that are not those of the facts.

        Raises
        ------
        ArtifactError
            If they are not.
        """
        expected = [("steps", self.steps, self.batch, self.batch)]
        if self.prefills is not None:
            expected.append(("prefills", self.prefills, 1, self.chunk))
        for what, executor, batch, tokens in expected:
            shapes = {info.name: info.shape for info in executor.inputs}
            if executor.batch != batch or shapes.get("token") != (tokens,):
                self.close()
                raise ArtifactError(
                    f"the artifact of {what} is for a batch of {executor.batch} and tokens "
                    f"{shapes.get('token')}, which is not what {self.facts} says; build it again"
                )
