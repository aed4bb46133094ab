"""Models in parts on the nodes of a cluster: placed there, run, and placed again after a loss.

A request is sent to the nodes that begin with it. What a part makes goes from its node to those
that read it (`tvm_hetero.cluster.wiring`), without passing through here; what comes here
are the model's outputs. As many requests as one likes are in flight, so that every node works on
another.

A loss ends everything: every answer that is not there yet, and every request that comes later,
fails with `NodeLost`, until `deploy` has placed the models on what is left.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tvm_hetero.cluster.driver import Cluster, first_line
from tvm_hetero.cluster.parts.parts import Part, Parts, PartSource
from tvm_hetero.cluster.transport.message import GIVEN, Array, Message, MessagePlace
from tvm_hetero.cluster.transport.routes import LaneRoutes, message_bytes, route_lane
from tvm_hetero.compiler.build import Network, build
from tvm_hetero.errors import HeteroError, NodeLost, RunError
from tvm_hetero.passes.annotate_devices import place_tasks
from tvm_hetero.util.leftovers import temporary_folder

# From what each lane made (its outputs) to the answer.
Finish = Callable[[list[list[Array]]], Any]
# Bytes of a file that are sent at once.
_PIECE = 32 * 2**20
# Seconds in which a node must have loaded a part, and in which it must say what it computes.
_LOADING, _SAYING = 300.0, 5.0
# Unique among all requests, and deployments, of this process: nodes hear of those of several
# runners, and of what was under way when another model took the place of theirs.
_numbers, _deployments = itertools.count(1), itertools.count(1)


@dataclass(frozen=True)
class RunningModel:
    """Parts as they stand on the nodes.

    Attributes
    ----------
    name : unique in a deployment; id : in all of them.
    network : the whole before anything was lost: what its libraries are made of.
    groups : sets of states that it makes; 0: it shares those of another model.
    slots : the elements that each lane computes, where they are not those of the lane.
    """

    name: str
    parts: Parts
    network: Network
    groups: int = 0
    slots: tuple[int, ...] | None = None

    @cached_property
    def id(self) -> str:
        """The name of the model as it is deployed now."""
        return f"{next(_deployments)}.{self.name}"

    @cached_property
    def routes(self) -> tuple[LaneRoutes, ...]:
        """The way of each lane's tensors."""
        lanes = enumerate(self.parts.lanes)
        return tuple(route_lane(self.id, number, lane) for number, lane in lanes)


@dataclass
class _OpenRequest:
    """A request in flight: what has come of what each lane makes, and how much has not."""

    answer: Future[Any]
    model: RunningModel
    finish: Finish
    values: list[list[Any]]
    left: int
    since: float = field(default_factory=time.monotonic)


