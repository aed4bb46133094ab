"""Bytes of a socket that nobody wants."""

from __future__ import annotations

import socket

# Nothing is ever written to it, so that it takes no memory.
_SCRAP = bytearray(1 << 20)


def discard(sock: socket.socket, most: int) -> int:
    """Throw away what has come, so many bytes at most; returns how many: 0, the other side has
    closed.

    Raises
    ------
    OSError
        As of `recv`.
    """
    # With MSG_TRUNC the kernel drops the bytes without copying them.
    return sock.recv_into(_SCRAP, min(most, len(_SCRAP)), socket.MSG_TRUNC)
