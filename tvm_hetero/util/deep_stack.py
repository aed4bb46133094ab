"""Calls that descend as deep as a network is long, on a stack that is deep enough.

Some of TVM's passes call themselves once for each operator of a chain. The stack of the main
thread, 8 MiB as a rule, is full after enough of them, and then the process dies without a word.
A thread may have a stack of any size; memory is taken only as far as it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

STACK_BYTES = 1 << 30
# The size of new threads' stacks is one setting of the whole process.
_SETTING = threading.Lock()


def call_on_deep_stack(function: Callable[[], Result]) -> Result:
    """Return what a function returns, or raise what it raises, from a thread of a deep stack."""
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(function())
        except BaseException as error:
            failed.append(error)

    with _SETTING:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=run, name="deep stack")
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
