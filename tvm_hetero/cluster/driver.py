"""The driver's side of a cluster: its nodes, what they are, and which of them are lost.

    >>> with Cluster("nodes.yaml") as cluster:                       # doctest: +SKIP
    ...     platform = cluster.platform()
    ...     with cluster.executor(placed_module) as executor:
    ...         executor.run(x=image)

A node that is lost (`tvm_hetero.cluster.heartbeat`) stays lost: whoever uses the cluster is told,
plans again over those that are left, and goes on (`tvm_hetero.cluster.runner`).
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tvm_hetero.artifact.manifest import versions
from tvm_hetero.cluster.description import LOCAL, Description, read_description
from tvm_hetero.cluster.heartbeat import Watch, silence_of
from tvm_hetero.cluster.session import WATCH, ClusterSession
from tvm_hetero.cluster.wiring import Wiring
from tvm_hetero.errors import HeteroError, NodeLost, UsageError
from tvm_hetero.util.closeable import Closeable

# Seconds in which a node must have started; it loads TVM first, on a machine that may be busy.
STARTING = 120.0
# Seconds after which a node that does not answer is lost, where no one says otherwise.
SILENCE = 5.0
# What Ray says of an actor whose constructor raised, above the whole traceback.
_NOT_MADE = "error raised in its creation task"


class Cluster(Closeable):
    """Nodes on Ray.

    Parameters
    ----------
    where : ``auto``, a cluster file, or a `Description`.
    silence : seconds after which a node that does not answer is lost; None: the cluster file's, or
        5.
    beat : seconds between two questions.

    Attributes
    ----------
    nodes : names of the nodes that are there; lost : of those that were, with the reasons.
    wiring : the channels between them.

    Raises
    ------
    UsageError
        If Ray is not installed, or does not run at the address; or versions differ.
    """

    def __init__(
        self,
        where: str | os.PathLike[str] | Description = "auto",
        *,
        silence: float | None = None,
        beat: float = 0.25,
    ) -> None:
        given = where if isinstance(where, Description) else read_description(where)
        self.description = given
        self.lost: dict[str, str] = {}
        self._silence = silence or given.silence or SILENCE
        self._beat = beat
        self._listeners: list[Callable[[str, str], None]] = []
        self._beats: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._session = ClusterSession(given)
        self.wiring = Wiring(self)
        # Whoever forgets to close: Ray, which ends with the interpreter, must find no one reading.
        atexit.register(self.wiring.close)
        self._watch: Watch | None = None
        self._actors: dict[str, Any] = {}
        self._about: dict[str, dict[str, Any]] = {}
        try:
            self._actors = {row.name: self._session.start(row) for row in self._session.rows}
            self._about = {name: self._described(name) for name in self._actors}
            _check_versions(self._about)
            self._watch = Watch(
                self._actors, _ask, self._node_lost, self._each_beat, beat, self._silence
            )
        except BaseException:
            self.close()
            raise

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that are there."""
        return tuple(self._actors)

    def describe(self) -> list[dict[str, Any]]:
        """What each node is: name, host, pid, cores, platform, versions."""
        return [dict(self._about[name]) for name in self._actors]

    def pid(self, node: str) -> int:
        """The process of a node, on its machine."""
        return int(self._about[node]["pid"])

    def call(self, node: str, method: str, *args: Any, returns: int = 1) -> list[Any]:
        """Have a node do something; Ray's references to what it gives, `returns` of them.

        Raises
        ------
        NodeLost
            If the node is lost.
        """
        refs = getattr(self.actor(node), method).options(num_returns=returns).remote(*args)
        return [refs] if returns == 1 else list(refs)

    def get(self, refs: Any, node: str, seconds: float) -> Any:
        """Wait for what a node gives.

        Raises
        ------
        NodeLost
            If the node dies, or takes longer than `seconds`.
        HeteroError
            What went wrong there.
        """
        exceptions = self._session.ray.exceptions
        try:
            return self._session.ray.get(refs, timeout=seconds)
        except exceptions.GetTimeoutError:
            self._node_lost(node, f"it took longer than {seconds:g} s")
        except exceptions.RayActorError as error:
            self._node_lost(node, first_line(error))
        except exceptions.RayTaskError as error:
            raise plain_error(error) from None
        raise NodeLost(f"node {node!r} is lost: {self.lost[node]}")

    def actor(self, node: str) -> Any:
        """Ray's actor of a node.

        Raises
        ------
        NodeLost
            If the node is lost.
        """
        actor = self._actors.get(node)
        if actor is None:
            raise NodeLost(f"node {node!r} is lost: {self.lost.get(node, 'it was never there')}")
        return actor

    def here(self, ends: Iterable[tuple[Any, str]]) -> tuple[Any, str]:
        """An actor on the driver's own machine, and Ray's id of that; `ends`: such pairs of nodes.

        Channels of Ray lead to actors alone, but whoever is on the same machine may read them.
        """
        return self._session.here(ends)

    def listen(self, lost: Callable[[str, str], None], beat: Callable[[], None]) -> None:
        """Be told of each node that is lost, and called at every beat of the watch."""
        self._listeners.append(lost)
        self._beats.append(beat)

    def unlisten(self, lost: Callable[[str, str], None], beat: Callable[[], None]) -> None:
        """Be told no more."""
        self._listeners.remove(lost)
        self._beats.remove(beat)

    def look(self) -> None:
        """Ask every node whether it is there, so that all who are gone are known to be lost."""
        asked = {name: _ask(actor) for name, actor in list(self._actors.items())}
        for name, answer in asked.items():
            reason = silence_of(answer, self._beat, self._silence)
            if reason is not None:
                self._node_lost(name, reason)

    def revive(self, node: str) -> None:
        """Start a node again that was lost. Who runs a model takes it up with `recover(True)`.

        Raises
        ------
        UsageError
            If it is not lost.
        NodeLost
            If it does not start.
        """
        rows = {row.name: row for row in self._session.rows}
        if node not in self.lost or node not in rows:
            raise UsageError(
                f"node {node!r} is not lost; lost are: {', '.join(self.lost) or 'none'}"
            )
        actor = self._session.start(rows[node])
        with self._lock:
            self._actors[node] = actor
            reason = self.lost.pop(node)
        try:
            self._about[node] = self._described(node)
            _check_versions({node: self._about[node]})
        except BaseException:
            self.report_lost(node, reason)
            raise
        if self._watch is not None:
            self._watch.remember(node, actor)

    def report_lost(self, node: str, reason: str) -> None:
        """A node was found not to do its work; from now on it is lost."""
        self._node_lost(node, reason)

    def close(self) -> None:
        """End all nodes, and Ray if it is our own."""
        if self._watch is not None:
            self._watch.close()
        atexit.unregister(self.wiring.close)
        self.wiring.close()  # threads that read must not outlive Ray
        for name in list(self._actors):
            self._session.kill(self._actors.pop(name), self._local_pid(name))
        self._session.close()

    def _described(self, name: str) -> dict[str, Any]:
        about: dict[str, Any] = self.get(self.call(name, "describe")[0], name, STARTING)
        return about

    def _local_pid(self, name: str) -> int | None:
        local = self.description.address == LOCAL and name in self._about
        return self.pid(name) if local else None

    def _node_lost(self, name: str, reason: str) -> None:
        with self._lock:
            actor = self._actors.pop(name, None)
            if actor is None:
                return
            self.lost[name] = reason
        if self._watch is not None:
            self._watch.forget(name)
        self._session.kill(actor, self._local_pid(name))
        self.wiring.lost(name)
        for listener in list(self._listeners):
            listener(name, reason)

    def _each_beat(self) -> None:
        for beat in list(self._beats):
            beat()


def first_line(error: BaseException) -> str:
    """What an error says first; of a node that could not be made, why, which stands last."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    if _NOT_MADE in lines[0]:
        return lines[-1].strip().removeprefix(f"{UsageError.__module__}.{UsageError.__name__}: ")
    return lines[0]


def plain_error(error: Any) -> HeteroError:
    """What went wrong on a node, as if it had gone wrong here."""
    cause = error
    while (
        getattr(cause, "cause", None) is not None
    ):  # those who waited for it wrap it, each once more
        cause = cause.cause
    if isinstance(cause, HeteroError):
        return cause
    from tvm_hetero.errors import RunError

    return RunError(f"a node failed: {type(cause).__name__}: {first_line(cause)}")


def _ask(actor: Any) -> Any:
    return actor.ping.options(concurrency_group=WATCH).remote().future()


def _check_versions(about: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse nodes whose packages are not ours: plans and libraries depend on them."""
    here = versions()
    for name, row in about.items():
        for package, version in here.items():
            if row["versions"].get(package) != version:
                raise UsageError(
                    f"node {name!r} ({row['host']}) has {package} "
                    f"{row['versions'].get(package)}, here is {version}; install the same there"
                )
