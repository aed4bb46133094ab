"""A node's ends of channels: what the driver has a node call (`tvm_hetero.cluster.wiring`).

A node knows nothing of Ray and its channels, so these are functions that Ray's ``__ray_call__``
gives the node to; its `Post` is kept with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from tvm_hetero.cluster.transport.channels import End, Laid, Post
from tvm_hetero.cluster.transport.message import Message
from tvm_hetero.cluster.transport.ray_import import import_ray
from tvm_hetero.errors import NodeLost

if TYPE_CHECKING:
    from tvm_hetero.cluster.node import Node


def identify_machine(_node: Node) -> str:
    """Ray's id of its machine."""
    return str(import_ray().get_runtime_context().get_node_id())


def open_ends(node: Node, ends: Mapping[str, End]) -> dict[str, Laid]:
    """Make channels to others (see `Post.open`)."""
    return _post_of(node).open(ends)


def listen_to(node: Node, channels: Mapping[str, Laid]) -> None:
    """Read channels from now on."""
    post = _post_of(node)

    def send(name: str, message: Message) -> None:
        with suppress(NodeLost):  # the driver knows of losses, and ends the request
            post.send(name, message)

    post.listen(channels, lambda message: node.take(message, send))


def drop_end(node: Node, lost: str) -> None:
    """Close what leads to and from a process that is lost."""
    _post_of(node).drop(lost)


def _post_of(node: Node) -> Post:
    post: Post = node.__dict__.setdefault("post", Post())
    return post
