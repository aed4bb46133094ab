"""Ray: begun for one machine, or joined where it runs; and a process of ours for each node.

A cluster of address ``local`` has a Ray of its own, which ends with it; the folder of its sockets
and logs goes too. Any other address joins a Ray that someone runs, and leaves it running. Nodes
are actors without claims on Ray's resources: which cores a node computes on is our business
(`tvm_hetero.cluster.node`), since devices of a platform are pinned.

Every node has two groups of threads: those that compute, and one that answers whether it is there,
however busy the others are.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tvm_hetero.cluster.description import LOCAL, Description, NodeRow
from tvm_hetero.cluster.transport.ray_import import import_ray
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.processes.signals import take_signals_back
from tvm_hetero.util.leftovers import make_folder, remove
from tvm_hetero.util.untrusted_names import printable

WATCH = "watch"
# Addresses that can be looked at, and the seconds in which they must answer.
_HOST_PORT = re.compile(r"(?P<host>[^/:\[\]]+):(?P<port>\d{1,5})")
_REACHING = 5.0
# What Ray calls a driver on no machine of its own.
_CLIENT = "ray://"
# Threads of a node that do what they are called for, beside those that compute.
THREADS = 4
# Ray's own store for tensors in passing, on a machine that has nothing else in it.
_STORE_BYTES = 256 * 2**20
# Characters of a folder in which the paths of Ray's sockets do not become too long (107 bytes).
_FOLDER_LENGTH = 24
# A Ray of our own tells no one of its use, and starts no processes that no one asked for; and its
# nodes, there to compute, do not stand back behind others (Ray's are nice by 15).
_OWN = {
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
}


class StandIn:
    """An actor for the driver, where no node is on its machine: channels lead to actors alone."""


def not_started(error: Exception, place: str) -> RunError:
    """What is told where Ray does not start: its first line, what it needs, what else there is.

    Parameters
    ----------
    error, place : Ray's own, and the folder in which it wanted to begin.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return RunError(
        f"no Ray could be started on this machine: {printable(lines[0], 300)} It wants a core for "
        f"some seconds, {_STORE_BYTES:,} bytes of /dev/shm (where that is smaller, of /tmp), and "
        f"room in {place}: try again when the machine is idle, or join a Ray that runs "
        "('address: auto')"
    )


