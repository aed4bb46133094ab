"""New connections from a listening socket, also when there are no descriptors left for them.

A socket whose connections cannot be accepted stays readable, so that an event loop that is told of
it comes back at once, for ever: tornado's own writes a traceback each time and does little else.
Here one descriptor is kept in reserve. With it a connection that has no place is accepted, told
why, and closed; so each costs one event, as all others do. Where even that fails, the socket is
left alone for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

from tvm_hetero.serve.http.raw_answers import NO_DESCRIPTORS

_LOG = logging.getLogger("tvm_hetero.serve")
_AT_ONCE = 128  # connections that are accepted before others of the loop get their turn
_PAUSE = 0.5  # seconds
# What is the machine's fault or the process's, not the connection's.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts connections of one listening socket; for one event loop.

    Parameters
    ----------
    take : is given each connection and its address.

    Attributes
    ----------
    turned_away : connections for which there was no descriptor, so far.
    looks : how often the loop has told that there are connections.
    """

    def __init__(self, sock: socket.socket, take: Callable[[socket.socket, Any], object]) -> None:
        self.turned_away = self.looks = 0
        self._sock, self._take = sock, take
        self._loop = asyncio.get_running_loop()
        self._pausing: asyncio.TimerHandle | None = None
        self._reserve: int | None = None
        self._fill_reserve()
        self._loop.add_reader(sock, self._accept_some)

    def stop(self) -> None:
        """Accept no more; the socket is the caller's."""
        self._loop.remove_reader(self._sock)
        if self._pausing is not None:
            self._pausing.cancel()
        self._empty_reserve()

    def _accept_some(self) -> None:
        self.looks += 1
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._sock.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                if not self._turn_away():
                    self._pause()
                    return
            else:
                self._take(connection, address)

    def _turn_away(self) -> bool:
        """Tell one client that it can have no connection; False: not even that was possible."""
        if self._reserve is None and not self._fill_reserve():
            return False
        self._empty_reserve()
        try:
            connection, _ = self._sock.accept()
        except BlockingIOError:
            return self._fill_reserve()
        except OSError:
            return False
        with connection, contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(NO_DESCRIPTORS)  # into an empty buffer: it fits
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1 << 16)  # a request that lies unread would reset what was just sent
        self.turned_away += 1
        _LOG.error("no file descriptors are left: a connection was turned away; raise the limit "
                   "(ulimit -n)")  # fmt: skip
        return self._fill_reserve()

    def _pause(self) -> None:
        self._loop.remove_reader(self._sock)
        self._pausing = self._loop.call_later(_PAUSE, self._go_on)

    def _go_on(self) -> None:
        self._pausing = None
        self._fill_reserve()
        self._loop.add_reader(self._sock, self._accept_some)

    def _fill_reserve(self) -> bool:
        if self._reserve is None:
            with contextlib.suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._reserve is not None

    def _empty_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
