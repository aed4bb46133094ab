"""What generates text for the server: a decoder of this machine, or one on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tvm_hetero.decoders.folder import DecoderFacts
from tvm_hetero.generation.stepper import Stepper
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule


class DecoderSteps(Protocol):
    """The plan by which steps run."""

    @property
    def problem(self) -> Problem: ...

    @property
    def schedule(self) -> Schedule: ...


class ServedDecoder(Stepper, Protocol):
    """A stepper with what is known of it.

    Attributes
    ----------
    facts : what the decoder is.
    steps : the plan of its steps.
    stop : tokens that end a text.
    """

    @property
    def facts(self) -> DecoderFacts: ...

    @property
    def steps(self) -> DecoderSteps: ...

    @property
    def stop(self) -> Sequence[int]: ...

    def close(self) -> None:
        """Stop what runs it; what is in flight fails."""
        ...
