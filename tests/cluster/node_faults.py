"""What a test tells a node of a cluster to do wrong.

A node's process imports this file in order to do it: what the tests themselves import (PyTorch and
Ray's own clients among it) would cost each node seconds.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_hetero.cluster.node import Node
    from tvm_hetero.cluster.transport.inbox import PartWork


def fails_once(node: Node) -> None:
    """The next part that it computes fails."""
    right = node.compute

    def once(work: PartWork) -> list[Any]:
        node.compute = right  # type: ignore[method-assign]
        raise ValueError("not today\nnor tomorrow")

    node.compute = once  # type: ignore[method-assign]


def never_ends(node: Node, begun: Path | None = None) -> None:
    """No part that it computes from now on ends; that one has begun is told by a file."""

    def stuck(work: PartWork) -> list[Any]:
        if begun is not None:
            begun.touch()
        time.sleep(1e6)
        return []

    node.compute = stuck  # type: ignore[method-assign]


def loses_its_mail(node: Node) -> None:
    """Whatever comes is lost."""
    node.take = lambda message, send: None  # type: ignore[method-assign]


def finds_its_mail(node: Node) -> None:
    """What comes is taken again."""
    del node.take
