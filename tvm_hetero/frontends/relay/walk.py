"""Recursion without a limit: functions that yield what they need, and a loop that runs them.

A program may be tens of thousands of calls deep, and Python's own stack is not. A walk is
written as a generator, as if it called itself:

    def depth(expr):
        if leaf(expr): return 1
        deepest = yield depth(child(expr))
        return deepest + 1

    run(depth(root))
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

Walk: TypeAlias = Generator[Any, Any, Any]


def run(walk: Walk) -> Any:
    """Run a walk to its end and return what it returns."""
    stack, value = [walk], None
    while True:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as done:
            stack.pop()
            value = done.value
            if not stack:
                return value
