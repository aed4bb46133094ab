"""Models in parts on the nodes of a cluster: placed there, run, and placed anew after a loss.

A request calls all parts of all lanes at once (`tvm_hetero.cluster.flow`); what one part makes goes
to the nodes that read it by Ray, without passing through here. As many requests as one likes are in
flight, so that every node works on another one.

A loss ends everything: every answer that is not there yet, and every request that comes later,
fails with `NodeLost`, until `deploy` has placed the models on what is left.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tvm_hetero.cluster.driver import Cluster, first_line, plain_error
from tvm_hetero.cluster.flow import flow
from tvm_hetero.cluster.parts import Lane, Part, Parts
from tvm_hetero.errors import HeteroError, NodeLost, RunError
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.runtime.compile import Network, build

Array = np.ndarray[Any, Any]
# From what each lane made (its outputs) to the answer.
Finish = Callable[[list[list[Array]]], Any]
# Bytes of a file that are sent at once.
_PIECE = 32 * 2**20
# Seconds in which a node must have loaded a part.
_LOADING = 300.0


@dataclass(frozen=True)
class Model:
    """Parts as they stand on the nodes.

    Attributes
    ----------
    name : unique in a deployment.
    network : the whole before anything was lost: what its libraries are made of.
    groups : sets of states that it makes; 0: it shares those of another model.
    slots : the elements that each lane computes, where they are not those of the lane.
    """

    name: str
    parts: Parts
    network: Network
    groups: int = 0
    slots: tuple[int, ...] | None = None


@dataclass
class _Open:
    """A request in flight: what it waits for, and who makes that."""

    answer: Future[Any]
    since: float
    waits: list[tuple[Part, list[Any]]] = field(default_factory=list)


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
        self._open: dict[int, _Open] = {}
        self._count = 0
        self._loss: str | None = "nothing has been deployed"
        cluster.listen(self._lost, self._beat)

    @property
    def loss(self) -> str | None:
        """Why nothing runs now; None: all is well."""
        return self._loss

    def deploy(self, models: Sequence[Model]) -> None:
        """Build the parts of models and place them on their nodes, instead of what was there.

        Raises
        ------
        NodeLost
            If a node is lost meanwhile; plan again.
        """
        before = set(self.cluster.lost)
        for node in self.cluster.nodes:
            self.cluster.get(self.cluster.call(node, "clear")[0], node, _LOADING)
        for model in models:
            for lane in model.parts.lanes:
                for part in lane.parts:
                    self._place(model, lane, part)
        with self._lock:
            lost = set(self.cluster.lost) - before
            self._loss = f"lost while it was placed: {', '.join(lost)}" if lost else None
        if lost:
            raise NodeLost(self._loss)

    def submit(
        self,
        model: Model,
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
        with self._lock:
            if self._loss is not None:
                answer.set_exception(NodeLost(self._loss))
                return answer
            number = self._count = self._count + 1
            request = self._open[number] = _Open(answer, time.monotonic())
        try:
            results = [
                flow(lane, self._caller(model, request, group, slot), given)
                for lane, given in zip(model.parts.lanes, inputs, strict=True)
            ]
        except HeteroError as error:
            self._settle(number, error=error)
            return answer
        except Exception as error:  # Ray's own: whoever waits for the answer must hear of it
            self._settle(number, error=RunError(f"Ray: {first_line(error)}"))
            return answer
        _Gather(results, lambda made, error: self._gathered(number, finish, made, error))
        return answer

    def give_up(self, reason: str) -> None:
        """End everything as a loss does: what is in flight fails, and `deploy` is due."""
        self._fail_all(reason, NodeLost)

    def close(self) -> None:
        """Forget all models; what is in flight fails."""
        self.cluster.unlisten(self._lost, self._beat)
        self._fail_all("the executor was closed", RunError)

    def _caller(
        self, model: Model, request: _Open, group: int, slot: int | None
    ) -> Callable[[Part, list[Any]], Sequence[Any]]:
        def call(part: Part, arguments: list[Any]) -> Sequence[Any]:
            name = f"{model.name}.{part.name}"
            refs = self.cluster.call(
                part.node, "run", name, group, slot, *arguments, returns=part.outputs
            )
            request.waits.append((part, refs))
            return refs

        return call

    def _place(self, model: Model, lane: Lane, part: Part) -> None:
        name, cluster = f"{model.name}.{part.name}", self.cluster
        placed = annotate_devices(part.module, part.problem, part.schedule)
        with tempfile.TemporaryDirectory(prefix="tvm_hetero.") as folder:
            root = Path(folder) / "part"
            build(placed, single=False, network=model.network).save(root)
            for path in sorted(p for p in root.rglob("*") if p.is_file()):
                file = str(path.relative_to(root))
                for piece in _pieces(path):
                    ref = cluster.call(part.node, "receive", name, file, piece)[0]
                    cluster.get(ref, part.node, _LOADING)
        slots = lane.elements if model.slots is None else model.slots
        names = [given for given, _ in part.inputs]
        ref = cluster.call(part.node, "start", name, names, list(slots), model.groups)[0]
        cluster.get(ref, part.node, _LOADING)

    def _gathered(
        self, number: int, finish: Finish, made: list[list[Array]], error: BaseException | None
    ) -> None:
        if error is None:
            try:
                self._settle(number, finish(made))
            except Exception as problem:
                self._settle(number, error=problem)
            return
        if self.cluster.is_loss(error):
            # Which node it was is told by who asks them; the answer is lost in any case.
            self._settle(number, error=NodeLost(f"a node died: {first_line(error)}"))
            return
        self._settle(number, error=plain_error(error))

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
            overdue = [request for request in self._open.values() if request.since < late]
        for request in overdue:
            for part, refs in list(request.waits):
                if not self.cluster.ready(refs):
                    reason = f"{part.name} took longer than {self._deadline:g} s"
                    self.cluster.report_lost(part.node, reason)
                    return


class _Gather:
    """Waits for the tensors of all lanes, each of which comes at its own time."""

    def __init__(
        self,
        results: list[list[Any]],
        done: Callable[[list[list[Array]], BaseException | None], None],
    ) -> None:
        self._values: list[list[Any]] = [[None] * len(row) for row in results]
        self._left = sum(map(len, results))
        self._done: Callable[[list[list[Array]], BaseException | None], None] | None = done
        self._lock = threading.Lock()
        for i, row in enumerate(results):
            for k, ref in enumerate(row):
                self._wait(ref, i, k)

    def _wait(self, ref: Any, i: int, k: int) -> None:
        if isinstance(ref, np.ndarray):  # an input that is an output too
            self._came(ref, None, i, k)
            return
        ref.future().add_done_callback(
            lambda future: self._came(
                None if future.exception() else future.result(), future.exception(), i, k
            )
        )

    def _came(self, value: Any, error: BaseException | None, i: int, k: int) -> None:
        with self._lock:
            self._values[i][k] = value
            self._left -= 1
            done = self._done if error is not None or self._left == 0 else None
            if done is not None:
                self._done = None
        if done is not None:
            done(self._values, error)


def _pieces(path: Path) -> list[Array]:
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    return [data[at : at + _PIECE] for at in range(0, len(data) or 1, _PIECE)]
