"""One node: the process that has a machine's devices, its parts of the model and their states.

The driver (`tvm_hetero.cluster.driver`) makes one a machine, an actor of Ray. It knows nothing of
Ray itself, so that tests may use it where they are. What it is told to do comes in this order:

    receive   the files of a part's artifact, piece by piece
    start     load it, and make its states, or share those that are there
    take      tensors of a request have come: compute what can be, and send on what that makes;
              from several threads at once, for groups that are in flight together
    clear     forget everything: the next plan comes

Arrays of a lane of several elements are stacked: their first axis counts the elements.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tvm_hetero.processes.torch_import import without_torch

with without_torch():  # a node's process begins with this module
    from tvm_hetero.artifact.manifest import versions
    from tvm_hetero.cluster.transport.inbox import Inbox, PartWork
    from tvm_hetero.cluster.transport.message import (
        DRIVER,
        ECHO,
        GIVEN,
        Array,
        Message,
        MessagePlace,
    )
    from tvm_hetero.cluster.transport.routes import group_by_reader
    from tvm_hetero.errors import ArtifactError, HeteroError, ProfileError, RunError, UsageError
    from tvm_hetero.executor.executor import Executor, load
    from tvm_hetero.executor.state import Element, State
    from tvm_hetero.executor.tensors import as_array
    from tvm_hetero.platform.host import available_cores
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.util.leftovers import make_folder, remove

# Sends a message to a process: a node by its name, or the driver.
Send = Callable[[str, Message], None]
# Group, slot, name of the state.
_Key = tuple[int, int, str]
# Parts that are computed at once; the others wait.
THREADS = 16


@dataclass
class _Started:
    """A part that runs: `slots` are the elements of the batch that it computes."""

    executor: Executor
    inputs: tuple[str, ...]
    slots: tuple[int, ...]
    states: dict[tuple[int, int | None], State] = field(default_factory=dict)


class Node:
    """See the file's text."""

    def __init__(self, name: str, cores: Sequence[int] = ()) -> None:
        self.name = name
        if cores:
            _pin(cores)
        # Of each part that comes, until it is loaded: then all of it is in memory.
        self._folders: dict[str, Path] = {}
        self._parts: dict[str, _Started] = {}
        self._tensors: dict[_Key, Any] = {}
        self._inbox = Inbox()
        self._pool = ThreadPoolExecutor(THREADS, f"tvm_hetero {name}")
        self._lock = threading.Lock()
        # Seconds in which parts were computed, since when one is, and how many are.
        self._busy, self._since, self._active = 0.0, 0.0, 0

    def describe(self) -> dict[str, Any]:
        """What is here: process, cores, devices, versions."""
        platform = Platform.detect(1, cores=available_cores())
        return {
            "name": self.name,
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "cores": sorted(available_cores()),
            "platform": platform.to_dict(),
            "versions": {**versions(), "python": ".".join(map(str, sys.version_info[:2]))},
        }

    def ping(self) -> int:
        """Answer: the process is alive, and runs."""
        return os.getpid()

    def profile(self, kernels: str, platform: str) -> str:
        """Measure kernels on this node's devices; texts as in `tvm_hetero.cluster.costs`."""
        from tvm_hetero.cluster.kernel_text import kernels_from_text
        from tvm_hetero.cost_models.profiled import ProfiledCosts
        from tvm_hetero.problem.implementation_choice import choices_to_dict

        model = ProfiledCosts(in_place=False)
        place = Platform.from_dict(json.loads(platform), f"devices of node {self.name!r}")
        with suppress(ProfileError):  # a kernel that runs on none of these may run elsewhere
            model.costs(kernels_from_text(kernels), place)
        found = model.profile
        return json.dumps(
            {
                "choices": choices_to_dict(found.choices.values()),
                "traces": found.traces,
                "reasons": found.reasons,
            }
        )

    def receive(self, part: str, file: str, data: Array) -> None:
        """Append bytes to a file of a part's artifact."""
        relative = PurePosixPath(file)
        if relative.is_absolute() or ".." in relative.parts:
            raise ArtifactError(f"part {part!r}: names a file outside of itself: {file!r}")
        if part not in self._folders:
            self._folders[part] = make_folder(f"tvm_hetero.{self.name}.")
        path = self._folders[part] / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write(data.data)

    def start(
        self,
        part: str,
        inputs: Sequence[str],
        slots: Sequence[int],
        groups: int,
        place: MessagePlace,
    ) -> None:
        """Load a part whose files have come.

        Parameters
        ----------
        inputs : names of its inputs, in the order of `place.sources`.
        slots : the elements of the batch that it computes; several parts may share states.
        groups : sets of states that are wanted; 0: those that are there are shared, slot by slot.
        place : what it reads, and who reads what it makes.
        """
        if part not in self._folders:
            raise UsageError(f"node {self.name!r} got no files of part {part!r}; send them first")
        executor = load(self._folders[part])
        remove(self._folders.pop(part))
        started = _Started(executor, tuple(inputs), tuple(slots))
        for group in range(groups if executor.states else 0):
            state = executor.new_state()
            started.states[group, None] = state
            for slot, element in zip(slots, state.elements, strict=True):
                for name, tensor in element.tensors.items():
                    self._tensors[group, slot, name] = tensor
        self._parts[part] = started
        self._inbox.expect(part, place)

    def take(self, message: Message, send: Send) -> None:
        """Tensors have come: compute what they complete, elsewhere; what that makes is sent.

        Never waits, and never raises: an error goes to the driver.
        """
        if message.model == ECHO:
            self._pool.submit(_pass_on, message, send)
            return
        if message.part == GIVEN and not self._inbox.knows(message):
            told = f"node {self.name!r} has another model by now; make a new executor"
            self._pool.submit(send, DRIVER, message._replace(arrays=(), error=UsageError(told)))
            return
        for work in self._inbox.add(message):
            self._pool.submit(self._work, work, send)

    def forget(self, request: int) -> None:
        """A request has failed elsewhere: nothing of it is waited for."""
        self._inbox.forget(request)

    def computing(self, request: int) -> list[str]:
        """The parts of a request that have all they need, and are not through."""
        return self._inbox.computing(request)

    def waiting(self) -> int:
        """Lanes of requests that are not through here."""
        return len(self._inbox)

    def usage(self) -> float:
        """Seconds in which something was computed here, since the last time that one asked."""
        with self._lock:
            now = time.perf_counter()
            if self._active:
                self._busy += now - self._since
                self._since = now
            found, self._busy = self._busy, 0.0
        return found

    def clear(self) -> None:
        """Forget all parts and states."""
        for started in self._parts.values():
            started.executor.close()
        self._inbox.clear()
        self._parts.clear()
        self._tensors.clear()
        while self._folders:
            remove(self._folders.popitem()[1])

    def _work(self, work: PartWork, send: Send) -> None:
        """Compute a part and send what it makes to those that read it."""
        place = work.place
        head = Message(
            place.model, place.lane, place.number, work.request, work.group, work.slot, (), ()
        )
        try:
            made = self.compute(work)
            self._inbox.done(work)
            for reader, indices in group_by_reader(place).items():
                arrays = [made[index] for index in indices]
                message = head._replace(indices=tuple(indices), arrays=arrays)
                if reader == self.name:
                    self.take(message, send)
                else:
                    send(reader, message)
        except Exception as error:
            self._inbox.forget(work.request)
            send(DRIVER, head._replace(error=_told(error)))

    def compute(self, work: PartWork) -> list[Array]:
        """What a part makes of what has come; it may raise, and must end."""
        started = self._parts[work.part]
        with self._computing():
            outputs = self._run(started, work.group, work.slot, work.arrays)
            return [as_array(output) for output in outputs]

    def _run(
        self, started: _Started, group: int, slot: int | None, arrays: Sequence[Array]
    ) -> list[Any]:
        executor = started.executor
        state = self._state(started, group, slot) if executor.states else None
        if executor.batch == 1:
            return executor.run(dict(zip(started.inputs, arrays, strict=True)), state=state)
        rows = zip(*arrays, strict=True) if arrays else [()] * executor.batch
        each = [dict(zip(started.inputs, row, strict=True)) for row in rows]
        return executor.run(each, state=state)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Count the time in which at least one part is computed."""
        with self._lock:
            self._active += 1
            if self._active == 1:
                self._since = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                if self._active == 0:
                    self._busy += time.perf_counter() - self._since

    def _state(self, started: _Started, group: int, slot: int | None) -> State:
        if (group, slot) not in started.states:
            slots = started.slots if slot is None else (slot,)
            names = started.executor.states
            elements = [{n: self._tensor(group, s, n) for n in names} for s in slots]
            started.states[group, slot] = State([Element(tensors) for tensors in elements])
        return started.states[group, slot]

    def _tensor(self, group: int, slot: int, name: str) -> Any:
        if (group, slot, name) not in self._tensors:
            raise UsageError(
                f"node {self.name!r} keeps no state {name!r} of slot {slot} in group {group}; "
                "start the part that makes it first"
            )
        return self._tensors[group, slot, name]


def _pass_on(message: Message, send: Send) -> None:
    """Send an echo to the next of its route."""
    reader, *left = message.route
    send(reader, message._replace(route=tuple(left)))


def _told(error: Exception) -> HeteroError:
    """An error that another process understands."""
    if isinstance(error, HeteroError):
        return error
    text = str(error).strip().splitlines() or [""]
    return RunError(f"a node failed: {type(error).__name__}: {text[0]}; please report this")


def _pin(cores: Sequence[int]) -> None:
    """Let all threads of this process, and those to come, run on these cores alone.

    Raises
    ------
    UsageError
        If some of them are not there.
    """
    there = available_cores()
    lacking = sorted(set(cores) - set(there))
    if lacking:
        raise UsageError(
            f"there is no core {', '.join(map(str, lacking))} on {os.uname().nodename}, or none "
            f"that we may use; expected some of {', '.join(map(str, sorted(there)))}"
        )
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)