class Runner:
    """Runs models on a cluster (see the file's text).

    Parameters
    ----------
    deadline : seconds that a request may take; a node that makes it take longer is lost.
    """

    def __init__(self, cluster: Cluster, deadline: float) -> None:
        self.cluster = cluster
        self._deadline = deadline
        self._lock = threading.Lock()
        self._open: dict[int, _OpenRequest] = {}
        self._loss: str | None = "nothing has been deployed"
        self._is_closed = False
        cluster.listen(self._lost, self._beat)
        cluster.wiring.listen(self._came)

    @property
    def loss(self) -> str | None:
        """Why nothing runs now; None: all is well."""
        return self._loss

    def deploy(self, models: Sequence[RunningModel]) -> None:
        """Build the parts of models and place them on their nodes, instead of what was there.

        Raises
        ------
        NodeLost
            If a node is lost meanwhile; plan again.
        """
        before = set(self.cluster.lost)
        for node in self.cluster.nodes:
            self.cluster.get(self.cluster.call(node, "clear")[0], node, _LOADING)
        sizes: dict[tuple[str, str], int] = {}
        for model in models:
            for pair, nbytes in message_bytes(model.parts, model.routes).items():
                sizes[pair] = max(sizes.get(pair, 0), nbytes)
            for lane, ways in zip(model.parts.lanes, model.routes, strict=True):
                for part, place in zip(lane.parts, ways.places, strict=True):
                    self._place(model, lane.elements, part, place)
        self.cluster.wiring.require(sizes)
        with self._lock:
            lost = set(self.cluster.lost) - before
            self._loss = f"lost while it was placed: {', '.join(lost)}" if lost else None
        if lost:
            raise NodeLost(self._loss)

    def submit(
        self,
        model: RunningModel,
        inputs: Sequence[Sequence[Any]],
        finish: Finish,
        group: int = 0,
        slot: int | None = None,
    ) -> Future[Any]:
        """Begin a request.

        Parameters
        ----------
        inputs : for each lane the model's inputs, in order.
        finish : makes the answer of what each lane made.
        group, slot : whose states it works on.
        """
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # it cannot be given up: nodes are at work on it
        request = _opened(answer, model, finish, inputs)
        with self._lock:
            if self._loss is not None:
                answer.set_exception(NodeLost(self._loss))
                return answer
            number = next(_numbers)
            self._open[number] = request
        if request.left == 0:  # nothing is computed: all outputs are inputs
            self._finish(number, request)
        try:
            for lane, (ways, given) in enumerate(zip(model.routes, inputs, strict=True)):
                for node, indices in ways.given.items():
                    arrays = [given[index] for index in indices]
                    message = Message(model.id, lane, GIVEN, number, group, slot, indices, arrays)
                    self.cluster.wiring.send(node, message)
        except Exception as error:
            self._failed(number, error)
        return answer

    def give_up(self, reason: str) -> None:
        """End everything as a loss does: what is in flight fails, and `deploy` is due."""
        self._fail_all(reason, NodeLost)

    def close(self) -> None:
        """Forget all models; what is in flight fails."""
        if self._is_closed:
            return
        self._is_closed = True
        self.cluster.unlisten(self._lost, self._beat)
        self.cluster.wiring.unlisten(self._came)
        self._fail_all("the executor was closed", RunError)

    def _place(
        self, model: RunningModel, elements: Sequence[int], part: Part, place: MessagePlace
    ) -> None:
        name, cluster = f"{model.id}.{part.name}", self.cluster
        placed = place_tasks(part.module, part.problem, part.schedule)
        with temporary_folder("tvm_hetero.") as folder:
            root = folder / "part"
            build(placed, single=False, network=model.network).save(root)
            for path in sorted(p for p in root.rglob("*") if p.is_file()):
                file = str(path.relative_to(root))
                for piece in _pieces(path):
                    ref = cluster.call(part.node, "receive", name, file, piece)[0]
                    cluster.get(ref, part.node, _LOADING)
        slots = list(elements if model.slots is None else model.slots)
        names = [given for given, _ in part.inputs]
        ref = cluster.call(part.node, "start", name, names, slots, model.groups, place)[0]
        cluster.get(ref, part.node, _LOADING)

    def _came(self, message: Message) -> None:
        """Outputs of a request, or why there are none."""
        number = message.request
        if message.error is not None:
            self._failed(number, message.error)
            return
        with self._lock:
            request = self._open.get(number)
            if request is None:
                return
            lane = request.model.parts.lanes[message.lane]
            made = {PartSource(message.part, i): x for i, x in
                    zip(message.indices, message.arrays, strict=True)}  # fmt: skip
            for k, source in enumerate(lane.results):
                if source in made:
                    request.values[message.lane][k] = made[source]
                    request.left -= 1
            through = request.left == 0
        if through:
            self._finish(number, request)

    def _finish(self, number: int, request: _OpenRequest) -> None:
        try:
            self._settle(number, request.finish(request.values))
        except Exception as problem:
            self._settle(number, error=problem)

    def _failed(self, number: int, error: Exception) -> None:
        """A request has failed somewhere: those who wait for its tensors are told."""
        with self._lock:
            request = self._open.get(number)
        if request is None:
            return
        kept = error if isinstance(error, HeteroError) else RunError(f"Ray: {first_line(error)}")
        for node in request.model.parts.nodes:
            with suppress(NodeLost):
                self.cluster.call(node, "forget", number)
        self._settle(number, error=kept)

    def _settle(self, number: int, value: Any = None, error: BaseException | None = None) -> None:
        with self._lock:
            request = self._open.pop(number, None)
            if isinstance(error, NodeLost) and self._loss is None:
                self._loss = str(error)
        if request is None:
            return
        if error is not None:
            request.answer.set_exception(error)
        else:
            request.answer.set_result(value)

    def _lost(self, node: str, reason: str) -> None:
        self._fail_all(f"node {node!r} is lost: {reason}", NodeLost)

    def _fail_all(self, reason: str, kind: type[HeteroError]) -> None:
        with self._lock:
            self._loss = reason
            requests = list(self._open.values())
            self._open.clear()
        for request in requests:
            request.answer.set_exception(kind(reason))

    def _beat(self) -> None:
        """Find requests that are late, and the node that each of them waits for."""
        late = time.monotonic() - self._deadline
        with self._lock:
            overdue = {n: request for n, request in self._open.items() if request.since < late}
        for number, request in overdue.items():
            for node in request.model.parts.nodes:
                if self._computes(node, number):
                    return
            told = (
                f"no node computes what took longer than {self._deadline:g} s; a message was lost"
            )
            self._failed(number, RunError(told))

    def _computes(self, node: str, number: int) -> bool:
        """Whether a node computes a request that is late; then it is lost."""
        try:
            parts = self.cluster.get(self.cluster.call(node, "computing", number)[0], node, _SAYING)
        except NodeLost:
            return True
        if parts:
            reason = f"{parts[0]} took longer than {self._deadline:g} s"
            self.cluster.report_lost(node, reason)
        return bool(parts)


def _opened(
    answer: Future[Any], model: RunningModel, finish: Finish, inputs: Sequence[Sequence[Any]]
) -> _OpenRequest:
    """A request; outputs that are inputs are there already."""
    values = [
        [given[source.index] if source.part is None else None for source in lane.results]
        for lane, given in zip(model.parts.lanes, inputs, strict=True)
    ]
    left = sum(source.part is not None for lane in model.parts.lanes for source in lane.results)
    return _OpenRequest(answer, model, finish, values, left)


def _pieces(path: Path) -> list[Array]:
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    return [data[at : at + _PIECE] for at in range(0, len(data) or 1, _PIECE)]
