"""What handlers work on: the models, who decides the order, the options, and whether it is over."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.models.dispatcher import Observed
from tvm_hetero.serve.models.repository import Repository
from tvm_hetero.serve.models.statistics import GenerationObserver


@dataclass(eq=False)
class ServeContext:
    """Shared by all handlers of a server.

    Attributes
    ----------
    draining : whether the server takes nothing new.
    active : handlers of the requests that are being answered.
    generation_observers : told of what decoders generate.
    began : when, by `time.monotonic`.
    parts : what single protocols keep (by their package's name).
    is_loopback : whether only this machine can reach the server.
    """

    options: ServeOptions
    repository: Repository
    dispatcher: Observed
    draining: bool = False
    active: set[Any] = field(default_factory=set)
    generation_observers: list[GenerationObserver] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)

    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.is_loopback = self.options.is_loopback  # asked for each request

    @property
    def busy(self) -> int:
        """How many requests are being answered."""
        return len(self.active)
