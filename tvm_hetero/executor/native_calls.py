"""Calls from Python into the C++ executor: whose errors they raise, and how they end in time.

tvm-ffi lets go of the interpreter's lock for the time of a call. What C++ throws is a built-in
exception of Python's; the text's beginning says which of ours it is.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tvm_hetero.errors import DeadlineError, NumericsError, RunError
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm_hetero.executor.native import NativeExecutor

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Executors that live, threads that are inside a function of tvm-ffi's, and whether it is too late
# for another: for `_close_all`.
EXECUTORS: weakref.WeakSet[NativeExecutor] = weakref.WeakSet()
_CALLERS: set[int] = set()
_ENDING = threading.Event()


class PlanRetired(RunError):
    """Another plan takes what comes now (`tvm_hetero.executor.plan_switch`): submit it there."""


class InterpreterEnds(RunError):
    """It is too late for a call of C++."""


# How the text of a request's error begins, where it is not a RunError
# (src/executor/request_desk.cc).
_KINDS: dict[str, type[Exception]] = {
    "cancelled": CancelledError,
    "deadline": DeadlineError,
    "numerics": NumericsError,
    "retired": PlanRetired,
}


# What an exception of C++ is in Python.
THROWN = (RuntimeError, ValueError, TypeError, IndexError)


# Characters of an error; as in src/support/printable_errors.cc.
_LONGEST = 2000

# How the errors begin that runs meet as the interpreter ends.
_ENDINGS = ("closed", "the executor is closed", "the interpreter is ending")


def blocks_shutdown(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let the end of the interpreter wait for the calls of a function (see `_close_all`).

    For whatever uses tvm-ffi, which lets go of the interpreter's lock also for small things:
    wrapping an array, looking into a list. Calls may be inside one another, also by a signal's
    handler.

    Raises
    ------
    RunError
        From the function that is returned, if the interpreter is ending.
    """

    @functools.wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        _require_time()  # who tries again and again is none to wait for
        caller = threading.get_ident()
        if caller in _CALLERS:  # inside another, whose end is waited for
            return function(*args, **kwargs)
        _CALLERS.add(caller)
        try:
            _require_time()  # it may have begun to end just now
            return function(*args, **kwargs)
        finally:
            _CALLERS.discard(caller)

    return guarded


def _require_time() -> None:
    if _ENDING.is_set():
        raise InterpreterEnds("the interpreter is ending: no executor can be used any more")


@blocks_shutdown
def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call into C++; what it throws becomes an error of ours (Ctrl-C stays what it is)."""
    try:
        return function(*arguments)
    except THROWN as error:
        raise ours(error) from error


@blocks_shutdown
def call_for_list(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """`call`, of a function that returns a list of tvm-ffi's; the same as Python's."""
    return list(call(function, *arguments))


def ours(error: Exception) -> Exception:
    """What we raise in the place of an error of C++; names of a plan are its author's text."""
    text = printable(error, _LONGEST)
    kind = next((kind for kind in _KINDS if text.startswith(kind)), "")
    return _KINDS.get(kind, RunError)(text)


def _without_endings(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What tells of threads that failed, but for those whose run the interpreter's end has ended.

    Their tracebacks tell nobody anything; and a daemon thread that is writing one as the
    interpreter ends keeps stderr locked, on which Python aborts the process.
    """

    def tell(failed: Any) -> None:
        error = failed.exc_value
        if not (isinstance(error, RunError) and str(error).startswith(_ENDINGS)):
            hook(failed)

    return tell


@atexit.register
def _close_all(limit: float = 10.0) -> None:
    """End the runs of daemon threads before the interpreter ends; wait ``limit`` seconds at most.

    A thread that comes back from C++ to an interpreter that has ended is unwound by Python, and
    tvm-ffi's wrapper of a call aborts the process on that (with executors or without). A thread
    that is told "the interpreter is ending", and tries again, meets that before it gets so far.
    """
    threading.excepthook = _without_endings(threading.excepthook)  # first: who is refused fails
    _ENDING.set()
    executors = list(EXECUTORS)
    for executor in executors:
        executor.close()
    end = time.monotonic() + limit
    while _CALLERS - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.001)
    # Workers may be inside a function of Python, of requests that no one waits for.
    for executor in executors:
        with contextlib.suppress(RuntimeError):
            executor.join()
