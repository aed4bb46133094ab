"""One thread at a time where TVM has state that is the whole process's.

TVM's importers, its lowering of operators and its schedules keep stacks in globals of Python and
C++ (tags of tensor expressions, block builders): two threads that lower models at once got ``nested
op_tag is not allowed`` or, worse, an assertion about each other's functions. Whatever makes or
changes IR is a `one_thread` function. What works on IR that nobody changes needs none of it: LLVM,
the linker, solvers, executors.

A function that is called inside another goes on, as long as it is the same thread; so none may wait
for a second thread that calls one.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

TVM_STATE = threading.RLock()


def one_thread(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function during which no other thread of the process is in such a function."""

    @functools.wraps(function)
    def alone(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with TVM_STATE:
            return function(*args, **kwargs)

    return alone
