"""What stands behind a name: a version of a model that takes queries, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.statistics import ModelStatistics
from tvm_hetero.serve.models.tensor_model import TensorModel

# States of a model, in the words of the protocol.
READY, LOADING, UNLOADING, UNAVAILABLE = "READY", "LOADING", "UNLOADING", "UNAVAILABLE"


@dataclass(eq=False)
class ServedModel:
    """A version of a model that takes queries.

    Attributes
    ----------
    name, version : by which it is asked for.
    path : of its artifact.
    tensors, decoder : what runs it; one of them is None.
    slo : seconds in which its queries shall be answered; None: no objective.
    users : who has found it and may still ask it for something (`ApiHandler.find_model`).
    """

    name: str
    version: str
    path: Path
    tensors: TensorModel | None
    decoder: DecoderModel | None
    slo: float | None = None
    statistics: ModelStatistics = field(default_factory=ModelStatistics)
    users: set[object] = field(default_factory=set)

    def close(self) -> None:
        """Stop what runs it; what is in flight fails."""
        for runner in (self.tensors, self.decoder):
            if runner is not None:
                runner.close()


@dataclass
class Standing:
    """Where a name stands, served or not.

    Attributes
    ----------
    state, reason : the protocol's state, and why it is no better one.
    model : what takes queries now.
    """

    state: str
    reason: str = ""
    model: ServedModel | None = None
