"""What has come to a node, and which of its parts can be computed with it.

A part waits for its inputs, or, where it has none, for the request. Tensors of a request are kept
until all parts of its lane that are here have been computed. A request that failed elsewhere is
forgotten on the driver's word; tensors of it that were still on their way are let go.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tvm_hetero.cluster.parts.parts import PartSource
from tvm_hetero.cluster.transport.message import GIVEN, Array, Message, MessagePlace

# Requests that are remembered to be forgotten: more than can have messages on their way.
_FORGOTTEN = 4096
# A tensor: number of the part that makes it, or `GIVEN`; which of its outputs.
_Tensor = tuple[int, int]
# The request itself, for which a part without inputs waits.
_REQUEST: _Tensor = (GIVEN, -1)


@dataclass(frozen=True)
class PartWork:
    """A part that can be computed, with its inputs in order."""

    part: str
    place: MessagePlace
    request: int
    group: int
    slot: int | None
    arrays: tuple[Array, ...]


@dataclass
class _OpenMessage:
    """A lane of a request: what has come, what each part lacks, and which are being computed."""

    tensors: dict[_Tensor, Array] = field(default_factory=dict)
    lacking: dict[str, set[_Tensor]] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)


class Inbox:
    """See the file's text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[tuple[str, int], dict[str, MessagePlace]] = {}
        self._open: dict[tuple[int, int], _OpenMessage] = {}
        self._forgotten: deque[int] = deque(maxlen=_FORGOTTEN)

    def __len__(self) -> int:
        """Lanes of requests that are not through here."""
        return len(self._open)

    def expect(self, part: str, place: MessagePlace) -> None:
        """A part of this node: from now on its inputs are waited for."""
        with self._lock:
            self._parts.setdefault((place.model, place.lane), {})[part] = place

    def knows(self, message: Message) -> bool:
        """Whether parts of the message's model are here."""
        return (message.model, message.lane) in self._parts

    def add(self, message: Message) -> list[PartWork]:
        """What can be computed now that a message has come."""
        with self._lock:
            parts = self._parts.get((message.model, message.lane))
            if parts is None or message.request in self._forgotten:
                return []
            key = message.request, message.lane
            if key not in self._open:
                self._open[key] = _OpenMessage(lacking={p: _needs(at) for p, at in parts.items()})
            opened = self._open[key]
            tensors = [(message.part, index) for index in message.indices]
            opened.tensors.update(zip(tensors, message.arrays, strict=True))
            came = {*tensors, *([_REQUEST] if message.part == GIVEN else [])}
            return [self._work(part, parts[part], opened, message) for part in _ready(opened, came)]

    def done(self, work: PartWork) -> None:
        """A part was computed."""
        key = work.request, work.place.lane
        with self._lock:
            opened = self._open.get(key)
            if opened is None:
                return
            opened.computed.discard(work.part)
            if not opened.lacking and not opened.computed:
                del self._open[key]

    def forget(self, request: int) -> None:
        """A request has failed elsewhere: nothing of it is waited for."""
        with self._lock:
            self._forgotten.append(request)
            for key in [key for key in self._open if key[0] == request]:
                del self._open[key]

    def computing(self, request: int) -> list[str]:
        """The parts of a request that have all they need, and are not through."""
        with self._lock:
            found = [opened.computed for key, opened in self._open.items() if key[0] == request]
        return sorted(part for parts in found for part in parts)

    def clear(self) -> None:
        """Forget all parts and requests."""
        with self._lock:
            self._parts.clear()
            self._open.clear()

    def _work(
        self, part: str, place: MessagePlace, opened: _OpenMessage, message: Message
    ) -> PartWork:
        opened.computed.add(part)
        arrays = tuple(opened.tensors[_tensor(source)] for source in place.sources)
        return PartWork(part, place, message.request, message.group, message.slot, arrays)


def _ready(opened: _OpenMessage, came: set[_Tensor]) -> Iterable[str]:
    """The parts that lack nothing more now that these tensors have come."""
    found = []
    for part, lacking in list(opened.lacking.items()):
        lacking -= came
        if not lacking:
            del opened.lacking[part]
            found.append(part)
    return found


def _needs(place: MessagePlace) -> set[_Tensor]:
    return {_tensor(source) for source in place.sources} or {_REQUEST}


def _tensor(source: PartSource) -> _Tensor:
    return (GIVEN if source.part is None else source.part), source.index
