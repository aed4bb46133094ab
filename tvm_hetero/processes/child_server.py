"""The child's end of a `tvm_hetero.processes.child_process.Worker`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from tvm_hetero.platform.amx_permission import ask_for_tiles
from tvm_hetero.processes.clean_end import end_cleanly_on_term
from tvm_hetero.processes.parent_death import die_with_parent
from tvm_hetero.processes.torch_import import hide_torch


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer questions until there are no more.

    `answer` gets each question; an exception that it raises is answered as ``{"error": text}``.
    """
    die_with_parent()
    end_cleanly_on_term()
    hide_torch()
    ask_for_tiles()  # kernels may use them
    # What native code prints must not be taken for an answer: keep the pipe for ourselves.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)
        for line in sys.stdin:
            try:
                reply = answer(json.loads(line))
            except Exception as error:
                words = str(error).strip().splitlines()
                reply = {"error": words[-1] if words else type(error).__name__}
            replies.write(json.dumps(reply) + "\n")
            replies.flush()
