"""Recursion without a limit: functions that yield what they need, and a loop that runs them.

A program may be tens of thousands of calls deep, and Python's own stack is not. A walk is
written as a generator, as if it called itself:

    def depth(expr):
        if leaf(expr): return 1
        deepest = yield depth(child(expr))
        return deepest + 1

    run(depth(root))

What is known already may be yielded as it is and comes back at once: most of what a program
refers to, it refers to again.
"""

from __future__ import annotations

from collections.abc import Generator
from types import GeneratorType
from typing import Any, TypeAlias

Walk: TypeAlias = Generator[Any, Any, Any]


def run(walk: Walk | Any) -> Any:
    """Run a walk to its end and return what it returns; what is no walk is returned."""
    if type(walk) is not GeneratorType:
        return walk
    stack, value = [walk], None
    while stack:
        try:
            value = stack[-1].send(value)
        except StopIteration as done:
            stack.pop()
            value = done.value
        else:
            if type(value) is GeneratorType:
                stack.append(value)
                value = None
    return value
