"""Several models on one set of machines over a day: which live together, and when they move.

>>> from tvm_hetero.planning import sharing
>>> answer = sharing.share(sharing.load_sharing_request("day.yaml"))  # doctest: +SKIP
>>> answer.day.price, answer.bound                                    # doctest: +SKIP

The files, in the order in which a question meets them: `request`, `format`, `problem` (notation),
`rate_curve`, `rating`, `program`, `judge`, `replay`, `answer`.
"""

from __future__ import annotations

from tvm_hetero.planning.sharing.answer import PlayedDay, SharingAnswer, share
from tvm_hetero.planning.sharing.format import load_sharing_request, parse_sharing_request
from tvm_hetero.planning.sharing.request import SharedMachine, SharedModel, SharingRequest

__all__ = [
    "PlayedDay", "SharedMachine", "SharedModel", "SharingAnswer", "SharingRequest",
    "load_sharing_request", "parse_sharing_request", "share",
]  # fmt: skip
