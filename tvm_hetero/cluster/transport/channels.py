"""Messages through Ray's channels: one from each process to each other one that reads from it.

A channel is a buffer in shared memory (on another machine one there too, which Ray keeps equal)
that holds one value: who writes waits until the value before was read. So whoever reads has a
thread for each channel that leads to it, which takes values out at once and never does anything
that waits (`Take`); then every writer gets on, in whatever order processes write to each other.

What is read lies in the channel's buffer and would keep the writer waiting: it is copied out. A
writer whose reader has died waits until its own end is closed (`Post.drop`, `Post.close`).

Ray waits by looking without a pause, and a core is busy with nothing else. So we let it look once,
and sleep: who reads until a bell rings (`tvm_hetero.cluster.transport.wakeup`), who writes for a
while.

Channels are of Ray's alpha interface (`ray.experimental.channel`), on which its compiled graphs
are built; all that we use of it is here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tvm_hetero.cluster.transport.message import Message
from tvm_hetero.cluster.transport.ray_import import import_ray
from tvm_hetero.cluster.transport.wakeup import Bell, Rope, new_name
from tvm_hetero.errors import NodeLost

# Is given each message that comes, by the thread that reads it: it must not wait for anything.
Take = Callable[[Message], None]
# Where a channel leads: an actor of the machine where it is read, Ray's id of that machine, and the
# bytes of the largest message.
End = tuple[Any, str, int]
# A channel that is laid, as it goes to who reads it: Ray's, and the name of its bell.
Laid = tuple[Any, str]
# Seconds of the first try to write: mostly the message before has been read, or is being read.
_FIRST_TRY = 1e-3
# Seconds between two tries to write while it has not been: the first ones, the longest.
_SHORTEST, _LONGEST = 1e-4, 5e-3
# Seconds in which a thread that reads must have ended.
_ENDING = 5.0


class Post:
    """The channels of a process, one to and one from each other process at most."""

    def __init__(self) -> None:
        self._writers: dict[str, _ChannelWriter] = {}
        self._readers: dict[str, _ChannelReader] = {}

    def open(self, ends: Mapping[str, End]) -> dict[str, Laid]:
        """Make channels to processes, in place of those there are, for these to `listen`."""
        from ray.experimental.channel.shared_memory_channel import Channel
        from ray.experimental.channel.utils import get_self_actor

        made = {}
        for name, (actor, machine, nbytes) in ends.items():
            made[name] = Channel(get_self_actor(), [(actor, machine)], nbytes), new_name()
            before, self._writers[name] = self._writers.get(name), _ChannelWriter(*made[name])
            if before is not None:
                before.close()
        return made

    def listen(self, channels: Mapping[str, Laid], take: Take) -> None:
        """Read channels that others have opened, in place of those that are read."""
        for name, laid in channels.items():
            before, self._readers[name] = self._readers.get(name), _ChannelReader(name, laid, take)
            if before is not None:
                before.close()

    def send(self, name: str, message: Message) -> None:
        """Write a message; returns when the one before has been read.

        Raises
        ------
        NodeLost
            If the channel is closed, be it meanwhile, or there is none.
        """
        writer = self._writers.get(name)
        if writer is None:
            raise NodeLost(f"no channel leads to {name!r}")
        writer.write(message)

    def drop(self, name: str) -> None:
        """Close what leads to and from a process; whoever waits for it is let go."""
        for ends in (self._writers, self._readers):
            end = ends.pop(name, None)
            if end is not None:
                end.close()

    def close(self) -> None:
        """End all channels, and the threads that read them."""
        readers = list(self._readers.values())
        for name in {*self._writers, *self._readers}:
            self.drop(name)
        for reader in readers:
            reader.join()


class _ChannelWriter:
    """Writes to a channel, one message after the other."""

    def __init__(self, channel: Any, bell: str) -> None:
        self._channel, self._closed, self._lock = channel, False, threading.Lock()
        self._rope = Rope(bell)
        self._exceptions = import_ray().exceptions

    def write(self, message: Message) -> None:
        with self._lock:
            timeout, pause = _FIRST_TRY, _SHORTEST
            while not self._closed:
                try:
                    self._channel.write(tuple(message), timeout=timeout)
                except self._exceptions.RayChannelTimeoutError:  # the one before is not read yet
                    time.sleep(pause)
                    timeout, pause = 0.0, min(2 * pause, _LONGEST)
                except self._exceptions.RayChannelError:
                    break
                else:
                    self._rope.ring()
                    return
        raise NodeLost("the channel was closed")

    def close(self) -> None:
        self._closed = True
        _end(self._channel)
        with self._lock:
            self._rope.close()


class _ChannelReader:
    """A thread that reads a channel."""

    def __init__(self, name: str, laid: Laid, take: Take) -> None:
        self._channel, bell = laid
        self._bell, self._take, self._closed = Bell(bell), take, False
        self._exceptions = import_ray().exceptions
        self._thread = threading.Thread(
            target=self._run, name=f"tvm_hetero from {name or 'driver'}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        _end(self._channel)
        self._bell.wake()

    def join(self) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join(_ENDING)

    def _run(self) -> None:
        try:
            while not self._closed:
                message = self._read()
                if message is None:
                    self._bell.sleep()
                    continue
                try:
                    self._take(message)
                except Exception:
                    logging.getLogger(__name__).exception("a message could not be taken")
        except self._exceptions.RayChannelError:
            return  # it was closed, at whichever end
        except Exception:
            if not self._closed:
                logging.getLogger(__name__).exception("a channel cannot be read")
        finally:
            self._bell.close()

    def _read(self) -> Message | None:
        # Whatever refers to the channel's buffer is gone when this returns.
        try:
            message = Message(*self._channel.read(timeout=0)).own()
        except self._exceptions.RayChannelTimeoutError:
            return None
        self._bell.taken()
        return message


def _end(channel: Any) -> None:
    """Close a channel, at whichever end; its other end may be gone."""
    with suppress(Exception):
        channel.close()
