"""Parameters of a request that say when and in what form it is to be answered.

`priority` and `timeout` are those of the protocol's extension "schedule policy": 0 is the default,
1 the highest; the timeout is in microseconds, and here covers all from the request's first byte to
its answer. Both can be told by headers too, which are there before the body is.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_hetero.serve.core.deadline import timeout_by_header, timeout_of, whole_number
from tvm_hetero.serve.core.query import Priority
from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.serve.oip.messages import Parameters
from tvm_hetero.util.quote import quote

PRIORITY_HEADER = "tvm-hetero-priority"
_REFUSED = ("shared_memory_", "sequence_", "classification")
_HIGHEST = 1


def priority_of(number: object) -> Priority:
    """Who goes first, by the protocol's number.

    Raises
    ------
    RequestError
        If it is no whole number.
    """
    if type(number) is not int or number < 0:
        raise RequestError(f"priority {quote(number)}: expected a whole number from 0 up")
    return Priority.HIGH if number == _HIGHEST else Priority.LOW


def scheduling_by_headers(headers: Mapping[str, str]) -> tuple[float | None, Priority]:
    """Timeout (s) and priority, as far as headers tell them.

    Raises
    ------
    RequestError
        If one is no whole number.
    """
    timeout, priority = timeout_by_header(headers), Priority.LOW
    if PRIORITY_HEADER in headers:
        priority = priority_of(whole_number(headers[PRIORITY_HEADER]))
    return timeout, priority


def scheduling_by_parameters(
    parameters: Parameters, arrived: float, by_headers: tuple[float | None, Priority]
) -> tuple[float | None, Priority]:
    """Deadline and priority; the earlier deadline counts, and the priority of the body.

    Raises
    ------
    RequestError
        If one is no whole number.
    """
    deadline, priority = by_headers
    if "timeout" in parameters:
        own = timeout_of(parameters["timeout"])
        if own is not None:
            deadline = arrived + own if deadline is None else min(deadline, arrived + own)
    if "priority" in parameters:
        priority = priority_of(parameters["priority"])
    return deadline, priority


def flag(parameters: Parameters, name: str, default: bool = False) -> bool:
    """A parameter that is true or false.

    Raises
    ------
    RequestError
        If it is neither.
    """
    value = parameters.get(name, default)
    if type(value) is not bool:
        raise RequestError(f"parameter {name!r}: expected true or false, got {quote(value)}")
    return value


def check_parameters(parameters: Parameters) -> None:
    """Refuse what would change the answer, and is not done here; others are passed over.

    Raises
    ------
    RequestError
        If there is one of them.
    """
    for name, value in parameters.items():
        if name.startswith(_REFUSED) and value:
            raise RequestError(f"parameter {quote(name)} is not supported by this server")
