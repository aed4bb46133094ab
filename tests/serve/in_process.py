"""A server of decoders in a thread of the tests, which notes the texts that have ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tests.serve.server_thread import ServerThread
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.models.statistics import EndedGeneration


class InProcess(ServerThread):
    """A server, and what its decoders have told.

    Attributes
    ----------
    ended : texts that are over.
    firsts, nexts : how many first tokens have come, and how many others.
    """

    def __init__(self, models: Mapping[str, Path], options: ServeOptions) -> None:
        super().__init__(models, options)
        self.ended: list[EndedGeneration] = []
        self.firsts = self.nexts = 0
        self.server.context.generation_observers.append(self)

    def first_token(self, *_: object) -> None:
        self.firsts += 1

    def next_token(self, *_: object) -> None:
        self.nexts += 1

    def generation_ended(self, ended: EndedGeneration) -> None:
        self.ended.append(ended)

    def drain(self) -> None:
        self.call(self.server.drain())

    def served(self, name: str) -> ServedModel:
        return self.ask(lambda: self.server.context.repository.find(name))

    def decoder_model(self, name: str) -> DecoderModel:
        found = self.served(name).decoder
        assert found is not None
        return found


def serving(models: Mapping[str, Path], **options: object) -> InProcess:
    """A server that is ready, for as long as a ``with`` takes."""
    return InProcess(models, ServeOptions(port=0, **options))


def slow_down(decoder: Decoder, seconds: float) -> None:
    """Let every step of a decoder take that much longer."""
    quick = decoder.step

    def step(*arguments: object) -> object:
        time.sleep(seconds)
        return quick(*arguments)

    decoder.step = step