class ClusterSession:
    """A connection to Ray, and the actors of a cluster."""

    def __init__(self, description: Description) -> None:
        self.ray = import_ray()
        self._loud: bool | None = None
        self._folder: Path | None = None  # of a Ray of our own
        self._stand_in: Any = None
        self._connect(description.address)
        try:
            self.rows = description.nodes or self._every_machine()
        except BaseException:
            self.close()
            raise

    def start(self, row: NodeRow) -> Any:
        """The actor of a node."""
        from tvm_hetero.cluster.node import Node

        options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": THREADS, "max_restarts": 0}
        if row.host is not None:
            strategies = self.ray.util.scheduling_strategies
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(
                self._machine(row), soft=False
            )
        actor = self.ray.remote(concurrency_groups={WATCH: 1})(Node)
        return actor.options(**options).remote(row.name, list(row.cores))

    def here(self, ends: Iterable[tuple[Any, str]]) -> tuple[Any, str]:
        """An actor on this machine, and Ray's id of it: one of those given, or one made for it."""
        own = str(self.ray.get_runtime_context().get_node_id())
        for actor, machine in ends:
            if machine == own:
                return actor, own
        if self._stand_in is None:
            strategies = self.ray.util.scheduling_strategies
            at = strategies.NodeAffinitySchedulingStrategy(own, soft=False)
            made = self.ray.remote(StandIn).options(num_cpus=0, scheduling_strategy=at)
            self._stand_in = made.remote()
        return self._stand_in, own

    def kill(self, actor: Any, pid: int | None) -> None:
        """End an actor, whatever state it is in; `pid` if it is a process of this machine."""
        with suppress(Exception):
            self.ray.kill(actor)
        if pid is not None and self._folder is not None:
            with suppress(ProcessLookupError):  # one that is stopped takes no other signal
                os.kill(pid, 9)

    def close(self) -> None:
        """End a Ray of our own."""
        if self._stand_in is not None:
            self.kill(self._stand_in, None)
            self._stand_in = None
        if self._folder is not None:
            self.ray.shutdown()
            remove(self._folder)
            self._folder = None
        if self._loud is not None:
            self.ray._private.worker._worker_logs_enabled = self._loud
            self._loud = None

    def _connect(self, address: str) -> None:
        """Connect to Ray, or begin one."""
        if address.startswith(_CLIENT):
            raise UsageError(
                f"address {address!r} joins a Ray from outside, where no memory is shared with any "
                "node; run this on a machine of that Ray, with 'address: auto'"
            )
        if self.ray.is_initialized():
            return
        for name, value in _OWN.items():
            os.environ.setdefault(name, value)
        quiet = {"configure_logging": False, "log_to_driver": False}
        if address == LOCAL:
            self._begin(quiet)
            self._mute()
            return
        try:
            _check_reachable(address)
            self.ray.init(address=address, **quiet)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"there is no Ray at address {address!r} that can be joined ({error}); start one "
                "of this version with 'ray start --head', or write 'address: local' into the "
                "cluster file for nodes on this machine"
            ) from None
        self._mute()

    def _begin(self, quiet: dict[str, bool]) -> None:
        """Begin a Ray of our own, in a folder of ours."""
        place = tempfile.gettempdir()
        self._folder = make_folder("ray.", place if len(place) <= _FOLDER_LENGTH else "/tmp")
        try:
            self.ray.init(
                address="local", include_dashboard=False, object_store_memory=_STORE_BYTES,
                _temp_dir=str(self._folder), **quiet,
            )  # fmt: skip
        except Exception as error:  # Ray raises nothing more particular
            self.close()
            raise not_started(error, place) from error
        except BaseException:
            self.close()
            raise

    def _mute(self) -> None:
        """Keep Ray's words on each process that dies off standard output, where our results go.

        No option of Ray's does that; this is how its debugger does. Losses are told by us.
        """
        take_signals_back()  # SIGTERM is its own now, with a status of its own
        workers = self.ray._private.worker
        self._loud = getattr(workers, "_worker_logs_enabled", None)
        workers._worker_logs_enabled = False

    def _machines(self) -> list[dict[str, Any]]:
        return [row for row in self.ray.nodes() if row["Alive"]]

    def _every_machine(self) -> tuple[NodeRow, ...]:
        """A node for each machine of the Ray that runs."""
        hosts = [str(row["NodeManagerAddress"]) for row in self._machines()]
        if len(set(hosts)) < len(hosts):
            raise UsageError(
                "several nodes of the Ray that runs are on one machine, so their cores cannot be "
                "told apart; write a cluster file that names nodes and cores"
            )
        names = [host.replace(".", "-").replace(":", "-") for host in hosts]
        return tuple(
            NodeRow(name, (), host) for name, host in sorted(zip(names, hosts, strict=True))
        )

    def _machine(self, row: NodeRow) -> str:
        """The id that Ray has for a node's machine."""
        machines = self._machines()
        for machine in machines:
            if row.host in (machine["NodeManagerAddress"], machine.get("NodeManagerHostname")):
                return str(machine["NodeID"])
        known = _listed([str(machine["NodeManagerAddress"]) for machine in machines])
        raise UsageError(f"node {row.name!r}: no machine {row.host!r} in this Ray; it has {known}")


def _check_reachable(address: str) -> None:
    """Look whether anybody is there: Ray itself tries for minutes.

    Raises
    ------
    OSError
        If no one is.
    """
    known = _HOST_PORT.fullmatch(address)
    if known is not None:
        socket.create_connection((known["host"], int(known["port"])), _REACHING).close()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
