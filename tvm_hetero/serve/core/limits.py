"""Limits on what a stranger may make the server do; every count and size has one.

Those of single messages (axes, letters of names) stand with the messages (`serve.oip.messages`).
"""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Counts, bytes and seconds.

    Attributes
    ----------
    body : bytes of a request's body, decompressed.
    header : bytes of all headers.
    connections, connections_of_one : open at once, in all and of one address.
    queue : queries that wait for a model.
    streams : of one key (or address) at once.
    choices, stops, logprobs : of one completion.
    idle, head_seconds, body_seconds, stalled : seconds of an idle connection, of the arrival of a
        request's headers from their first byte on, of a body, of a reader who does not read.
    """

    body: int = 64 * MEBIBYTE
    header: int = 16 << 10
    connections: int = 1024
    connections_of_one: int = 512
    queue: int = 64
    streams: int = 64
    choices: int = 16
    stops: int = 16
    logprobs: int = 20
    idle: float = 75.0
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    stalled: float = 30.0
