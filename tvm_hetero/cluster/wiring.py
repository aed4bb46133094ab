"""Channels between the driver and nodes, and among these: laid as models need them.

Ray never gives back the memory of a channel while the processes at its ends live. So a channel
stays for all models to come, until its other end is lost, or a model needs a larger one; then one
of at least twice the size is laid, so that all that were given up are no larger than it together.
Messages tell what they belong to, so no model is disturbed by what another has left under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tvm_hetero.cluster.node_channels import drop_end, identify_machine, listen_to, open_ends
from tvm_hetero.cluster.transport.channels import End, Laid, Post, Take
from tvm_hetero.cluster.transport.message import DRIVER, Message
from tvm_hetero.errors import NodeLost

if TYPE_CHECKING:
    from tvm_hetero.cluster.driver import Cluster

# Sender and reader.
Pair = tuple[str, str]
# Bytes of the smallest channel.
_LEAST = 2**16
# Seconds in which a node must have laid its ends.
_LAYING = 30.0


class Wiring:
    """The channels of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._post = cluster, Post()
        self._takes: list[Take] = []
        self._laid: dict[Pair, int] = {}
        self._dropping: list[tuple[str, Any]] = []
        self._lock = threading.Lock()

    def require(self, sizes: Mapping[Pair, int]) -> None:
        """Lay what lacks.

        Parameters
        ----------
        sizes : for each pair of processes the bytes of the largest message.

        Raises
        ------
        NodeLost
            If a node is lost meanwhile.
        """
        with self._lock:
            laid = self._laid
            wanted = {
                pair: max(nbytes, 2 * laid.get(pair, 0), _LEAST)
                for pair, nbytes in sizes.items()
                if laid.get(pair, 0) < nbytes
            }
            for pair in wanted:  # until they are laid there are none
                laid.pop(pair, None)
            self._await_drops()
            self._lay(wanted)
            there = {*self._cluster.nodes, DRIVER}
            laid |= {pair: nbytes for pair, nbytes in wanted.items() if there.issuperset(pair)}
        for node in sorted({name for pair in sizes for name in pair} - {DRIVER}):
            self._cluster.actor(node)

    def send(self, node: str, message: Message) -> None:
        """Send to a node.

        Raises
        ------
        NodeLost
            If it is lost, or no channel leads to it.
        """
        self._post.send(node, message)

    def listen(self, take: Take) -> None:
        """Be given each message to the driver, by a thread that must not be kept waiting."""
        self._takes.append(take)

    def unlisten(self, take: Take) -> None:
        """Be given no more."""
        self._takes.remove(take)

    def lost(self, lost: str) -> None:
        """A node is lost: whoever waits until it reads is let go."""
        self._post.drop(lost)
        ends = {name for pair in list(self._laid) if lost in pair for name in pair}
        for pair in [pair for pair in list(self._laid) if lost in pair]:
            del self._laid[pair]
        for node in sorted(ends - {lost, DRIVER}):
            with suppress(NodeLost):
                self._dropping.append((node, self._call(node, drop_end, lost)))

    def close(self) -> None:
        """End the driver's channels; those of the nodes end with them."""
        self._post.close()

    def _took(self, message: Message) -> None:
        for take in list(self._takes):
            take(message)

    def _lay(self, wanted: Mapping[Pair, int]) -> None:
        nodes = sorted({name for pair in wanted for name in pair} - {DRIVER})
        machines = self._on_each(identify_machine, dict.fromkeys(nodes, ()))
        ends = {node: (self._cluster.actor(node), machines[node]) for node in nodes}
        ends[DRIVER] = self._cluster.here(ends.values())
        ways: dict[str, dict[str, End]] = {}
        for (sender, reader), nbytes in wanted.items():
            ways.setdefault(sender, {})[reader] = (*ends[reader], nbytes)
        opened = {DRIVER: self._post.open(ways.pop(DRIVER, {}))}
        opened |= self._on_each(open_ends, {node: (rows,) for node, rows in ways.items()})
        heard: dict[str, dict[str, Laid]] = {}
        for sender, rows in opened.items():
            for reader, channel in rows.items():
                heard.setdefault(reader, {})[sender] = channel
        self._post.listen(heard.pop(DRIVER, {}), self._took)
        self._on_each(listen_to, {node: (channels,) for node, channels in heard.items()})

    def _await_drops(self) -> None:
        """What was to be dropped is gone before anything takes its place."""
        while self._dropping:
            node, ref = self._dropping.pop()
            with suppress(NodeLost):
                self._cluster.get(ref, node, _LAYING)

    def _on_each(
        self, function: Callable[..., Any], arguments: Mapping[str, tuple[Any, ...]]
    ) -> dict[str, Any]:
        """Call a function of `tvm_hetero.cluster.node_channels` on nodes at once; what each
        gives."""
        refs = {node: self._call(node, function, *given) for node, given in arguments.items()}
        return {node: self._cluster.get(ref, node, _LAYING) for node, ref in refs.items()}

    def _call(self, node: str, function: Callable[..., Any], *given: Any) -> Any:
        return self._cluster.call(node, "__ray_call__", function, *given)[0]
